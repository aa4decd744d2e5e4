"""The inputs of a model: sizes that a user gives for open axes, what is wrong with the inputs, and where the batch is.

Every input of a graph has a batch axis in front, of size 1. If the model's own first axis is no batch (sizes, a scalar, an image
without a batch), the graph's input has one more axis, which a Squeeze removes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.model_checks import ELEMENTS_MAX, PORTS
from cnna.compiler.frontend.onnx_model.subgraphs import rename
from cnna.spec.errors import ModelError

Sizes = Mapping[str, Sequence[int]]
# What exporters write: no name of a size.
UNKNOWN = re.compile(r"[?*]+|-1?|none|null|nan|unk|unknown|undefined|unk_+\d+", re.IGNORECASE)


def inputs_of(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that the user gives: old models list their weights as inputs as well."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def set_shapes(model: ModelProto, shapes: Sizes) -> list[str]:
    """Gives inputs these sizes, in place; "" names the only input. A size with a name is set wherever that name stands.

    The first axis, the batch, stays as the model has it: `shapes` have 1 there. Returns a line for each name that would be two
    sizes; it counts as no name then. ModelError: no such input, another number of axes, another size than the model has, or
    another batch than 1.
    """
    _forget(model, lambda name: UNKNOWN.fullmatch(name) is not None)
    inputs = {value.name: value for value in inputs_of(model)}
    known: dict[str, int] = {}
    twice: dict[str, str] = {}
    for name, sizes in shapes.items():
        value = _named(inputs, name)
        shape = value.type.tensor_type.shape
        if not value.type.tensor_type.HasField("shape"):
            shape.dim.extend(TensorShapeProto.Dimension() for _ in sizes)
        _check_sizes(value, sizes)
        for axis, size in enumerate(sizes):
            dim = shape.dim[axis]
            if _is_batch(shape, axis) or dim.dim_value > 0:
                continue
            symbol = dim.dim_param
            if symbol and known.setdefault(symbol, size) != size:
                twice.setdefault(symbol, f"the size '{symbol}' is {known[symbol]} and, in input '{value.name}', {size}")
            dim.dim_value = size
    _forget(model, twice.__contains__)
    for value in (*model.graph.input, *model.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param in known and not _is_batch(value.type.tensor_type.shape, axis):
                dim.dim_value = known[dim.dim_param]
    return list(twice.values())


def _forget(model: ModelProto, chosen: Callable[[str], bool]) -> None:
    """Takes names off the sizes of inputs, outputs and tensors, so that they are merely unknown."""
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and chosen(dim.dim_param):
                dim.Clear()


def _named(inputs: Mapping[str, ValueInfoProto], name: str) -> ValueInfoProto:
    if not name and len(inputs) == 1:
        return next(iter(inputs.values()))
    if name not in inputs:
        there = f"{'is' if len(inputs) == 1 else 'are'} {', '.join(inputs)}"
        raise ModelError(
            f"--shape: there is no input '{name}'; there {there}" if name else f"--shape: name the input; there {there}"
        )
    return inputs[name]


def _is_batch(shape: TensorShapeProto, axis: int) -> bool:
    """Whether an axis is the batch: the first one is, except in a vector, which has one size for all samples (of boxes, say)."""
    return axis == 0 and len(shape.dim) > 1


def _check_sizes(value: ValueInfoProto, sizes: Sequence[int]) -> None:
    """ModelError: the input cannot have these sizes."""
    place, shape = f"--shape {value.name}:{','.join(map(str, sizes))}", value.type.tensor_type.shape
    own = "[" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 else dim.dim_param or "?" for dim in shape.dim) + "]"
    if len(sizes) != len(shape.dim):
        raise ModelError(
            f"{place}: has {len(sizes)} sizes, but the input has {len(shape.dim)} axes, {own}; give one size for each axis"
        )
    for axis, (size, dim) in enumerate(zip(sizes, shape.dim, strict=True)):
        if not 1 <= size <= ELEMENTS_MAX:
            raise ModelError(f"{place}: sizes must be within 1..{ELEMENTS_MAX:,}")
        if dim.dim_value > 0 and size != dim.dim_value and not (size == 1 and _is_batch(shape, axis)):
            raise ModelError(f"{place}: axis {axis} has the fixed size {dim.dim_value} in the model, {own}; export it with another")
        if _is_batch(shape, axis) and dim.dim_value <= 0 and size != 1:
            raise ModelError(f"{place}: the first axis is the batch; give 1 there, `cnna compile --batch {size}` sets the batch")


def check_inputs(model: ModelProto) -> None:
    """ModelError: no input; or an input without a numeric type, without a shape, with an open axis besides the batch, or too
    large.
    """
    inputs = inputs_of(model)
    if not inputs:
        raise ModelError("it has no input; export it with one for the images")
    for value in inputs:
        shape = value.type.tensor_type.shape
        if (kind := value.type.tensor_type.elem_type) not in PORTS:
            raise ModelError(
                f"input '{value.name}' is {TensorProto.DataType.Name(kind)}; only floats, integers and bool that .npz files hold do"
            )
        if not value.type.tensor_type.HasField("shape"):
            raise ModelError(f"input '{value.name}' has no shape; give it one with --shape {value.name}:1,CHANNELS,ROWS,COLUMNS")
        if unknown := [axis for axis, dim in enumerate(shape.dim) if dim.dim_value <= 0 and axis]:
            several = len(unknown) > 1
            axes = f"{'axes' if several else 'axis'} {' and '.join(map(str, unknown))} of input '{value.name}'"
            raise ModelError(f"{axes} {'have' if several else 'has'} no fixed size; say it with --shape {_example(value)}")
        sizes = [dim.dim_value for dim in shape.dim[1:]]
        if prod(sizes) > ELEMENTS_MAX:
            raise ModelError(f"input '{value.name}' is {sizes}, above {ELEMENTS_MAX:,} elements; use smaller images")


def _example(value: ValueInfoProto) -> str:
    """`--shape` for an input, with a name in capitals in place of each number that the user must give."""
    dims = list(value.type.tensor_type.shape.dim)
    words = [str(dim.dim_value) if dim.dim_value > 0 else f"SIZE{axis}" for axis, dim in enumerate(dims[1:], 1)]
    return f"{value.name}:{','.join(['1', *words])}"


def batch_choices(model: ModelProto) -> tuple[frozenset[str], ...]:
    """The inputs that may be those without a batch, the likeliest choice first; there are two at most.

    The first are those of `unbatched`. The second has all others with a fixed first axis above 1 too, if there are any.
    """
    sizes = unbatched(model)
    fixed = sizes | {value.name for value in inputs_of(model) if first_size(value) > 1}
    return (sizes,) if fixed == sizes else (sizes, fixed)


def unbatched(model: ModelProto) -> frozenset[str]:
    """Inputs whose first axis is no batch, judged by what the model declares: single numbers, and inputs of another fixed first
    size.

    If the first input of two or more axes leaves its first axis open or has 1 there, the batch is 1. Otherwise it is as large as
    that input's first axis.
    """
    inputs = inputs_of(model)
    several = [first_size(value) for value in inputs if len(value.type.tensor_type.shape.dim) > 1]
    batch = 1 if 1 in several else several[0] if several else 1
    return frozenset(value.name for value in inputs if first_size(value) not in (1, batch))


def first_size(value: ValueInfoProto) -> int:
    """The size of the first axis; 1 if it is open, 0 if there is no axis."""
    dims = value.type.tensor_type.shape.dim
    return max(1, int(dims[0].dim_value)) if dims else 0


def set_batch(model: ModelProto, single: frozenset[str]) -> None:
    """Gives every input a batch axis of size 1 in front, in place. Inputs of `single` get a new axis, which a Squeeze removes."""
    given = {}
    first = []
    for value in inputs_of(model):
        shape = value.type.tensor_type.shape
        if value.name in single:
            first += _squeeze(model, value)
            sizes = [dim.dim_value for dim in shape.dim]
            value.type.CopyFrom(helper.make_tensor_type_proto(value.type.tensor_type.elem_type, [1, *sizes]))
        else:
            _free_reshapes(model, shape.dim[0].dim_value)
            shape.dim[0].Clear()
            shape.dim[0].dim_value = 1
        given[value.name] = value
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*first, *rest])
    for value in model.graph.output:
        if value.name in given:
            value.type.CopyFrom(given[value.name].type)
        elif value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")  # it is inferred again
    del model.graph.value_info[:]


def whole_name(name: str) -> str:
    """The name, behind the Squeeze, of an input without a batch as the model has it."""
    return f"{name}:whole"


def _squeeze(model: ModelProto, value: ValueInfoProto) -> list[NodeProto]:
    """The node that makes the input as the model has it. All readers now read that node's output."""
    inner, axes = whole_name(value.name), f"{value.name}:front"
    for node in model.graph.node:
        rename(node, {value.name: inner})
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), axes))
    return [helper.make_node("Squeeze", [value.name, axes], [inner], inner)]


def _free_reshapes(model: ModelProto, batch: int) -> None:
    """Lets a Reshape that names a fixed batch above 1 take it from its input instead, so that the batch can be 1."""
    if batch < 2:
        return
    targets = {node.input[1] for node in model.graph.node if node.op_type == "Reshape" and len(node.input) > 1}
    for tensor in model.graph.initializer:
        if tensor.name in targets:
            shape = numpy_helper.to_array(tensor).copy()
            if shape.ndim == 1 and shape.size and shape[0] == batch:
                shape[0] = 0
                tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))


def sizes_of(value: ValueInfoProto) -> list[int | None]:
    """The sizes that a model declares, None where it declares none."""
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
