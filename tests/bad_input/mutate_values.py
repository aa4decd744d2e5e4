"""Damages constants, inputs and outputs at random: data, dimensions, element types, values, names."""

import random
from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from .mishaps import REAL, TYPES, WHOLE, tensors_of


def _constant(model: ModelProto, rng: random.Random) -> TensorProto:
    return rng.choice(model.graph.initializer)


def drop_constant(model: ModelProto, rng: random.Random) -> str:
    index = rng.randrange(len(model.graph.initializer))
    name = model.graph.initializer[index].name
    del model.graph.initializer[index]
    return name


def double_constant(model: ModelProto, rng: random.Random) -> str:
    tensor = TensorProto()
    tensor.CopyFrom(_constant(model, rng))
    model.graph.initializer.append(tensor)
    return tensor.name


def constant_bytes(model: ModelProto, rng: random.Random) -> str:
    tensor = _constant(model, rng)
    size, way = len(tensor.raw_data), rng.randrange(6)
    if way == 0:
        tensor.raw_data = tensor.raw_data[:-1]
    elif way == 1:
        tensor.raw_data += b"\0" * rng.choice((1, 4, 400))
    elif way == 2:
        tensor.ClearField("raw_data")
    elif way == 3:
        tensor.float_data.extend([0.5] * max(1, size // 4 - rng.randrange(2)))
    elif way == 4:
        tensor.ClearField("raw_data")
        tensor.float_data.extend([0.5] * (size // 4 - rng.randrange(2)))
    else:
        tensor.data_location = TensorProto.EXTERNAL
        if rng.random() < 0.5:
            tensor.external_data.add(key="location", value="/etc/passwd")
    return f"{tensor.name} way {way}"


def constant_dims(model: ModelProto, rng: random.Random) -> str:
    tensor = _constant(model, rng)
    dims, way = list(tensor.dims), rng.randrange(5)
    if way == 0:
        tensor.dims.append(1)
    elif way == 1:
        tensor.dims.insert(0, 1)
    elif way == 2:
        tensor.dims[:] = [int(np.prod(dims))]
    elif way == 3:
        tensor.dims[rng.randrange(len(dims))] = rng.choice(WHOLE)
    else:
        rng.shuffle(dims)
        tensor.dims[:] = dims
    return f"{tensor.name} {list(tensor.dims)}"


def constant_type(model: ModelProto, rng: random.Random) -> str:
    tensor = _constant(model, rng)
    tensor.data_type = rng.choice(TYPES)
    return f"{tensor.name} {tensor.data_type}"


def constant_cast(model: ModelProto, rng: random.Random) -> str:
    tensor = _constant(model, rng)
    kind = rng.choice(("float64", "float16", "int32", "int64", "int8", "uint8", "bool", "float32", "int16"))
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(kind), tensor.name))
    return f"{tensor.name} {kind}"


def constant_shape(model: ModelProto, rng: random.Random) -> str:
    """Gives a constant another shape, and data that fit it."""
    tensor = _constant(model, rng)
    value, way = numpy_helper.to_array(tensor), rng.randrange(7)
    if way == 0:
        value = value[..., None]
    elif way == 1:
        value = value[None]
    elif way == 2:
        value = value.reshape(-1)
    elif way == 3:
        value = np.concatenate([value.reshape(-1)] * 2)
    elif way == 4:
        value = value[:0] if value.ndim else value.reshape(1)[:0]
    elif way == 5:
        value = value[: len(value) - 1]
    else:
        value = np.concatenate([value, value[:1]])
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), tensor.name))
    return f"{tensor.name} {value.shape}"


