"""Remembers simulated stretches of loads and stores, so that none is simulated twice. For `flow_rates`.

The plans that are compared for a network have most of their commands in common, and the images of a batch follow each other
through the same places: so stretches come again, to the clock and to the bank. One is known by all that it depends on, and what it
leaves behind is put into the engines that are at work now. Stretches with the vector engine's reads or writes are not kept, because
these go on from what stretches before have left.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.predict.bank_clocks import plane_fields
from cnna.compiler.predict.beat_model import BeatModel, DdrPosition
from cnna.compiler.predict.ddr_beats import Position, State, Transfer

if TYPE_CHECKING:
    from cnna.compiler.predict.flow_rates import Walk

KEPT = 4096  # stretches: some 80 MB; those of the three longest predictions that are compared for ResNet-50 are 2,500


class WalkGroups:
    """The clocks of each group of a walk, and when each ends if nothing delays it.

    slow: whether every group takes longer to write than to read.
    """

    def __init__(self, clocks: NDArray[np.int64], slow: bool = False) -> None:
        self.array, self.slow = clocks, slow
        self.clocks: list[int] = clocks.tolist()
        self.ends: list[int] = clocks.cumsum().tolist()


@dataclass(frozen=True)
class Stretch:
    """What a stretch leaves behind. speeds: of the requesters in their order. drained: as of `FlowRates`.

    after: the position of each engine's transfer. notes: the states of them that were noted. ddr: the position of the model of DDR.
    """

    speeds: tuple[float, ...]
    drained: int
    after: Mapping[str, Position]
    notes: tuple[Mapping[str, State], ...]
    ddr: DdrPosition


class KnownStretches:
    """The stretches of one configuration and one DDR, the last ones that were used. found, simulated: how many clocks each.

    groups: the groups of walks, by what they depend on; a network has few kinds of them.
    """

    def __init__(self) -> None:
        self.groups: dict[Hashable, WalkGroups] = {}
        self._kept: OrderedDict[Hashable, Stretch] = OrderedDict()
        self.found = self.simulated = 0

    @property
    def kept(self) -> int:
        """How many stretches are."""
        return len(self._kept)

    def get(self, key: Hashable, clocks: int) -> Stretch | None:
        """A stretch that was kept."""
        stretch = self._kept.get(key)
        if stretch is not None:
            self._kept.move_to_end(key)
            self.found += clocks
        return stretch

    def keep(self, key: Hashable, clocks: int, stretch: Stretch) -> None:
        """Keeps a stretch that was not known."""
        self.simulated += clocks
        self._kept[key] = stretch
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def key_of(clocks: int, ddr: BeatModel, moving: Mapping[str, Transfer], writes: tuple[Hashable, ...]) -> Hashable:
    """All that a stretch of so many clocks depends on. writes: `writes_of` what the array writes meanwhile."""
    moved = tuple((name, one.fixed(), one.position()) for name, one in moving.items())
    return clocks, writes, ddr.position(), ddr.behind_ports(), moved


def writes_of(walk: "Walk", prefixes: tuple[str, ...], first: int, clocks: int) -> tuple[Hashable, ...]:
    """What the array writes in so many clocks from a walk's group `first` on depends on."""
    fields = tuple(tuple(walk.fields.get(name, 0) for name in plane_fields(prefix)) for prefix in prefixes)
    return prefixes, fields, walk.blocks, first, walk.groups.array[first : first + clocks].tobytes()
