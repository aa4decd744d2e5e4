"""Makes a copy of a model without the data of its large weights, for uses that need only their types and shapes.

ONNX's checker and shape inference write a model into a string several times, and this string can have 2 GB at most. A hollow model
is small, so it saves this memory and time, and models of up to 2 GB can be read.
"""

from collections.abc import MutableSequence, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

GREAT = 1 << 10  # elements: no shape, axis or limit that inference looks at has more
_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def elements_of(tensor: TensorProto) -> int:
    """The number of elements, according to the shape."""
    return prod(tensor.dims)


def hollow(model: ModelProto) -> ModelProto:
    """A copy in which initialisers of more than `GREAT` elements have only name, type and shape."""
    copy = ModelProto()
    _copy_fields(model, copy, "graph")
    _copy_fields(model.graph, copy.graph, "initializer")
    for tensor in model.graph.initializer:
        if elements_of(tensor) > GREAT:
            copy.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            copy.graph.initializer.add().CopyFrom(tensor)
    return copy


def is_hollow(tensor: TensorProto) -> bool:
    """Whether a tensor has elements according to its shape, but no data."""
    data = tensor.HasField("raw_data") or any(len(getattr(tensor, name)) for name in _DATA)
    return not data and elements_of(tensor) > 0


def held_elsewhere(name: str, shape: Sequence[int]) -> TensorProto:
    """An initialiser of float32 whose elements whoever runs the model gives to onnxruntime."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="memory")
    return tensor


def without_weights(model: ModelProto) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A copy without the data of the great weights of float32, and these by name."""
    copy, weights = hollow(model), dict[str, np.ndarray]()
    for place, tensor in enumerate(model.graph.initializer):
        if not is_hollow(copy.graph.initializer[place]):
            continue
        if tensor.data_type == TensorProto.FLOAT and tensor.name:
            weights[tensor.name] = numpy_helper.to_array(tensor)
            copy.graph.initializer[place].CopyFrom(held_elsewhere(tensor.name, tensor.dims))
        else:
            copy.graph.initializer[place].CopyFrom(tensor)
    return copy, weights


def as_inputs(model: ModelProto) -> ModelProto:
    """A copy of a hollow model in which such weights are inputs: the checker refuses initialisers without data."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.initializer[:]
    given = {value.name for value in copy.graph.input}
    for tensor in model.graph.initializer:
        if not is_hollow(tensor):
            copy.graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in given:
            copy.graph.input.append(_input(tensor))
    return copy


def _input(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _copy_fields(source: Any, target: Any, but: str) -> None:
    """Copies every set field of a protobuf message, except one."""
    for field, value in source.ListFields():
        if field.name == but:
            continue
        if isinstance(value, MutableSequence):  # protobuf 5 says so by `field.label`, and 7 by `field.is_repeated` alone
            getattr(target, field.name).extend(value)
        elif field.message_type is not None:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
