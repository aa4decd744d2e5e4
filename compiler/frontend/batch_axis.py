"""Where the batch lies in each tensor of a float graph, so that the host can join the answers to several samples.

The graph is seen with a batch of one. With a batch of N, a tensor holds N times the elements. `Spot(axis, outer)` says where the
factor N goes: into `axis`, inside of `outer` and outside of the rest of that axis. A Reshape to [-1, 4] makes [72, 4] of [N, 288]:
sample after sample, Spot(0, 1). A Reshape to [-1, 5] makes [16, 5] of [16, N, 5]: the samples alternate, Spot(0, 16). Where `outer`
is 1, the answer to N samples is the N single answers, concatenated along `axis`.

A rule for each ONNX operator answers with the Spot of an output, or None where the samples can no longer be told apart by an axis.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from cnna.compiler.frontend.input_shapes import whole_name
from cnna.compiler.frontend.node_names import kind_of
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Graph, Node
from cnna.spec.errors import ModelError


class Spot(NamedTuple):
    """The batch is in `axis`, inside of `outer` of its elements."""

    axis: int
    outer: int = 1


def batch_axes(graph: Graph) -> dict[str, int | None]:
    """For each tensor that depends on the inputs: the axis along which samples join, or None. Every node is an `Onnx`."""
    spots = _Trace(graph).spots
    return {name: spot.axis if spot and spot.outer == 1 else None for name, spot in spots.items()}


def check_front(graph: Graph, sizes: Mapping[str, int]) -> None:
    """That the first axis of each input is a batch. `sizes`: those axes as the model has them; the graph has 1 in their place.

    ModelError: a convolution has such an axis among its rows, columns or channels, of which all but one would be lost.
    """
    several = [name for name in graph.inputs if sizes.get(name, 1) > 1]
    if not several:
        return
    trace = _Trace(graph)
    for node in graph.nodes:
        spot = trace.first(node) if kind_of(node) in CONVOLUTIONS else None
        if spot and spot.axis:
            name = several[0]
            wanted = ", ".join(map(str, ("N", sizes[name], *graph.tensors[name].shape[1:])))
            raise ModelError(
                f"{graph.name}: the first axis of input '{name}', of size {sizes[name]}, is taken for the batch, but it is axis "
                f"{spot.axis} for node '{node.name}' ({kind_of(node)}); give the input a batch axis in front, [{wanted}]"
            )


def check_back(graph: Graph, samples: int, shapes: Mapping[str, Sequence[int | None]]) -> None:
    """That the answers to `samples`, joined, have the shapes of the model, which was made for so many. None: an unknown size.

    ModelError: they have others. A constant of the model holds the number of samples, so one sample alone is answered wrongly.
    """
    axes = batch_axes(graph)
    for name in shapes:
        shape, wanted, axis = graph.tensors[name].shape, tuple(shapes[name]), axes.get(name)
        if None in wanted and (axis is None or 0 in shape):
            continue  # it depends on the data
        joined = tuple(samples * size if place == axis else size for place, size in enumerate(shape))
        same = len(joined) == len(wanted) and all(size in (None, own) for size, own in zip(wanted, joined, strict=True))
        if axis is None or not same:
            whole = [size or "?" for size in wanted]
            raise ModelError(
                f"{graph.name}: output '{name}' has the shape {whole} for the {samples} samples that the model is made for, and "
                f"{list(shape)} for one of them alone; export the model for a batch of 1, or of any size"
            )


@dataclass
class _Trace:
    """The spots that are known so far; a tensor that does not depend on the inputs has no entry."""

    graph: Graph
    spots: dict[str, Spot | None] = field(default_factory=dict)
    singles: set[str] = field(default_factory=set)  # what depends on inputs alone that have no batch in the user's model

    def __post_init__(self) -> None:
        self.spots.update(dict.fromkeys(self.graph.inputs, Spot(0)))
        for node in self.graph.nodes:
            if node.output in map(whole_name, self.graph.inputs) or set(self.varying(node)) & self.singles:
                self.singles.update(outputs_of(node))
            if self.varying(node) and kind_of(node) not in INDEPENDENT:
                self.spots.update({name: self._spot(node, name) for name in outputs_of(node) if name})

    def _spot(self, node: Node, output: str) -> Spot | None:
        rule = _same_rank if node.op.domain else RULES.get(node.op.kind, _same_rank)
        if rule is not _images and not any(self.spots[name] for name in self.varying(node)):
            return None
        spot = rule(self, node, output)
        return spot if spot and spot.axis < len(self.shape(output)) else None

    def first(self, node: Node) -> Spot | None:
        """Of a node's first operand."""
        return self.spots.get(node.inputs[0])

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor or constant; () where nothing is known, 0 for an axis of unknown size."""
        return self.graph.constants[name].shape if name in self.graph.constants else self.graph.tensors[name].shape

    def numbers(self, node: Node, place: int, attribute: str) -> tuple[int, ...] | None:
        """Axes or sizes that a node has as an attribute or, in newer opsets, as a constant input; None where it has neither."""
        if attribute in node.op.attributes:
            value = node.op.attributes[attribute]
        elif len(node.inputs) > place and node.inputs[place] in self.graph.constants:
            value = self.graph.constants[node.inputs[place]]
        else:
            return None
        return tuple(int(number) for number in np.asarray(value).reshape(-1))

    def varying(self, node: Node) -> list[str]:
        """The operands that depend on the model's inputs: those that have a batch, if there are any."""
        names = [name for name in node.inputs if name in self.spots]
        return [name for name in names if name not in self.singles] or names

    def kept(self, output: str, found: Iterable[tuple[Spot | None, str]]) -> Spot | None:
        """The one spot that all operands lead to, if the output is as long there as the longest of them. `found`: spot, operand."""
        after, spots, sizes = self.shape(output), set(), [0]
        for spot, name in found:
            own = self.spots[name]
            if spot is None or own is None:
                return None
            spots.add(spot)
            sizes.append(self.shape(name)[own.axis])
        if len(spots) != 1:
            return None
        (spot,) = spots
        return spot if 0 <= spot.axis < len(after) and after[spot.axis] == max(sizes) > 0 else None


