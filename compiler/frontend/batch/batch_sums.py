"""Rules for the batch's way through operators that compute: elementwise ones, and those that sum or mix along axes."""

from cnna.compiler.frontend.batch.batch_trace import Rule, Spot, Trace, axis_of, moved
from cnna.compiler.graph.ir import Node


def same_rank(trace: Trace, node: Node, output: str) -> Spot | None:
    """The operator leaves the axes where they are."""
    rank = len(trace.shape(output))
    names = trace.varying(node)
    return trace.kept(output, ((trace.spots[n] if len(trace.shape(n)) == rank else None, n) for n in names))


def broadcast(trace: Trace, node: Node, output: str) -> Spot | None:
    """Operands of different ranks are aligned at their last axes."""
    rank = len(trace.shape(output))
    return trace.kept(output, ((moved(trace.spots[n], rank - len(trace.shape(n))), n) for n in trace.varying(node)))


def along(default: int) -> Rule:
    """The rule of an operator that mixes the elements of one axis, which must not be the batch's."""

    def rule(trace: Trace, node: Node, output: str) -> Spot | None:
        spot = same_rank(trace, node, output)
        return None if spot and spot.axis == axis_of(node, len(trace.shape(output)), default) else spot

    return rule


def from_axis(default: int) -> Rule:
    """The rule of an operator that mixes the elements of all axes from one axis on."""

    def rule(trace: Trace, node: Node, output: str) -> Spot | None:
        spot = same_rank(trace, node, output)
        return None if spot and spot.axis >= axis_of(node, len(trace.shape(output)), default) else spot

    return rule


def cumulated(trace: Trace, node: Node, output: str) -> Spot | None:
    """CumSum or CumProd: their axis is an input, and must not be the batch's."""
    spot, axes = same_rank(trace, node, output), trace.numbers(node, 1, "axis")
    return None if spot is None or not axes or spot.axis == axes[0] % len(trace.shape(output)) else spot


def normalised(trace: Trace, node: Node, output: str) -> Spot | None:
    """MeanVarianceNormalization: it mixes the pixels of all samples unless `axes` say otherwise."""
    spot, rank = same_rank(trace, node, output), len(trace.shape(output))
    mixed = {axis % max(rank, 1) for axis in node.op.attributes.get("axes", (0, 2, 3))}
    return None if spot and spot.axis in mixed else spot


def triangle(trace: Trace, node: Node, output: str) -> Spot | None:
    """Trilu: it treats elements of the last two axes, rows and columns, differently."""
    spot = same_rank(trace, node, output)
    return None if spot and spot.axis >= len(trace.shape(output)) - 2 else spot


def images(trace: Trace, node: Node, output: str) -> Spot | None:
    """A convolution takes images one by one. A single image is the sample's, even if its batch was squeezed and put back."""
    if trace.shape(node.inputs[0])[:1] == trace.shape(output)[:1] == (1,) and node.inputs[0] in trace.spots:
        return Spot(0)
    spot = same_rank(trace, node, output)
    return spot if spot and spot.axis == 0 else None


def matmul(trace: Trace, node: Node, output: str) -> Spot | None:
    """The rows of the first and the columns of the second operand stay; a batch that is summed over is lost."""
    ranks = [len(trace.shape(name)) for name in node.inputs[:2]]
    rank, found = max(*ranks, 2), []
    for side, name in enumerate(node.inputs[:2]):
        if name in trace.spots:
            spot = trace.spots[name]
            summed = max(ranks[side] - 2, 0) if side else ranks[side] - 1
            to = moved(spot, rank - ranks[side])
            if side and ranks[0] == 1 and spot and spot.axis == ranks[side] - 1:
                to = moved(to, -1)  # a vector in front leaves no row
            found.append((None if spot and spot.axis == summed else to, name))
    return trace.kept(output, found)


def gemm(trace: Trace, node: Node, output: str) -> Spot | None:
    """In y = A' B' + C, the rows are those of A' and the columns those of B'."""
    found: list[tuple[Spot | None, str]] = []
    for side, name in enumerate(node.inputs):
        if name in trace.spots:
            spot = trace.spots[name]
            if side == 2:
                found.append((moved(spot, 2 - len(trace.shape(name))), name))
                continue
            turned = bool(node.op.attributes.get(("transA", "transB")[side], 0))
            found.append((spot._replace(axis=side) if spot and spot.axis == (side ^ turned) else None, name))
    return trace.kept(output, found)


def einsum(trace: Trace, node: Node, output: str) -> Spot | None:
    """The letter of the batch's axis shows where it goes."""
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


def recurrent(trace: Trace, node: Node, output: str) -> Spot | None:
    """LSTM, GRU, RNN: y is [sequence, directions, batch, hidden], the last states are [directions, batch, hidden]."""
    spot, in_front = trace.first(node), bool(node.op.attributes.get("layout", 0))
    if spot is None or trace.varying(node) != [node.inputs[0]] or spot.axis != (0 if in_front else 1):
        return None
    return spot._replace(axis=0 if in_front else 2 if output == node.output else 1)


def reduce(trace: Trace, node: Node, output: str) -> Spot | None:
    """A reduction; it loses the batch if it reduces the batch's axis."""
    spot, rank = trace.first(node), len(trace.shape(node.inputs[0]))
    if spot is None:
        return None
    axes = trace.numbers(node, 1, "axes")
    if not axes:
        axes = () if node.op.attributes.get("noop_with_empty_axes") else tuple(range(rank))
    return _reduced(spot, {axis % rank for axis in axes}, node)


def best_index(trace: Trace, node: Node, output: str) -> Spot | None:
    """ArgMax or ArgMin: reductions along one axis."""
    return _reduced(trace.first(node), {axis_of(node, len(trace.shape(node.inputs[0])), 0)}, node)


def _reduced(spot: Spot | None, axes: set[int], node: Node) -> Spot | None:
    if spot is None or spot.axis in axes:
        return None
    return spot if node.op.attributes.get("keepdims", 1) else without(spot, axes)


def without(spot: Spot | None, gone: set[int]) -> Spot | None:
    """The spot when the axes `gone` are removed; None if the batch's is one of them."""
    if spot is None or spot.axis in gone:
        return None
    return spot._replace(axis=spot.axis - sum(axis < spot.axis for axis in gone))
