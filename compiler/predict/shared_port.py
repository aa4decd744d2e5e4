"""Simulates the shared port of the feature-memory banks clock by clock: all accesses except the array's reads. For `flow_rates`.

Requesters have the order of priority of `hw/memory/feature_memory.py`. A request is served in parts; each part waits until no
requester of higher priority needs its banks. The model leaves out the latency of a request. `ddr_beats` makes the requests of loads
and stores.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from cnna.compiler.cost.engine_steps import Fields, command_groups
from cnna.compiler.lower.kernels import Range
from cnna.compiler.predict.request_parts import GroupParts, Parts
from cnna.compiler.predict.walk_parts import PIECE_GROUPS, written_parts
from cnna.spec.config import Config

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
    served = list[Requester](requesters)
    before = [requester.progress for requester in served]
    for requester in served:
        requester.ended = inf
    done = 0
    while done < clocks and not (last is not None and last.ended < inf):
        above = 0
        if beside is not None:
            beside.clock()
        for requester in served:
            asks = requester.asks
            if not asks and done >= requester.wake:
                asks = requester.offer(done)
            if asks:
                requester.asks = asks & above
                above |= asks
            if requester.over and requester.ended == inf:
                requester.ended = float(done)
        done += 1
    passed = [requester.progress - amount for requester, amount in zip(served, before, strict=True)]
    return [amount / max(min(requester.ended, done), 1) for requester, amount in zip(served, passed, strict=True)]


class DueParts(Requester):
    """Parts that are due at known clocks, such as the vector engine's writes: half a group a clock, after its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.wake = inf
        self._due: list[float] = []  # by part, the clock
        self._banks: list[int] = []  # by part
        self._next = 0  # number of the part that is offered next

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
        number = self._next
        self._next = number + 1
        self.wake = self._due[number + 1] if number + 1 < len(self._due) else inf
        return self._banks[number]


class ArrayWrites(Requester):
    """The array's writes, or its reads of residual operands: half a group of one block a clock, at the end of each group.

    ends: when each group of the walk ends. They begin with number `first`, at clock 0. Nothing delays the array. Parts are looked
    up as they are due, because most stretches are known or end early.
    """

    def __init__(self, prefix: str, fields: Fields, config: Config, blocks: Range, ends: Sequence[int], first: int) -> None:
        super().__init__()
        self._walk = prefix, fields, config, blocks
        self._size, self._own, self._ends = config.chunk_blocks, blocks[1] - blocks[0], ends
        self._begin = (ends[first - 1] if first else 0) + 2 * self._size
        self._group, self._half, self._block = first, 0, 0  # of the next request
        self._groups = min(len(ends), command_groups(fields, config))  # there may be fewer than `ends`
        self._parts = Parts([], 1, [])
        self._request = self._number = 0  # of the next request and part, among those of a piece of the walk
        self.wake = inf
        if first < self._groups:
            self._look_up()
            self.wake = float(ends[first] - self._begin)

    def _look_up(self) -> None:
        """Looks up the parts of the piece that has the next group."""
        piece, group = self._group // PIECE_GROUPS, self._group % PIECE_GROUPS
        prefix, fields, config, blocks = self._walk
        self._parts = parts = written_parts(prefix, fields, config, blocks, piece)
        self._request = request = group * 2 * self._own
        self._number = request * parts.each if parts.each else parts.starts[request]

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        parts, number = self._parts, self._number
        self._number = number + 1
        if number + 1 == (parts.starts[self._request + 1] if not parts.each else (self._request + 1) * parts.each):
            self._request += 1
            self._go_on()
        return parts.flat[number]

    def _go_on(self) -> None:
        """Goes on to the next request."""
        self._block += 1
        if self._block == self._own:
            self._block, self._half = 0, 1 - self._half
            if not self._half:
                self._group += 1
                if self._group == self._groups:
                    self.wake = inf
                    return
                if self._group % PIECE_GROUPS == 0:
                    self._look_up()
        self.wake = float(self._ends[self._group] - self._begin + self._half * self._size + self._block)