Rule = Callable[[_Trace, Node, str], Spot | None]
INDEPENDENT = ("Shape", "Size", "ConstantOfShape", "EyeLike")  # what they make does not depend on the values of their operand


def _axis(node: Node, rank: int, default: int) -> int:
    return int(node.op.attributes.get("axis", default)) % max(rank, 1)


def _same_rank(trace: _Trace, node: Node, output: str) -> Spot | None:
    """An operator that leaves axes where they are."""
    rank = len(trace.shape(output))
    names = trace.varying(node)
    return trace.kept(output, ((trace.spots[n] if len(trace.shape(n)) == rank else None, n) for n in names))


def _broadcast(trace: _Trace, node: Node, output: str) -> Spot | None:
    """Operands of different ranks are aligned at their last axes."""
    rank = len(trace.shape(output))
    return trace.kept(output, ((_moved(trace.spots[n], rank - len(trace.shape(n))), n) for n in trace.varying(node)))


def _moved(spot: Spot | None, by: int) -> Spot | None:
    return spot and spot._replace(axis=spot.axis + by)


def _along(default: int) -> Rule:
    """An operator that mixes the elements of one axis, which must not be the batch's."""

    def rule(trace: _Trace, node: Node, output: str) -> Spot | None:
        spot = _same_rank(trace, node, output)
        return None if spot and spot.axis == _axis(node, len(trace.shape(output)), default) else spot

    return rule


def _from(default: int) -> Rule:
    """An operator that mixes the elements of all axes from one on."""

    def rule(trace: _Trace, node: Node, output: str) -> Spot | None:
        spot = _same_rank(trace, node, output)
        return None if spot and spot.axis >= _axis(node, len(trace.shape(output)), default) else spot

    return rule


def _summed(trace: _Trace, node: Node, output: str) -> Spot | None:
    """CumSum or CumProd, whose axis is an input."""
    spot, axes = _same_rank(trace, node, output), trace.numbers(node, 1, "axis")
    return None if spot is None or axes is None or spot.axis == axes[0] % len(trace.shape(output)) else spot


def _normalised(trace: _Trace, node: Node, output: str) -> Spot | None:
    """MeanVarianceNormalization, over the pixels of all samples unless `axes` say otherwise."""
    spot, rank = _same_rank(trace, node, output), len(trace.shape(output))
    mixed = {axis % max(rank, 1) for axis in node.op.attributes.get("axes", (0, 2, 3))}
    return None if spot and spot.axis in mixed else spot


def _images(trace: _Trace, node: Node, output: str) -> Spot | None:
    """A convolution takes images one by one: a single one is the sample's, even if its batch was squeezed and put back."""
    if trace.shape(node.inputs[0])[:1] == trace.shape(output)[:1] == (1,) and node.inputs[0] in trace.spots:
        return Spot(0)
    spot = _same_rank(trace, node, output)
    return spot if spot and spot.axis == 0 else None


