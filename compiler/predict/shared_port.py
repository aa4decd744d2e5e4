"""Simulates the shared port of the feature-memory banks clock by clock: all accesses except the array's reads. For `flow_rates`.

Requesters have the order of priority of `hw/memory/feature_memory.py`. A request is served in parts; each part waits until no
requester of higher priority needs its banks. The model leaves out the latency of a request. `array_writes` makes the requests of
the array, and `ddr_beats` those of loads and stores.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Final, final

from cnna.compiler.predict.request_parts import GroupParts, Parts

if TYPE_CHECKING:
    from mypy_extensions import i64  # as in `ddr_beats`

READ_AHEAD: Final = 8  # clocks by which the vector engine's reads are ahead of their use, where these take longer
BEFORE: Final = -1  # the group of writes from before the first group of a walk
ROOM_PARTS: Final = 64  # parts that the vector engine has read and not yet written when it stops reading
WRITTEN_CLOCKS: Final = 24  # from a group's last read by the vector engine to its first write


class Requester(ABC):
    """One requester of the port.

    asks: the banks that its present part still needs. wake: the clock before which it has no part to offer. done: the amount that
    has passed. over: whether nothing is left. ended: the clocks of the last `simulate` until it was over; inf: it was not.
    """

    def __init__(self) -> None:
        self.asks = 0
        self.wake = 0.0
        self.done = 0.0
        self.over = False
        self.ended = inf

    @abstractmethod
    def offer(self, clock: int) -> int:
        """The banks of its next part; 0 if it has none in this clock. Called when the part before has passed."""

    @property
    def progress(self) -> float:
        """The amount that has passed by the end of the present clock."""
        return self.done


class Clocked(ABC):
    """Something that goes on with each clock beside the requesters."""

    @abstractmethod
    def clock(self) -> None:
        """Lets one clock pass. Called before the requesters ask."""


def simulate(
    requesters: Sequence[Requester], clocks: int, beside: Clocked | None = None, last: Requester | None = None
) -> list[float]:
    """Simulates `clocks` clocks. Returns the rate of each requester until it was over. The first one has the highest priority.

    last: if this one is over, the simulation ends with that clock.
    """
    before = [requester.progress for requester in requesters]
    served = list[Requester](requesters)
    for requester in served:
        requester.ended = inf
    done, now = 0, 0.0
    while done < clocks and not (last is not None and last.ended < inf):
        above = 0
        if beside is not None:
            beside.clock()
        for requester in served:
            asks = requester.asks
            if not asks and now >= requester.wake:
                asks = requester.offer(done)
            if asks:
                if above:
                    requester.asks = asks & above
                    above |= asks
                else:
                    requester.asks = 0
                    above = asks
            if requester.over and requester.ended == inf:
                requester.ended = now
        done += 1
        now += 1.0
    passed = [requester.progress - amount for requester, amount in zip(served, before, strict=True)]
    return [amount / max(min(requester.ended, done), 1) for requester, amount in zip(served, passed, strict=True)]


class DueParts(Requester):
    """Parts that are due at known clocks, such as the vector engine's writes: half a group a clock, after its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.wake = inf
        self._due: list[float] = []  # by part, the clock
        self._banks: list[int] = []  # by part
        self._next: i64 = 0  # number of the part that is offered next

    @property
    def waiting(self) -> int:
        """Parts that have been added and not been offered."""
        return len(self._due) - self._next

    def add_part(self, due: float, banks: int) -> None:
        """Adds a part. Parts come in the order of the clocks at which they are due."""
        self._due.append(due)
        self._banks.append(banks)
        self.wake = self._due[self._next]

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        return self._next_part()

    def _next_part(self) -> int:
        number = self._next
        self._next = number + 1
        self.wake = self._due[number + 1] if number + 1 < len(self._due) else inf
        return self._banks[number]


class WrittenPart:
    """A part that the vector engine writes, of a group of its walk. due: the first clock at which it can be written."""

    def __init__(self, group: int, due: float, banks: int) -> None:
        self.group, self.due, self.banks = group, due, banks


