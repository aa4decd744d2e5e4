"""The array's writes to feature memory, and its reads of residual operands, for the simulation clock by clock (`shared_port`)."""

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING, final

from cnna.compiler.predict.known_stretches import KnownStretches, WrittenPlane
from cnna.compiler.predict.shared_port import Requester
from cnna.compiler.predict.walk_parts import PIECE_GROUPS
from cnna.spec.config import Config

if TYPE_CHECKING:
    from mypy_extensions import i64  # as in `ddr_beats`

    from cnna.compiler.predict.active_engines import Walk


def written_late(config: Config) -> int:
    """From the end of a group until the next group's first write, at least: that group's clocks before it has its writes."""
    return 2 * config.chunk_blocks


@final
class ArrayWrites(Requester):
    """The array's writes, or its reads of residual operands: half a group of one block a clock, at the end of each group.

    ends: when each group of the walk ends. They begin with number `first`, at clock 0. Nothing delays the array. Parts are looked
    up as they are due, because most stretches are known or end early.
    """

    def __init__(self, plane: WrittenPlane, ends: list[int], first: int) -> None:
        super().__init__()
        self._plane, self._ends = plane, ends
        self._own: i64 = plane.blocks[1] - plane.blocks[0]
        self._begin: int = (ends[first - 1] if first else 0) + written_late(plane.config)
        self._half_late = float(plane.config.chunk_blocks)  # from a group's first half to its second one
        self._group: int = first  # of the next request
        self._half = False
        self._block: i64 = 0
        self._groups = min(len(ends), plane.groups)  # there may be fewer than `ends`
        self._flat, self._starts = list[int](), list[int]()
        self._each: i64 = 0
        self._request: i64 = 0  # the next one, among those of a piece of the walk
        self._number: i64 = 0  # of the next part, among those of a piece
        self._end: i64 = 0  # of the parts of the request; 0: they are not known
        self._group_end = inf  # when the first half of the group can be written
        if first < self._groups:
            self._group_end = float(ends[first] - self._begin)
        self.wake = self._group_end

    def _look_up(self) -> None:
        """Looks up the parts of the piece that has the next group."""
        parts = self._plane.piece(self._group // PIECE_GROUPS)
        self._flat, self._starts, self._each = parts.flat, parts.starts, parts.each
        self._request = (self._group % PIECE_GROUPS) * 2 * self._own
        self._number = self._request * self._each if self._each else self._starts[self._request]
        self._set_end()

    def _set_end(self) -> None:
        if self._each:
            self._end = self._number + self._each
        else:
            self._end = self._starts[self._request + 1]

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        if not self._end:
            self._look_up()
        number = self._number
        part = self._flat[number]
        number += 1
        self._number = number
        if number == self._end:
            self._go_on()
        return part

    def _go_on(self) -> None:
        """Goes on to the next request."""
        self._request += 1
        self._block += 1
        if self._block < self._own:
            self.wake += 1.0
        elif not self._half:
            self._block, self._half = 0, True
            self.wake = self._group_end + self._half_late
        else:
            self._block, self._half = 0, False
            self._group += 1
            if self._group == self._groups:
                self.wake = inf
                return
            self.wake = self._group_end = float(self._ends[self._group] - self._begin)
            if self._group % PIECE_GROUPS == 0:
                self._end = 0
                return
        self._set_end()


class WalkWrites:
    """The array's writes in a walk, and its reads of residual operands if it has them."""

    def __init__(self, walk: "Walk", config: Config, known: KnownStretches) -> None:
        self.walk, self._config = walk, config
        prefixes = ("dst", "res") if walk.fields["res_enable"] else ("dst",)
        self._planes = [known.plane(prefix, walk.fields, config, walk.blocks) for prefix in prefixes]
        self._numbers = tuple([plane.number for plane in self._planes])

    def requesters(self, first: int) -> dict[str, Requester]:
        """Those of a stretch that begins with group `first`, in order of priority."""
        return {plane.prefix: ArrayWrites(plane, self.walk.groups.ends, first) for plane in self._planes}

    def key(self, first: int, clocks: int) -> tuple[int, ...]:
        """What these write in so many clocks depends on."""
        groups = self.walk.groups
        end = (groups.ends[first - 1] if first else 0) + written_late(self._config) + clocks
        return (*self._numbers, first, *groups.clocks[first : bisect_left(groups.ends, end)])
