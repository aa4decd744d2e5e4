"""Where the batch lies in each tensor of a float graph, so that the host can join the answers to several samples.

The graph is seen with a batch of one. With a batch of N, a tensor holds N times the elements. `Spot(axis, outer)` says where the
factor N goes: into `axis`, inside of `outer` and outside of the rest of that axis. A Reshape to [-1, 4] makes [72, 4] of [N, 288]:
sample after sample, Spot(0, 1). A Reshape to [-1, 5] makes [16, 5] of [16, N, 5]: the samples alternate, Spot(0, 16). If `outer` is
1, the answer to N samples is the N single answers, concatenated along `axis`.

Each ONNX operator has a rule: it gives the Spot of an output, or None if no axis tells the samples apart any more.
"""

from collections.abc import Mapping, Sequence

from cnna.compiler.frontend.batch.batch_moves import (
    flatten,
    gather,
    gather_nd,
    lost,
    one_hot,
    reshape,
    scatter_nd,
    squeeze,
    transpose,
    unsqueeze,
)
from cnna.compiler.frontend.batch.batch_sums import (
    along,
    best_index,
    broadcast,
    cumulated,
    einsum,
    from_axis,
    gemm,
    images,
    matmul,
    normalised,
    recurrent,
    reduce,
    same_rank,
    triangle,
)
from cnna.compiler.frontend.batch.batch_trace import Rule, Spot, Trace
from cnna.compiler.frontend.onnx_model.input_shapes import whole_name
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.graph.node_names import kind_of

SCALING = "DynamicQuantizeLinear"  # whose scale and zero point have no axis
SCALED = (SCALING, "DynamicQuantizeMatMul")  # take one scale for all samples
INDEPENDENT = ("Shape", "Size", "ConstantOfShape", "EyeLike")  # their result does not depend on the values of the operand
CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "DeformConv")
BROADCAST = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Mean", "Where", "Expand", "PRelu", "And", "Or", "Xor"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)
REDUCE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(BROADCAST, broadcast),
    **{f"Reduce{kind}": reduce for kind in REDUCE},
    **dict.fromkeys(("ArgMax", "ArgMin"), best_index),
    **dict.fromkeys(CONVOLUTIONS, images),
    **dict.fromkeys(("Concat", "Split"), along(0)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), along(-1)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), from_axis(-1)),
    **dict.fromkeys(("CumSum", "CumProd"), cumulated),
    **dict.fromkeys(("GatherElements", "ScatterElements"), along(0)),
    **dict.fromkeys(("MatMul", "MatMulInteger"), matmul),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(("NonZero", "NonMaxSuppression", "RoiAlign", "MaxRoiPool", "If", "Loop", "Scan", "Compress", "Unique"), lost),
    "Einsum": einsum,
    "Flatten": flatten,
    "Gather": gather,
    "GatherND": gather_nd,
    "Gemm": gemm,
    "MeanVarianceNormalization": normalised,
    "OneHot": one_hot,
    "Reshape": reshape,
    "ScatterND": scatter_nd,
    "Squeeze": squeeze,
    "TopK": along(-1),
    "Trilu": triangle,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}


def batch_axes(graph: Graph) -> dict[str, int | None]:
    """For each tensor that depends on the inputs, the axis along which samples join, or None. Every node must be an `Onnx`."""
    spots = _traced(graph).spots
    return {name: spot.axis if spot and spot.outer == 1 else None for name, spot in spots.items()}


def front_fault(graph: Graph, sizes: Mapping[str, int]) -> str | None:
    """Why the first axis of an input is no batch; None: each is one. sizes: of these axes in the model; the graph has 1 there.

    A convolution uses such an axis as rows, columns or channels, so all but one of these would be lost.
    """
    several = [name for name in graph.inputs if sizes.get(name, 1) > 1]
    if not several:
        return None
    trace = _traced(graph)
    for node in graph.nodes:
        spot = trace.first(node) if kind_of(node) in CONVOLUTIONS else None
        if spot and spot.axis:
            name = several[0]
            wanted = ", ".join(map(str, ("N", sizes[name], *graph.tensors[name].shape[1:])))
            return (
                f"{graph.name}: the first axis of input '{name}', of size {sizes[name]}, is taken for the batch, but it is axis "
                f"{spot.axis} for node '{node.name}' ({kind_of(node)}); give the input a batch axis in front, [{wanted}]"
            )
    return None


def back_fault(graph: Graph, samples: int, shapes: Mapping[str, Sequence[int | None]]) -> str | None:
    """Why the joined answers to `samples` have other shapes than the model's, which was made for so many; None: they have these.

    shapes: of the model's outputs, with None for an unknown size. A fault means that a constant of the model holds the number of
    samples, so that the answer to one sample is wrong.
    """
    trace = _traced(graph)
    if node := next((node for node in graph.nodes if kind_of(node) in SCALED and trace.first(node)), None):
        return (
            f"{graph.name}: node '{node.name}' ({kind_of(node)}) takes one scale for the {samples} samples that the model is made "
            "for; export the model for a batch of 1, or of any size"
        )
    axes = batch_axes(graph)
    for name in shapes:
        shape, wanted, axis = graph.tensors[name].shape, tuple(shapes[name]), axes.get(name)
        if None in wanted and (axis is None or 0 in shape):
            continue  # the size depends on the data
        joined = tuple(samples * size if place == axis else size for place, size in enumerate(shape))
        same = len(joined) == len(wanted) and all(size in (None, own) for size, own in zip(wanted, joined, strict=True))
        if axis is None or not same:
            whole = [size or "?" for size in wanted]
            return (
                f"{graph.name}: output '{name}' has the shape {whole} for the {samples} samples that the model is made for, and "
                f"{list(shape)} for one of them alone; export the model for a batch of 1, or of any size"
            )
    return None


def _traced(graph: Graph) -> Trace:
    """The spots of all tensors."""
    trace = Trace(graph, dict.fromkeys(graph.inputs, Spot(0)))
    whole = {whole_name(name) for name in graph.inputs}
    for node in graph.nodes:
        if node.output in whole or set(trace.varying(node)) & trace.singles:
            trace.singles.update(outputs_of(node))
        elif kind_of(node) == SCALING:
            trace.singles.update(outputs_of(node)[1:])
        if trace.varying(node) and kind_of(node) not in INDEPENDENT:
            trace.spots.update({name: _spot(trace, node, name) for name in outputs_of(node) if name})
    return trace


def _spot(trace: Trace, node: Node, output: str) -> Spot | None:
    """The spot of one output, by the rule of the node's operator."""
    rule = same_rank if node.op.domain else RULES.get(node.op.kind, same_rank)
    if rule is not images and not any(trace.spots[name] for name in trace.varying(node)):
        return None
    spot = rule(trace, node, output)
    return spot if spot and spot.axis < len(trace.shape(output)) else None