@final
class VectorWrites(DueParts):
    """The vector engine's writes. It keeps what it was given, so that the next stretch can go on with those that fell behind.

    behind: the writes that are left from before; their clocks may lie in the past. None: not known.
    """

    def __init__(self, behind: Sequence[WrittenPart] | None = None) -> None:
        super().__init__()
        self.behind = behind
        self._groups: list[int] = []  # by part
        self._offered: list[int] = []  # by part, the clock
        self.add(behind or ())

    def add(self, parts: Sequence[WrittenPart]) -> None:
        """Adds parts, in the order of the clocks at which they are due."""
        for part in parts:
            self._groups.append(part.group)
            self.add_part(part.due, part.banks)

    def add_group(self, group: int, due: float, parts: Parts) -> None:
        """Adds the parts of a group."""
        for number in range(parts.start(group), parts.start(group + 1)):
            self._groups.append(group)
            self.add_part(due, parts.flat[number])

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        self._offered.append(clock)
        part = self._next_part()
        self.over = self.wake == inf
        return part

    def left(self, clock: float, groups: float, simulated: int) -> list[WrittenPart]:
        """The parts of groups before that number which have not been offered by `clock`. That becomes their clock 0.

        simulated: the clocks of the stretch. Behind them, nothing is known to hold parts up: one is offered in each clock.
        """
        found, free = [], float(simulated)
        for number in range(bisect_right(self._offered, clock), len(self._due)):
            if self._groups[number] >= groups:
                break  # so are all behind it
            due = self._due[number]
            offered = max(due, free)
            free = offered + 1
            if offered >= clock:
                found.append(WrittenPart(BEFORE, due - clock, self._banks[number]))
        return found


@final
class VectorReads(Requester):
    """The vector engine's reads of a block, from group `first` on: a part a clock. done: parts offered, the present one included.

    A group takes no fewer clocks than it has parts to write, of which each half has one or more. Reads wait while ROOM_PARTS
    writes wait.

    written: gets the writes of these groups. If it does not know those of earlier groups that are still to come, it gets them too,
    `pace` clocks apart.
    """

    def __init__(self, parts: GroupParts, first: int, pace: float, written: VectorWrites) -> None:
        super().__init__()
        self._reads, self._writes, self._written = parts.reads, parts.writes, written
        early = min(first, int(WRITTEN_CLOCKS / pace)) if written.behind is None else 0
        for number in range(early):
            due = WRITTEN_CLOCKS - int((early - number) * pace)
            written.add([WrittenPart(BEFORE, due, part) for part in parts.writes.of(first - early + number)])
        self._first: i64 = first
        self._group: i64 = first - 1  # that is read
        self._reading = False  # whether its parts are being offered
        self._next: i64 = 0  # number of the part that is offered next
        self._end: i64 = 0  # of the group's parts
        self._begin: i64 = 0  # when the first of these was offered
        self._idle: i64 = 0  # clocks without a read that are left, because the group's writes take longer
        self._late: i64 = 0  # clocks that reads had to wait

    @property
    def progress(self) -> float:
        """The parts that have passed. The present one has, unless it still needs banks."""
        return self.done - (1.0 if self.asks else 0.0)

    def offer(self, clock: int) -> int:
        """The next part; 0 after the last group, and while there is no room."""
        if self._written.waiting > ROOM_PARTS or self.over:
            return 0
        while self._next == self._end:
            if self._reading:
                self._end_reads(clock)
            if self._idle:
                self._idle -= 1
                self.done += 1.0
                return 0
            if self._group >= self._first:
                self._written.add_group(self._group, float(clock + WRITTEN_CLOCKS), self._writes)
            self._group += 1
            if self._group >= len(self._reads):
                self.over = True
                return 0
            self._next, self._end = self._reads.start(self._group), self._reads.start(self._group + 1)
            self._reading, self._begin = True, clock
        part = self._reads.flat[self._next]
        self._next += 1
        self.done += 1.0
        return part

    def _end_reads(self, clock: int) -> None:
        """The group's reads have been offered. Those that had to wait catch up in the clocks in which its writes take longer."""
        reads = self._reads.start(self._group + 1) - self._reads.start(self._group)
        writes = self._writes.start(self._group + 1) - self._writes.start(self._group)
        free = max(writes - reads, 0)
        late = self._late + clock - self._begin - reads
        caught_up = min(late, free)
        self._late = min(late - caught_up, READ_AHEAD)
        self.done += float(caught_up)
        self._idle = free - caught_up
        self._reading = False
