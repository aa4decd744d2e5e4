"""The vector engine on a walk whose groups take longer to write than to read, such as a map that is enlarged. For `flow_rates`.

Such reads get ahead of the writes, over the ends of blocks and commands, until there is no more room for them or writes need
their banks in every clock. So each stretch begins with what the stretch before has read.
"""

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Final

from cnna.compiler.predict.request_parts import GroupParts
from cnna.compiler.predict.shared_port import DueParts, Requester

FETCHED_GROUPS: Final = 16  # groups that the fetch holds until the engine takes them
AHEAD_GROUPS: Final = (
    40  # groups that are read and not written, as measured: those of the fetch, and those on their way to the writes
)
GROUP_CLOCKS: Final = 2  # from one group that the engine takes to the next one
COMMAND_CLOCKS: Final = (
    3  # more than that from a command's last group to the next command's first one, as measured: it takes parameters
)
TAKEN_CLOCKS: Final = 13  # from a group's read until the engine can take it
SLOW_CLOCKS: Final = 39  # from a group's read to its first write


class GroupReads:
    """A group that has been read. read: when. taken: when the engine takes it; negative infinity: it follows from those before."""

    def __init__(self, read: float, taken: float = -inf) -> None:
        self.read, self.taken = read, taken


def first_reads(reads: int) -> list[GroupReads]:
    """The groups that are read before the first one is written, if the engine begins at clock 0. reads: clocks a group.

    They lie before that: an engine's unit ends a fixed time after its last read, which is counted there.
    """
    found: list[GroupReads] = []
    number = clock = 0
    while clock < SLOW_CLOCKS:
        found.append(GroupReads(clock - SLOW_CLOCKS))
        number += 1
        clock = max(number * reads, TAKEN_CLOCKS + (number - FETCHED_GROUPS) * GROUP_CLOCKS + 1)
    return found


class SlowWrites(DueParts):
    """The writes: `left` parts of a block, then those of groups behind it, which have been read too. done: parts offered."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left
        self._offered: dict[int, int] = {}  # parts by clock

    @property
    def progress(self) -> float:
        """The parts of the block that have passed."""
        return min(self.done - (1 if self.asks else 0), self._left)

    def passed(self, clock: float) -> int:
        """The parts that were offered before this clock."""
        return sum(offered < clock for offered in self._offered)

    def blocked(self, banks: int, clocks: range) -> int:
        """Those of the banks that were needed here in every one of these clocks."""
        for clock in clocks:
            banks &= self._offered.get(clock, 0)
        return banks

    def offer(self, clock: int) -> int:
        """The next part; 0 if none is due."""
        self.over = self.done >= self._left
        if not self.waiting or self._due[self._next] > clock:
            return 0
        self.done += 1
        part = self._offered[clock] = super().offer(clock)
        self.wake = 0.0  # asked in every clock, so that it knows when the last part has passed
        return part


class QuickReads(Requester):
    """The reads of a block from group `first` on, and on into the next block, which is taken to be like this one.

    before: groups from `first` on that were read before, by clocks from the stretch's begin. skip: the parts of the first group
    that are written. begun: what is left of the group that is being read; the first part may need fewer banks than it did, or
    none.
    """

    def __init__(
        self,
        parts: GroupParts,
        first: int,
        before: Sequence[GroupReads],
        skip: int,
        written: SlowWrites,
        begun: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self._groups, self._written, self._group = parts, written, first
        self._most = AHEAD_GROUPS * parts.writes.most()
        self._fetched: deque[float] = deque()  # the clocks at which the engine takes the groups that the fetch holds
        self._last_taken = -inf
        self._parts = [*begun[1:]]  # of the group that is being read
        self._offers: list[tuple[int, list[int]]] = []  # clocks, and what was left then of the group
        self._read: list[tuple[float, float]] = []  # of the groups that have been read: when, and when the engine takes them
        for group in before:
            self._note(group.read, self._taken(group.read) if group.taken == -inf else group.taken, 0 if self._read else skip)
        if begun:
            self.asks, self.done = begun[0], 1.0
            self._offers.append((0, [*begun]))

    def before(self, passed: int, clock: float) -> list[GroupReads]:
        """The groups behind the first `passed` ones that were read by `clock`, which becomes their clock 0."""
        return [GroupReads(read - clock, taken - clock) for read, taken in self._read[passed:] if read <= clock]

    def begun(self, clock: int) -> list[int]:
        """What is left by `clock` of the group that is being read; the first part may need no banks. Empty if there is none."""
        for offered, parts in reversed(self._offers):
            if offered < clock:
                left = self._written.blocked(parts[0], range(offered, clock))
                return [left, *parts[1:]] if left or parts[1:] else []
        return []

    def offer(self, clock: int) -> int:
        """The next part; 0 while the reads are as far ahead as they can be."""
        if self.done and not self._parts:
            self._note(clock, self._taken(clock), 0)
            self.done = 0.0
        if not self._parts:
            while self._fetched and self._fetched[0] <= clock:
                self._fetched.popleft()
            if len(self._fetched) >= FETCHED_GROUPS or self._written.waiting >= self._most:
                return 0
            self._parts = self._groups.reads.of(self._group % len(self._groups.reads))
        self.done += 1
        self._offers.append((clock, self._parts.copy()))
        return self._parts.pop(0)

    def _taken(self, clock: float) -> float:
        """When the engine takes the next group, which has been read by this clock."""
        pause = COMMAND_CLOCKS if self._groups.begins_command(self._group) else 0
        return max(clock + TAKEN_CLOCKS, self._last_taken + GROUP_CLOCKS + pause)

    def _note(self, clock: float, taken: float, skip: int) -> None:
        """Notes that a group has been read, whose writes are then due."""
        self._fetched.append(taken)
        self._last_taken = taken
        parts = self._groups.writes.of(self._group % len(self._groups.writes))[skip:]
        for part in parts:
            self._written.add_part(taken + SLOW_CLOCKS - TAKEN_CLOCKS, part)
        self._read.append((clock, taken))
        self._group += 1
