"""The sizes of a model's inputs: those that a user gives for axes without a fixed one, and what is wrong with those of a model."""

from collections.abc import Mapping, Sequence
from math import prod

from onnx import ModelProto, TensorShapeProto, ValueInfoProto

from cnna.compiler.frontend.model_checks import ELEMENTS_MAX
from cnna.spec.errors import ModelError

Sizes = Mapping[str, Sequence[int]]


def inputs_of(model: ModelProto) -> list[ValueInfoProto]:
    """Inputs that the user gives: old models list their weights as inputs as well."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def set_shapes(model: ModelProto, shapes: Sizes) -> None:
    """Gives inputs these sizes, in place; "" names the only input. A size that has a name is set wherever that name stands.

    The first axis, the batch, stays as the model has it: `shapes` have 1 there. ModelError: no such input, another number of
    axes, another size than the model has, another batch than 1.
    """
    inputs = {value.name: value for value in inputs_of(model)}
    known: dict[str, int] = {}
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
                raise ModelError(f"--shape: the size '{symbol}' is {known[symbol]} and, in input '{value.name}', {size}")
            dim.dim_value = size
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in known:
                dim.dim_value = known[dim.dim_param]


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
    """The first axis, except of a vector: that has one size for all samples, of the number of boxes, say."""
    return axis == 0 and len(shape.dim) > 1


def _check_sizes(value: ValueInfoProto, sizes: Sequence[int]) -> None:
    """ModelError: they cannot be the input's."""
    place, shape = f"--shape {value.name}:{','.join(map(str, sizes))}", value.type.tensor_type.shape
    own = "[" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 else dim.dim_param or "?" for dim in shape.dim) + "]"
    if len(sizes) != len(shape.dim):
        raise ModelError(f"{place}: has {len(sizes)} sizes, but the input has {len(shape.dim)} axes, {own}")
    for axis, (size, dim) in enumerate(zip(sizes, shape.dim, strict=True)):
        if not 1 <= size <= ELEMENTS_MAX:
            raise ModelError(f"{place}: sizes must be within 1..{ELEMENTS_MAX:,}")
        if dim.dim_value > 0 and size != dim.dim_value and not (size == 1 and _is_batch(shape, axis)):
            raise ModelError(f"{place}: axis {axis} has the fixed size {dim.dim_value} in the model, {own}; export it with another")
        if _is_batch(shape, axis) and dim.dim_value <= 0 and size != 1:
            raise ModelError(f"{place}: the first axis is the batch; give 1 there, `cnna compile --batch {size}` sets the batch")


def check_inputs(model: ModelProto) -> None:
    """ModelError: no input at all, or one without a shape, with an axis of unknown size beside the batch, or too large."""
    inputs = inputs_of(model)
    if not inputs:
        raise ModelError("it has no input; export it with one for the images")
    for value in inputs:
        shape = value.type.tensor_type.shape
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
    """`--shape` for an input, with a name in capitals where the user's number goes."""
    dims = list(value.type.tensor_type.shape.dim)
    words = [str(dim.dim_value) if dim.dim_value > 0 else f"SIZE{axis}" for axis, dim in enumerate(dims[1:], 1)]
    return f"{value.name}:{','.join(['1', *words])}"
