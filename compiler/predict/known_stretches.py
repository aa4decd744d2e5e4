"""Remembers simulated stretches of loads and stores, so that none is simulated twice. For `flow_rates`.

The plans that are compared for a network have most of their commands in common, and the images of a batch follow each other
through the same places: so stretches come again, to the clock and to the bank. One is known by all that it depends on, and what it
leaves behind is put into the engines that are at work now. Stretches with the vector engine's reads or writes are not kept, because
these go on from what stretches before have left.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_groups
from cnna.compiler.lower.kernels import Range
from cnna.compiler.predict.bank_clocks import SOURCE, plane_fields
from cnna.compiler.predict.beat_model import BeatModel, Notes
from cnna.compiler.predict.ddr_beats import Past, Transfer
from cnna.compiler.predict.request_parts import GroupParts, Parts
from cnna.compiler.predict.walk_parts import LARGE_GROUPS, group_parts, written_parts
from cnna.spec.config import Config

KEPT = 4096  # stretches: some 15 MB; those of the three longest predictions that are compared for ResNet-50 are 2,500
KEPT_PLANES = 1024  # of the array, and walks of the vector engine: one has some 10 KB
READ_AND_WRITTEN = (*dict.fromkeys((*SOURCE, *plane_fields("dst"))), "b_flat", "blocks")  # on which `group_parts` depend


class WalkGroups:
    """The clocks of each group of a walk, and when each ends if nothing delays it.

    slow: whether every group takes longer to write than to read.
    """

    def __init__(self, clocks: NDArray[np.int64], slow: bool = False) -> None:
        self.slow = slow
        self.clocks: list[int] = clocks.tolist()
        self.ends: list[int] = clocks.cumsum().tolist()


class WrittenPlane:
    """A plane that the array writes in a walk, or reads as residual operands, by the registers that begin with `prefix`.

    groups: of the command. number: in keys.
    """

    def __init__(self, prefix: str, fields: Fields, config: Config, blocks: Range, number: int) -> None:
        self.prefix, self._fields, self.config, self.blocks, self.number = prefix, fields, config, blocks, number
        self.groups: int = command_groups(fields, config)
        self._pieces: dict[int, Parts] = {}

    def piece(self, number: int) -> Parts:
        """The parts of a piece of the walk."""
        parts = self._pieces.get(number)
        if parts is None:
            parts = self._pieces[number] = written_parts(self.prefix, self._fields, self.config, self.blocks, number)
        return parts


class Positions:
    """Where the model of DDR and the transfers stand, in numbers (`BeatModel.add_position`, `Transfer.add_position`)."""

    def __init__(self, ddr: BeatModel, moving: Sequence[Transfer]) -> None:
        self.left, self.numbers, self.pasts = ddr.left(), list[int](), list[Past]()
        ddr.add_position(self.numbers)
        for transfer in moving:
            for one in transfer.chain():
                one.add_position(self.numbers, self.pasts)

    def put(self, ddr: BeatModel, moving: Sequence[Transfer]) -> None:
        """Has equal ones go on from there."""
        at, past = ddr.go_on(self.left, self.numbers), 0
        for transfer in moving:
            for one in transfer.chain():
                at = one.go_on(self.numbers, at, self.pasts[past])
                past += 1


class Stretch:
    """What a stretch leaves behind. speeds: of the requesters in their order. drained: as of `FlowRates`. after: at its end."""

    def __init__(self, speeds: list[float], drained: int, after: Positions, notes: Notes) -> None:
        self.speeds, self.drained, self.after, self.notes = speeds, drained, after, notes


class KnownStretches:
    """The stretches of one configuration and one DDR, the last ones that were used. found, simulated: how many clocks each.

    groups: the groups of walks, by what they depend on; a network has few kinds of them.
    """

    def __init__(self) -> None:
        self.groups: dict[Hashable, WalkGroups] = {}
        self._kept: OrderedDict[Hashable, Stretch] = OrderedDict()
        self._numbers: dict[Hashable, int] = {}
        self._planes: dict[Hashable, WrittenPlane] = {}
        self._parts: dict[Hashable, GroupParts] = {}
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

    def number(self, fixed: Hashable) -> int:
        """A number for each thing that keys have in them, so that these are short."""
        return self._numbers.setdefault(fixed, len(self._numbers))

    def plane(self, prefix: str, fields: Fields, config: Config, blocks: Range) -> WrittenPlane:
        """A plane of a walk. The plans that are compared write most planes to the same places."""
        key = (prefix, blocks, *[fields.get(name, 0) for name in plane_fields(prefix)])
        plane = self._planes.get(key)
        if plane is None:
            if len(self._planes) == KEPT_PLANES:
                self._planes.clear()
            plane = self._planes[key] = WrittenPlane(prefix, fields, config, blocks, self.number(key))
        return plane

    def group_parts(self, fields: Fields, config: Config, block: int) -> GroupParts:
        """`walk_parts.group_parts`, which are kept for small walks."""
        if command_groups(fields, config) >= LARGE_GROUPS:
            return group_parts(fields, config, block)
        key = (block, *[fields.get(name, 0) for name in READ_AND_WRITTEN])
        parts = self._parts.get(key)
        if parts is None:
            if len(self._parts) == KEPT_PLANES:
                self._parts.clear()
            parts = self._parts[key] = group_parts(fields, config, block)
        return parts

    def key(self, clocks: int, ddr: BeatModel, moving: Sequence[Transfer], writes: tuple[int, ...]) -> Hashable:
        """All that a stretch of so many clocks depends on. writes: `WalkWrites.key` of what the array writes meanwhile."""
        positions = Positions(ddr, moving)
        numbers = positions.numbers
        numbers.append(clocks)
        for transfer in moving:
            chain = transfer.chain()
            numbers.append(len(chain))
            for one in chain:
                if one.known < 0:
                    one.known = self.number(one.fixed)
                numbers.append(one.known)
        return positions.left, tuple(numbers), tuple(positions.pasts), writes, ddr.behind_ports()
