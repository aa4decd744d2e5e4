"""What a rule for the batch's way through a graph reads and answers: the spots found so far, shapes, and constant numbers.

`batch_axis` applies the rules; `batch_moves` and `batch_sums` have them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cnna.compiler.graph.ir import Graph, Node


class Spot(NamedTuple):
    """The batch lies in `axis`, inside of `outer` of its elements; `batch_axis` explains both."""

    axis: int
    outer: int = 1


@dataclass
class Trace:
    """The spots found so far. A tensor that does not depend on the inputs has no entry."""

    graph: Graph
    spots: dict[str, Spot | None] = field(default_factory=dict)
    singles: set[str] = field(default_factory=set)  # tensors without a batch in the user's model: of such inputs, and scales

    def first(self, node: Node) -> Spot | None:
        """The spot of a node's first operand."""
        return self.spots.get(node.inputs[0])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor or constant; () if nothing is known, with 0 for an axis of unknown size."""
        return self.graph.constants[name].shape if name in self.graph.constants else self.graph.tensors[name].shape

    def numbers(self, node: Node, place: int, attribute: str) -> tuple[int, ...] | None:
        """Axes or sizes that a node has as an attribute or, in newer opsets, as a constant input; None if it has neither."""
        if attribute in node.op.attributes:
            value = node.op.attributes[attribute]
        elif len(node.inputs) > place and node.inputs[place] in self.graph.constants:
            value = self.graph.constants[node.inputs[place]]
        else:
            return None
        return tuple(int(number) for number in np.asarray(value).reshape(-1))

    def varying(self, node: Node) -> list[str]:
        """The operands that depend on the model's inputs; of these only those with a batch, if there are any."""
        names = [name for name in node.inputs if name in self.spots]
        return [name for name in names if name not in self.singles] or names

    def kept(self, output: str, found: Iterable[tuple[Spot | None, str]]) -> Spot | None:
        """The single spot to which all operands lead, if the output is as long there as the longest operand.

        found: (spot in the output, operand).
        """
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


Rule = Callable[[Trace, Node, str], Spot | None]  # finds the spot of one output of a node


def moved(spot: Spot | None, by: int) -> Spot | None:
    """The spot, `by` axes further back."""
    return spot and spot._replace(axis=spot.axis + by)


def axis_of(node: Node, rank: int, default: int) -> int:
    """The attribute `axis` of a node for tensors of this rank, counted from the front."""
    return int(node.op.attributes.get("axis", default)) % max(rank, 1)
