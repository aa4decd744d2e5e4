"""The vector engine on a walk whose groups take longer to write than to read, such as a map that is enlarged. For `flow_rates`.

Such reads get ahead of the writes, over the ends of blocks and commands, until there is no more room for them or writes need
their banks in every clock. So each stretch begins with what the stretch before has read.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from cnna.compiler.cost.engine_steps import Fields, taps_of
from cnna.compiler.predict.bank_clocks import plane_words, source_words
from cnna.compiler.predict.shared_port import DueParts, Requester, parts_of
from cnna.spec.config import Config

FETCHED_GROUPS = 16  # groups that the fetch holds until the engine takes them
AHEAD_GROUPS = 30  # groups that are read and not written, as measured: those of the fetch, and those on their way to the writes
GROUP_CLOCKS = 2  # from one group that the engine takes to the next one
TAKEN_CLOCKS = 9  # from a group's read until the engine can take it
SLOW_CLOCKS = 37  # from a group's read to its first write


def first_reads(now: float, reads: int) -> list[float]:
    """The clocks at which the groups were read that are read before the first one is written, if the engine begins at `now`.

    They lie before `now`: an engine's unit ends a fixed time after its last read, which is counted there. reads: clocks a group.
    """
    found: list[float] = []
    number = clock = 0
    while clock < SLOW_CLOCKS:
        found.append(now + clock - SLOW_CLOCKS)
        number += 1
        clock = max(number * reads, TAKEN_CLOCKS + (number - FETCHED_GROUPS) * GROUP_CLOCKS + 1)
    return found


class SlowWrites(DueParts):
    """The writes: `left` parts of a block, then those of groups behind it, which have been read too. done: parts offered."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    @property
    def progress(self) -> float:
        """The parts of the block that have passed."""
        return min(self.done - (1 if self.asks else 0), self._left)

    @property
    def waiting(self) -> int:
        """Parts that have been read and not been offered."""
        return len(self._due)

    def offer(self, clock: int) -> int:
        """The next part; 0 if none is due."""
        self.over = self.done >= self._left
        if not self._due or self._due[0][0] > clock:
            return 0
        self.done += 1
        part = super().offer(clock)
        self.wake = 0.0  # asked in every clock, so that it knows when the last part has passed
        return part


@dataclass(frozen=True)
class GroupParts:
    """By group of a block, the parts that are read, and those that are written."""

    reads: list[list[int]]
    writes: list[list[int]]


def group_parts(fields: Fields, config: Config, block: int, groups: int) -> GroupParts:
    """The parts of all groups of a vector command's block."""
    reads = parts_of(source_words(fields, config, block, (0, groups)), config)
    writes = parts_of(plane_words("dst", fields, config, (block, block + 1), (0, groups)), config)
    return GroupParts(_joined(reads, taps_of(fields)), _joined(writes, 2))


def _joined(parts: list[list[int]], requests: int) -> list[list[int]]:
    """The parts of so many requests together."""
    return [[*chain(*parts[low : low + requests])] for low in range(0, len(parts), requests)]


class QuickReads(Requester):
    """The reads of a block from group `first` on, and on into the next block, which is taken to be like this one.

    before: the clocks, counted from the stretch's begin, at which groups from `first` on were read before. skip: the parts of the
    first group that are written. read: the clocks at which groups have been read, with those of `before`.
    """

    def __init__(self, parts: GroupParts, first: int, before: Sequence[float], skip: int, written: SlowWrites) -> None:
        super().__init__()
        self._groups, self._written, self._group = parts, written, first
        self._most = AHEAD_GROUPS * max(map(len, parts.writes))
        self._fetched: deque[float] = deque()  # the clocks at which the engine takes the groups that the fetch holds
        self._parts: list[int] = []  # of the group that is being read
        self.read: list[float] = []
        for clock in before:
            self._note(clock, 0 if self.read else skip)

    def offer(self, clock: int) -> int:
        """The next part; 0 while the reads are as far ahead as they can be."""
        if self.done and not self._parts:
            self._note(clock, 0)
            self.done = 0
        if not self._parts:
            while self._fetched and self._fetched[0] <= clock:
                self._fetched.popleft()
            if len(self._fetched) >= FETCHED_GROUPS or self._written.waiting >= self._most:
                return 0
            self._parts = self._groups.reads[self._group % len(self._groups.reads)].copy()
        self.done += 1
        return self._parts.pop(0)

    def _note(self, clock: float, skip: int) -> None:
        """Notes that a group has been read, whose writes are then due."""
        taken = max([clock + TAKEN_CLOCKS, *(last + GROUP_CLOCKS for last in [*self._fetched][-1:])])
        self._fetched.append(taken)
        parts = self._groups.writes[self._group % len(self._groups.writes)][skip:]
        self._written.extend([(taken + SLOW_CLOCKS - TAKEN_CLOCKS, part) for part in parts])
        self.read.append(clock)
        self._group += 1