def _transpose(trace: _Trace, node: Node, output: str) -> Spot | None:
    spot, rank = trace.first(node), len(trace.shape(node.inputs[0]))
    perm = tuple(node.op.attributes.get("perm", reversed(range(rank))))
    return spot and spot._replace(axis=perm.index(spot.axis))


def _flatten(trace: _Trace, node: Node, output: str) -> Spot | None:
    spot, shape = trace.first(node), trace.shape(node.inputs[0])
    if spot is None:
        return None
    cut = int(node.op.attributes.get("axis", 1))
    cut += len(shape) if cut < 0 else 0
    first = 0 if spot.axis < cut else cut
    return Spot(int(spot.axis >= cut), prod(shape[first : spot.axis]) * spot.outer)


def _squeeze(trace: _Trace, node: Node, output: str) -> Spot | None:
    spot, shape = trace.first(node), trace.shape(node.inputs[0])
    if spot is None:
        return None
    axes = trace.numbers(node, 1, "axes")
    gone = {axis % len(shape) for axis in axes} if axes else {axis for axis, size in enumerate(shape) if size == 1}
    return _without(spot, gone)


def _without(spot: Spot | None, gone: set[int]) -> Spot | None:
    if spot is None or spot.axis in gone:
        return None
    return spot._replace(axis=spot.axis - sum(axis < spot.axis for axis in gone))


def _unsqueeze(trace: _Trace, node: Node, output: str) -> Spot | None:
    spot, rank = trace.first(node), len(trace.shape(output))
    axes = trace.numbers(node, 1, "axes")
    if spot is None or axes is None:
        return None
    new = {axis % rank for axis in axes}
    return spot._replace(axis=[axis for axis in range(rank) if axis not in new][spot.axis])


def _reduce(trace: _Trace, node: Node, output: str) -> Spot | None:
    spot, rank = trace.first(node), len(trace.shape(node.inputs[0]))
    if spot is None:
        return None
    axes = trace.numbers(node, 1, "axes")
    if not axes:
        axes = () if node.op.attributes.get("noop_with_empty_axes") else tuple(range(rank))
    return _reduced(spot, {axis % rank for axis in axes}, node)


def _best_index(trace: _Trace, node: Node, output: str) -> Spot | None:
    """ArgMax or ArgMin."""
    return _reduced(trace.first(node), {_axis(node, len(trace.shape(node.inputs[0])), 0)}, node)


def _reduced(spot: Spot | None, axes: set[int], node: Node) -> Spot | None:
    if spot is None or spot.axis in axes:
        return None
    return spot if node.op.attributes.get("keepdims", 1) else _without(spot, axes)


def _gather(trace: _Trace, node: Node, output: str) -> Spot | None:
    data, indices = node.inputs[:2]
    axis, more = _axis(node, len(trace.shape(data)), 0), len(trace.shape(indices)) - 1
    if data not in trace.spots:  # a table that the samples look into
        return _moved(trace.spots[indices], axis)
    spot = trace.spots[data]
    if indices in trace.spots or spot is None or spot.axis == axis:
        return None
    return spot if spot.axis < axis else _moved(spot, more)


def _gather_nd(trace: _Trace, node: Node, output: str) -> Spot | None:
    spots = {trace.spots[name] for name in trace.varying(node)}
    (spot, *others) = spots
    return spot if spot and not others and spot.axis < int(node.op.attributes.get("batch_dims", 0)) else None


def _scatter_nd(trace: _Trace, node: Node, output: str) -> Spot | None:
    """What the indices point at may be another sample's, if they count along the batch."""
    spot, depth = _same_rank(trace, node, output), trace.shape(node.inputs[1])[-1:]
    return spot if spot and depth and spot.axis >= depth[0] > 0 else None


def _one_hot(trace: _Trace, node: Node, output: str) -> Spot | None:
    spot, new = trace.first(node), _axis(node, len(trace.shape(output)), -1)
    return _moved(spot, int(spot.axis >= new)) if spot and trace.varying(node) == [node.inputs[0]] else None


def _matmul(trace: _Trace, node: Node, output: str) -> Spot | None:
    """Rows of the first and columns of the second operand stay; what is summed over is lost."""
    ranks = [len(trace.shape(name)) for name in node.inputs[:2]]
    rank, found = max(*ranks, 2), []
    for side, name in enumerate(node.inputs[:2]):
        if name in trace.spots:
            spot = trace.spots[name]
            summed = max(ranks[side] - 2, 0) if side else ranks[side] - 1
            to = _moved(spot, rank - ranks[side])
            if side and ranks[0] == 1 and spot and spot.axis == ranks[side] - 1:
                to = _moved(to, -1)  # a vector in front leaves no row
            found.append((None if spot and spot.axis == summed else to, name))
    return trace.kept(output, found)


