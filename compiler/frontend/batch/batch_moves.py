"""Rules for the batch's way through operators that arrange or pick elements: where the batch's axis goes."""

from math import prod

from cnna.compiler.frontend.batch.batch_sums import same_rank, without
from cnna.compiler.frontend.batch.batch_trace import Spot, Trace, axis_of, moved
from cnna.compiler.graph.ir import Node


def transpose(trace: Trace, node: Node, output: str) -> Spot | None:
    """Each axis moves to its place in `perm`."""
    spot, rank = trace.first(node), len(trace.shape(node.inputs[0]))
    perm = tuple(node.op.attributes.get("perm", reversed(range(rank))))
    return spot and spot._replace(axis=perm.index(spot.axis))


def flatten(trace: Trace, node: Node, output: str) -> Spot | None:
    """All axes before `axis` become the first one, all others the second."""
    spot, shape = trace.first(node), trace.shape(node.inputs[0])
    if spot is None:
        return None
    cut = int(node.op.attributes.get("axis", 1))
    cut += len(shape) if cut < 0 else 0
    first = 0 if spot.axis < cut else cut
    return Spot(int(spot.axis >= cut), prod(shape[first : spot.axis]) * spot.outer)


def squeeze(trace: Trace, node: Node, output: str) -> Spot | None:
    """Axes of size 1 go; the batch is lost if its own is one of them."""
    spot, shape = trace.first(node), trace.shape(node.inputs[0])
    if spot is None:
        return None
    axes = trace.numbers(node, 1, "axes")
    gone = {axis % len(shape) for axis in axes} if axes else {axis for axis, size in enumerate(shape) if size == 1}
    return without(spot, gone)


def unsqueeze(trace: Trace, node: Node, output: str) -> Spot | None:
    """New axes of size 1 are inserted."""
    spot, rank = trace.first(node), len(trace.shape(output))
    axes = trace.numbers(node, 1, "axes")
    if spot is None or axes is None:
        return None
    new = {axis % rank for axis in axes}
    return spot._replace(axis=[axis for axis in range(rank) if axis not in new][spot.axis])


def reshape(trace: Trace, node: Node, output: str) -> Spot | None:
    """The batch keeps its place among the elements; the target decides in which axis that is.

    A model that was exported for one sample has a 1 for the batch. Otherwise the target leaves the batch's axis open (-1).
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


def gather(trace: Trace, node: Node, output: str) -> Spot | None:
    """A table may be read at indices of the batch, or elements be picked along another axis than the batch's."""
    data, indices = node.inputs[:2]
    axis, more = axis_of(node, len(trace.shape(data)), 0), len(trace.shape(indices)) - 1
    if data not in trace.spots:  # a table that the samples read
        return moved(trace.spots[indices], axis)
    spot = trace.spots[data]
    if indices in trace.spots or spot is None or spot.axis == axis:
        return None
    return spot if spot.axis < axis else moved(spot, more)


def gather_nd(trace: Trace, node: Node, output: str) -> Spot | None:
    """Keeps the batch if it is one of the `batch_dims` that data and indices share."""
    spots = {trace.spots[name] for name in trace.varying(node)}
    (spot, *others) = spots
    return spot if spot and not others and spot.axis < int(node.op.attributes.get("batch_dims", 0)) else None


def scatter_nd(trace: Trace, node: Node, output: str) -> Spot | None:
    """Keeps the batch unless the indices count along it: then they may point at another sample."""
    spot, depth = same_rank(trace, node, output), trace.shape(node.inputs[1])[-1:]
    return spot if spot and depth and spot.axis >= depth[0] > 0 else None


def one_hot(trace: Trace, node: Node, output: str) -> Spot | None:
    """A new axis is inserted for the classes."""
    spot, new = trace.first(node), axis_of(node, len(trace.shape(output)), -1)
    return moved(spot, int(spot.axis >= new)) if spot and trace.varying(node) == [node.inputs[0]] else None


def lost(trace: Trace, node: Node, output: str) -> Spot | None:
    """The samples cannot be told apart behind this operator."""
    return None
