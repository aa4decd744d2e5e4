"""The shapes that a model declares for its outputs, where inference finds none: behind operators of other domains, above all.

ONNX and onnxruntime infer nothing behind many operators of `com.microsoft` and `ai.onnx.ml`. What the model says of its outputs is
then all that is known; if it says nothing, the model is tried (`tried_shapes`). A shape is written for a batch of one, and the axis
that is the batch is marked, since no trace can find it.
"""

from collections.abc import Sequence, Set

from onnx import ModelProto, NodeProto, TensorShapeProto, ValueInfoProto

from cnna.compiler.frontend.batch.batch_axis import RULES
from cnna.compiler.frontend.batch.batch_moves import lost
from cnna.compiler.frontend.batch.tried_shapes import tried
from cnna.compiler.frontend.onnx_model.input_shapes import UNKNOWN, inputs_of
from cnna.compiler.frontend.onnx_model.subgraphs import captured

Dimension = TensorShapeProto.Dimension
BATCH = "DATA_BATCH"  # ONNX's own word for such an axis


def keep_declared(shaped: ModelProto, model: ModelProto, single: Set[str]) -> None:
    """Gives the outputs of a model with inferred shapes those that `model` declares, in place, where all but the batch are fixed.

    single: inputs without a batch.
    """
    declared = {value.name: value.type.tensor_type.shape.dim for value in model.graph.output}
    firsts = [dims[0] for value in inputs_of(model) if value.name not in single and (dims := value.type.tensor_type.shape.dim)]
    for value in shaped.graph.output:
        kind, dims = value.type.tensor_type, declared.get(value.name, ())
        if not value.type.HasField("tensor_type") or any(dim.dim_value for dim in kind.shape.dim) or not dims:
            continue
        if kind.HasField("shape") and len(kind.shape.dim) != len(dims):
            continue
        axis = _named(dims, firsts)
        if axis is None and _alike(dims[0], firsts):
            if _keeps_samples(value.name, shaped):
                axis = 0
            elif dims[0].dim_value != 1:
                continue  # the batch for which the model was written, or not: nobody knows what one sample has
        _write(value, [1 if number == axis else dim.dim_value for number, dim in enumerate(dims)], axis)
    _try_others(shaped, model, single)


def _try_others(shaped: ModelProto, model: ModelProto, single: Set[str]) -> None:
    """Gives outputs behind strangers that still have no shape the one that a trial run shows."""
    unknown = [one for one in shaped.graph.output if not any(dim.dim_value for dim in one.type.tensor_type.shape.dim)]
    unknown = [value for value in unknown if _keeps_samples(value.name, shaped)]
    if unknown:
        sizes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in inputs_of(shaped)}
        found = tried(model, [value.name for value in unknown], sizes, single)
        for value in unknown:
            if value.name in found:
                value.type.tensor_type.elem_type = found[value.name].kind
                _write(value, found[value.name].shape, found[value.name].axis)


def declared_axes(shaped: ModelProto) -> dict[str, int]:
    """The axes that `keep_declared` has marked, by output."""
    outputs = [(value.name, value.type.tensor_type.shape.dim) for value in shaped.graph.output]
    return {name: axis for name, dims in outputs for axis, dim in enumerate(dims) if dim.denotation == BATCH}


def _named(dims: Sequence[Dimension], firsts: Sequence[Dimension]) -> int | None:
    """The axis of an output that has the name of the inputs' batch."""
    names = {dim.dim_param for dim in firsts if _is_name(dim)}
    own = [axis for axis, dim in enumerate(dims) if dim.dim_param in names]
    return own[0] if len(own) == 1 else None


def _alike(first: Dimension, firsts: Sequence[Dimension]) -> bool:
    """Whether the first axis of an output is 1, or says as much as that of an input: its size, or neither size nor name."""
    return first.dim_value == 1 or (
        not _is_name(first) and any(dim.dim_value == first.dim_value and not _is_name(dim) for dim in firsts)
    )


def _is_name(dim: Dimension) -> bool:
    return bool(dim.dim_param) and UNKNOWN.fullmatch(dim.dim_param) is None


def _keeps_samples(name: str, shaped: ModelProto) -> bool:
    """Whether a tensor is made by operators of other domains, and by none that may find any number of things, such as boxes.

    The shape of what others make is unknown for a reason of its own, and its first size may be anything.
    """
    makers = {output: node for node in shaped.graph.node for output in node.output}
    waiting, seen, strange = [name], {name}, False
    while waiting:
        node = makers.get(waiting.pop(), NodeProto())
        own = node.domain in ("", "ai.onnx")
        if own and RULES.get(node.op_type) is lost:
            return False
        strange = strange or not own
        more = {*node.input, *captured(node)} - seen
        seen |= more
        waiting += more
    return strange


def _write(value: ValueInfoProto, sizes: Sequence[int], axis: int | None) -> None:
    """Writes a shape, if all of it is known."""
    if min(sizes) > 0:
        shape = TensorShapeProto()
        for number, size in enumerate(sizes):
            shape.dim.add(dim_value=size, denotation=BATCH if number == axis else "")
        value.type.tensor_type.shape.CopyFrom(shape)
