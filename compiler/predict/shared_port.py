"""Simulates the shared port of the feature-memory banks clock by clock: all accesses except the array's reads. For `flow_rates`.

Requesters have the order of priority of `hw/memory/feature_memory.py`. A request is served in parts; each part waits until no
requester of higher priority needs its banks. The model leaves out the latency of a request. `ddr_beats` makes the requests of loads
and stores.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.lower.kernels import Range
from cnna.compiler.predict.walk_parts import GroupParts, written_parts
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


def simulate(
    requesters: Sequence[Requester], clocks: int, each: Callable[[], None] | None = None, last: Requester | None = None
) -> list[float]:
    """Simulates `clocks` clocks. Returns the rate of each requester until it was over. The first one has the highest priority.

    each: called in every clock before the requesters ask. last: if this one is over, the simulation ends with that clock.
    """
    before = [requester.progress for requester in requesters]
    for requester in requesters:
        requester.ended = inf
    done = 0
    while done < clocks and not (last and last.ended < inf):
        above = 0
        if each:
            each()
        for requester in requesters:
            asks = requester.asks
            if not asks and done >= requester.wake:
                asks = requester.offer(done)
            if asks:
                requester.asks = asks & above
                above |= asks
            if requester.over and requester.ended == inf:
                requester.ended = float(done)
        done += 1
    passed = [requester.progress - amount for requester, amount in zip(requesters, before, strict=True)]
    return [amount / max(min(requester.ended, done), 1) for requester, amount in zip(requesters, passed, strict=True)]


class DueParts(Requester):
    """Parts that are due at known clocks, such as the vector engine's writes: half a group a clock, after its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.wake = inf
        self._due: deque[tuple[float, int]] = deque()

    def extend(self, due: Iterable[tuple[float, int]]) -> None:
        """Adds parts, in the order of the clocks at which they are due."""
        self._due.extend(due)
        if self._due:
            self.wake = self._due[0][0]

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        _, part = self._due.popleft()
        self.wake = self._due[0][0] if self._due else inf
        return part


class ArrayWrites(DueParts):
    """The array's writes, or its reads of residual operands: half a group of one block a clock, at the end of each group.

    groups: the clocks of each group, from number `first` on. Only parts that are due within `clocks` are made. Nothing delays the
    array.
    """

    def __init__(
        self, prefix: str, fields: Fields, config: Config, blocks: Range, groups: NDArray[Any], first: int, clocks: int
    ) -> None:
        super().__init__()
        size, own = config.chunk_blocks, blocks[1] - blocks[0]
        ends = np.cumsum(groups) - 2 * size
        count = min(len(groups), int(np.searchsorted(ends, clocks)) + 1)
        halves = ends[:count].reshape(-1, 1, 1) + np.array([0, size]).reshape(1, -1, 1) + np.arange(own)
        parts = written_parts(prefix, fields, config, blocks, (first, first + count))
        made = zip(halves.ravel().tolist(), parts, strict=False)  # there may be fewer groups than `groups`
        self.extend([(due, part) for due, parts in made for part in parts])


class WrittenPart(NamedTuple):
    """A part that the vector engine writes, of a group of its walk. due: the first clock at which it can be written."""

    group: int
    due: float
    banks: int


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

    @property
    def waiting(self) -> int:
        """Parts that have been added and not been offered."""
        return len(self._due)

    def add(self, parts: Sequence[WrittenPart]) -> None:
        """Adds parts, in the order of the clocks at which they are due."""
        self._parts.extend(parts)
        self.extend([(part.due, part.banks) for part in parts])

    def offer(self, clock: int) -> int:
        """The next part. It is due, because `wake` is its clock."""
        self._offered.append(clock)
        part = super().offer(clock)
        self.over = not self._due
        return part

    def left(self, clock: float, groups: float, simulated: int) -> list[WrittenPart]:
        """The parts of groups before that number which have not been offered by `clock`. That becomes their clock 0.

        simulated: the clocks of the stretch. Behind them, nothing is known to hold parts up: one is offered in each clock.
        """
        found, free = [], float(simulated)
        for group, due, banks in self._parts[bisect_right(self._offered, clock) :]:
            if group >= groups:
                break  # so are all behind it
            offered = max(due, free)
            free = offered + 1
            if offered >= clock:
                found.append(WrittenPart(BEFORE, due - clock, banks))
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
            written.add([WrittenPart(BEFORE, due, part) for part in parts.writes[first - early + number]])
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
            parts, own = all_parts.reads[group], all_parts.writes[group]
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
