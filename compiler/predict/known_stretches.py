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

from cnna.compiler.predict.bank_clocks import plane_fields
from cnna.compiler.predict.ddr_beats import BeatModel, DdrPosition, Position, State, Transfer

if TYPE_CHECKING:
    from cnna.compiler.predict.flow_rates import Walk

KEPT = 2048  # stretches: some 36 MB


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
    """The stretches of one configuration and one DDR, the last ones that were used. found, simulated: how many clocks each."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Stretch] = OrderedDict()
        self.found = self.simulated = 0

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
    behind = tuple(tuple(each) for each in ddr.behind)
    return clocks, writes, ddr.position(), behind, tuple((name, one.fixed(), one.position()) for name, one in moving.items())


def writes_of(walk: "Walk", prefixes: tuple[str, ...], first: int, clocks: int) -> tuple[Hashable, ...]:
    """What the array writes in so many clocks from a walk's group `first` on depends on."""
    fields = tuple(tuple(walk.fields.get(name, 0) for name in plane_fields(prefix)) for prefix in prefixes)
    return prefixes, fields, walk.blocks, first, walk.groups[first : first + clocks].tobytes()