def _gemm(trace: _Trace, node: Node, output: str) -> Spot | None:
    """Of y = A' B' + C, rows are A's and columns B's."""
    found: list[tuple[Spot | None, str]] = []
    for side, name in enumerate(node.inputs):
        if name in trace.spots:
            spot = trace.spots[name]
            if side == 2:
                found.append((_moved(spot, 2 - len(trace.shape(name))), name))
                continue
            turned = bool(node.op.attributes.get(("transA", "transB")[side], 0))
            found.append((spot._replace(axis=side) if spot and spot.axis == (side ^ turned) else None, name))
    return trace.kept(output, found)


def _recurrent(trace: _Trace, node: Node, output: str) -> Spot | None:
    """LSTM, GRU, RNN: y is [sequence, directions, batch, hidden], its last states are [directions, batch, hidden]."""
    spot, in_front = trace.first(node), bool(node.op.attributes.get("layout", 0))
    if spot is None or trace.varying(node) != [node.inputs[0]] or spot.axis != (0 if in_front else 1):
        return None
    return spot._replace(axis=0 if in_front else 2 if output == node.output else 1)


def _einsum(trace: _Trace, node: Node, output: str) -> Spot | None:
    """The batch's letter says where it goes."""
    left, arrow, right = str(node.op.attributes["equation"]).replace(" ", "").partition("->")
    if not arrow or "." in left:
        return None
    found: list[tuple[Spot | None, str]] = []
    for letters, name in zip(left.split(","), node.inputs, strict=True):
        if name in trace.spots:
            spot = trace.spots[name]
            place = right.find(letters[spot.axis]) if spot else -1
            found.append((spot._replace(axis=place) if spot and place >= 0 else None, name))
    return trace.kept(output, found)


def _reshape(trace: _Trace, node: Node, output: str) -> Spot | None:
    """The place of the batch among the elements stays; which axis that is in, the target says.

    A model that was exported for one sample has a 1 where the batch is. Else it is in the axis that the target leaves open (-1).
    """
    spot, before, after = trace.first(node), trace.shape(node.inputs[0]), trace.shape(output)
    target = trace.numbers(node, 1, "shape") or (1,) * len(after)
    if spot is None or not before or not after or min(*before, *after) < 1 or len(target) != len(after):
        return None
    copied = set() if node.op.attributes.get("allowzero") else {axis for axis, size in enumerate(target) if size == 0}
    outer = prod(before[: spot.axis]) * spot.outer
    starts = [prod(after[:axis]) for axis in range(len(after))]
    if spot.axis in copied:
        return spot if starts[spot.axis] * spot.outer == outer else None
    free = [axis for axis in range(len(after)) if axis not in copied]
    ones = [axis for axis in free if starts[axis] == outer and after[axis] == 1]
    if ones:
        return Spot(ones[0])
    if -1 in target:
        free = [target.index(-1)]
    for axis in free:
        inside, rest = divmod(outer, starts[axis])
        if not rest and inside and after[axis] % inside == 0:
            return Spot(axis, inside)
    return None


def _triangle(trace: _Trace, node: Node, output: str) -> Spot | None:
    """Trilu: rows and columns, the last two axes, are not alike."""
    spot = _same_rank(trace, node, output)
    return None if spot and spot.axis >= len(trace.shape(output)) - 2 else spot


def _lost(trace: _Trace, node: Node, output: str) -> Spot | None:
    return None


CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "DeformConv")
BROADCAST = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Mean", "Where", "Expand", "PRelu", "And", "Or", "Xor"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)
REDUCE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(BROADCAST, _broadcast),
    **{f"Reduce{kind}": _reduce for kind in REDUCE},
    **dict.fromkeys(("ArgMax", "ArgMin"), _best_index),
    **dict.fromkeys(CONVOLUTIONS, _images),
    **dict.fromkeys(("Concat", "Split"), _along(0)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), _along(-1)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _from(-1)),
    **dict.fromkeys(("CumSum", "CumProd"), _summed),
    **dict.fromkeys(("GatherElements", "ScatterElements"), _along(0)),
    **dict.fromkeys(("MatMul", "MatMulInteger"), _matmul),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("NonZero", "NonMaxSuppression", "RoiAlign", "MaxRoiPool", "If", "Loop", "Scan", "Compress", "Unique"), _lost),
    "Einsum": _einsum,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "MeanVarianceNormalization": _normalised,
    "OneHot": _one_hot,
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Squeeze": _squeeze,
    "TopK": _along(-1),
    "Trilu": _triangle,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