def constant_value(model: ModelProto, rng: random.Random) -> str:
    tensor = _constant(model, rng)
    value = numpy_helper.to_array(tensor).copy()
    choice: Sequence[float] = (
        REAL if value.dtype.kind == "f" else [v for v in WHOLE if np.iinfo(value.dtype).min <= v <= np.iinfo(value.dtype).max]
    )
    new = rng.choice(choice)
    if rng.random() < 0.3:
        value[...] = new
    else:
        flat = value.reshape(-1)
        flat[rng.randrange(len(flat))] = new
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return f"{tensor.name} {new}"


def constant_as_input(model: ModelProto, rng: random.Random) -> str:
    """Makes a constant an input too, as in old IR versions, sometimes of another type or shape."""
    tensor = _constant(model, rng)
    kind = tensor.data_type if rng.random() < 0.6 else rng.choice(TYPES)
    dims = list(tensor.dims) if rng.random() < 0.6 else [rng.choice((1, 2, "n"))]
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, kind, dims))
    return f"{tensor.name} {kind} {dims}"


def constant_as_node(model: ModelProto, rng: random.Random) -> str:
    tensor = TensorProto()
    tensor.CopyFrom(_constant(model, rng))
    model.graph.initializer.remove(tensor)
    model.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
    return tensor.name


# --- inputs and outputs ---


def _value(model: ModelProto, rng: random.Random) -> ValueInfoProto:
    return rng.choice((*model.graph.input, *model.graph.output))


def value_dims(model: ModelProto, rng: random.Random) -> str:
    value = _value(model, rng)
    shape, way = value.type.tensor_type.shape, rng.randrange(6)
    if way == 0:
        value.type.tensor_type.ClearField("shape")
    elif way == 1:
        shape.dim.add().dim_value = rng.choice(WHOLE)
    elif way == 2:
        del shape.dim[rng.randrange(len(shape.dim))]
    elif way == 3:
        shape.dim[rng.randrange(len(shape.dim))].dim_param = "free"
    elif way == 4:
        shape.dim[rng.randrange(len(shape.dim))].Clear()
    else:
        shape.dim[rng.randrange(len(shape.dim))].dim_value = rng.choice(WHOLE)
    return f"{value.name} {[dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]}"


def value_type(model: ModelProto, rng: random.Random) -> str:
    value = _value(model, rng)
    if rng.random() < 0.3:
        value.ClearField("type")
        if rng.random() < 0.5:
            value.type.sequence_type.elem_type.tensor_type.elem_type = 1
        return f"{value.name} none"
    value.type.tensor_type.elem_type = rng.choice(TYPES)
    return f"{value.name} {value.type.tensor_type.elem_type}"


def value_name(model: ModelProto, rng: random.Random) -> str:
    value = _value(model, rng)
    old, value.name = value.name, rng.choice(tensors_of(model))
    return f"{old} now {value.name!r}"


def drop_value(model: ModelProto, rng: random.Random) -> str:
    values = rng.choice((model.graph.input, model.graph.output))
    del values[rng.randrange(len(values))]
    return "dropped"


def add_value(model: ModelProto, rng: random.Random) -> str:
    values = rng.choice((model.graph.input, model.graph.output))
    name = rng.choice(tensors_of(model))
    shapes: tuple[list[str | int | None] | None, ...] = (None, ["n", 3, 8, 8], [], [1])
    values.append(helper.make_tensor_value_info(name, rng.choice((1, rng.choice(TYPES))), rng.choice(shapes)))
    return f"{name!r} {'output' if values is model.graph.output else 'input'}"


def value_info(model: ModelProto, rng: random.Random) -> str:
    name = rng.choice(tensors_of(model))
    model.graph.value_info.append(
        helper.make_tensor_value_info(name, rng.choice(TYPES), [rng.choice((1, 2, 8, "n"))] * rng.randrange(5))
    )
    return name


MUTATIONS = (
    *(drop_constant, double_constant, constant_bytes, constant_dims, constant_type, constant_cast, constant_shape, constant_shape),
    *(constant_value, constant_value, constant_as_input, constant_as_node),
    *(value_dims, value_type, value_name, drop_value, add_value, value_info),
)