class WrittenPart:
    """A part that the vector engine writes, of a group of its walk. due: the first clock at which it can be written."""

    def __init__(self, group: int, due: float, banks: int) -> None:
        self.group, self.due, self.banks = group, due, banks


class VectorWrites(DueParts):
    """The vector engine's writes. It keeps what it was given, so that the next stretch can go on with those that fell behind.

    behind: the writes that are left from before; their clocks may lie in the past. None: not known.
    """

    def __init__(self, behind: Sequence[WrittenPart] | None = None) -> None:
        super().__init__()
        self.behind = behind
        self._parts: list[WrittenPart] = []
        self._offered: list[int] = []  # by part, the clock
        self.add(behind or ())

    def add(self, parts: Sequence[WrittenPart]) -> None:
        """Adds parts, in the order of the clocks at which they are due."""
        for part in parts:
            self._parts.append(part)
            self.add_part(part.due, part.banks)

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        self._offered.append(clock)
        part = super().offer(clock)
        self.over = self.wake == inf
        return part

    def left(self, clock: float, groups: float, simulated: int) -> list[WrittenPart]:
        """The parts of groups before that number which have not been offered by `clock`. That becomes their clock 0.

        simulated: the clocks of the stretch. Behind them, nothing is known to hold parts up: one is offered in each clock.
        """
        found, free = [], float(simulated)
        for number in range(bisect_right(self._offered, clock), len(self._parts)):
            part = self._parts[number]
            if part.group >= groups:
                break  # so are all behind it
            offered = max(part.due, free)
            free = offered + 1
            if offered >= clock:
                found.append(WrittenPart(BEFORE, part.due - clock, part.banks))
        return found


class VectorReads(Requester):
    """The vector engine's reads of a block, from group `first` on: a part a clock. done: parts offered, the present one included.

    A group takes no fewer clocks than it has parts to write, of which each half has one or more. Reads wait while ROOM_PARTS
    writes wait.

    written: gets the writes of these groups. If it does not know those of earlier groups that are still to come, it gets them too,
    `pace` clocks apart.
    """

    def __init__(self, parts: GroupParts, first: int, pace: float, written: VectorWrites) -> None:
        super().__init__()
        self._first, self._written = first, written
        early = min(first, int(WRITTEN_CLOCKS / pace)) if written.behind is None else 0
        for number in range(early):
            due = WRITTEN_CLOCKS - int((early - number) * pace)
            written.add([WrittenPart(BEFORE, due, part) for part in parts.writes.of(first - early + number)])
        self._clock = 0
        self._parts = self._made(parts)

    @property
    def progress(self) -> float:
        """The parts that have passed. The present one has, unless it still needs banks."""
        return self.done - (1 if self.asks else 0)

    def offer(self, clock: int) -> int:
        """The next part; 0 after the last group, and while there is no room."""
        self._clock = clock
        return 0 if self._written.waiting > ROOM_PARTS else next(self._parts, 0)

    def _made(self, all_parts: GroupParts) -> Iterator[int]:
        late = 0  # clocks that reads had to wait
        for group in range(self._first, len(all_parts.reads)):
            parts, own = all_parts.reads.of(group), all_parts.writes.of(group)
            begin = self._clock
            for part in parts:
                self.done += 1
                yield part
            free = max(len(own) - len(parts), 0)  # clocks without a read, in which reads that had to wait catch up
            late += self._clock - begin - len(parts)
            caught_up = min(late, free)
            late = min(late - caught_up, READ_AHEAD)
            self.done += caught_up
            for _ in range(free - caught_up):
                self.done += 1
                yield 0
            due = self._clock + WRITTEN_CLOCKS
            self._written.add([WrittenPart(group, due, part) for part in own])
        self.over = True
