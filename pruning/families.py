"""Families of channels: those that may be exchanged for each other, in the order in which they go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cnna.pruning.coupled import Labels
from cnna.pruning.fit import Fit
from cnna.pruning.layers import Layer, input_labels
from cnna.pruning.saliency import order, readers_of
from cnna.pruning.seen import LARGEST
from cnna.pruning.values import Array

Tell = Callable[[int, int, str], object]


@dataclass(frozen=True)
class Family:
    """Channels that some nodes make. order: their roots, the least one first; errors: after each of these, the error that all so
    far leave in the layers that read them; why: what keeps all channels, if anything does.
    """

    name: str
    nodes: tuple[int, ...]
    channels: int
    order: tuple[int, ...] = ()
    errors: tuple[float, ...] = ()
    why: str | None = None


def families_of(fit: Fit, tell: Tell) -> list[Family]:
    """All families of a network, each ranked."""
    found, made = fit.found, []
    layers = [(layer, labels) for layer in fit.layers.values() if (labels := input_labels(found, layer)) is not None]
    groups = found.coupled.families()
    tensors = _free_alone(fit)
    for done, (nodes, roots) in enumerate(groups):
        name = found.network.called(nodes[0])
        free = np.array([int(root) for root in roots if found.coupled.why_kept(int(root)) is None], np.int64)
        if why := _why(fit, roots, free, layers):
            made.append(Family(name, nodes, len(roots), why=why))
            continue
        gone = order(free, readers_of(free, layers, fit.known.products), tensors)
        if not gone:
            made.append(Family(name, nodes, len(roots), why="each of them is the only one of a tensor"))
            continue
        ranked, errors = tuple(root for root, _ in gone), tuple(error for _, error in gone)
        made.append(Family(name, nodes, len(roots), ranked, errors))
        tell(done + 1, len(groups), "ranking channels")
    return made


def _free_alone(fit: Fit) -> set[frozenset[int]]:
    """The roots of each tensor that has none which must stay."""
    coupled = fit.found.coupled
    found = {frozenset(coupled.roots(labels).tolist()) for axes in fit.found.axes.values() for labels in axes.values()}
    return {each for each in found if all(coupled.why_kept(root) is None for root in each)}


def _why(fit: Fit, roots: Array, free: Array, layers: Sequence[tuple[Layer, Labels]]) -> str | None:
    found = fit.found
    if len(free) < 2:
        return found.coupled.why_kept(int(roots[0])) or "it is one channel"
    readers = [layer for layer, labels in layers if np.isin(labels, free).any()]
    for layer in readers:
        if layer.taps > LARGEST:
            many = f"{layer.taps:,} numbers, more than {LARGEST:,}"
            return f"'{found.network.called(layer.number)}' sums {many}, which are not solved"
        rows = input_labels(found, layer)
        counts = [{int((row == root).sum()) for root in free} - {0} for row in rows] if rows is not None else []
        if any(len(count) > 1 for count in counts):
            return f"'{found.network.called(layer.number)}' reads some of its channels more often than others"
    for number in set(found.linear) - set(fit.layers):
        node = found.network.nodes[number]
        if any(np.isin(found.coupled.roots(labels), free).any() for labels in found.of(node.input[0]).values()):
            return f"'{found.network.called(number)}' ({node.op_type}) reads them, which is not solved"
    return None if readers else "no layer reads them"
