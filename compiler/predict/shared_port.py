"""Simulates the shared port of the feature-memory banks clock by clock: all accesses except the array's reads. For `flow_rates`.

Requesters have the order of priority of `hw/memory/feature_memory.py`. A request is served in parts; each part waits until no
requester of higher priority needs its banks. The model leaves out the latency of a request. `ddr_beats` makes the requests of loads
and stores.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import inf

import numpy as np

from cnna.compiler.cost.engine_steps import Fields, taps_of
from cnna.compiler.lower.kernels import Range
from cnna.compiler.lower.layout import region_words
from cnna.compiler.predict.bank_clocks import Words, plane_words, source_words
from cnna.spec.config import Config

WORD_BITS = 64  # width of numpy's shifts
READ_AHEAD = 8  # clocks by which the vector engine's reads are ahead of their use, where these take longer
WRITTEN_CLOCKS = 24  # from a group's last read by the vector engine to its first write


def parts_of(words: Words, config: Config) -> list[list[int]]:
    """For each request, the sets of banks that it uses one after another. A set is a mask with a bit per bank of every region."""
    banks, asked = config.banks, words >= 0
    bank = words % banks
    place = words // region_words(config) * banks + bank
    masks: list[int] = []
    for low in range(0, config.regions * banks, WORD_BITS):
        here = asked & (place >= low) & (place < low + WORD_BITS) if config.regions * banks > WORD_BITS else asked
        bits = np.where(here, np.left_shift(np.uint64(1), (place - low).astype(np.uint64)), np.uint64(0))
        own = np.bitwise_or.reduce(bits, axis=1).tolist()
        masks = [mask | part << low for mask, part in zip(masks, own, strict=True)] if low else own
    found = [[mask] for mask in masks]
    bits = np.where(asked, 1 << bank, 0)  # their sum is their union, unless a bank is needed twice
    for number in np.flatnonzero(bits.sum(1) != np.bitwise_or.reduce(bits, axis=1)).tolist():
        found[number] = turns_of([word for word in words[number].tolist() if word >= 0], config)
    return found


def turns_of(words: Sequence[int], config: Config) -> list[int]:
    """As `parts_of`, for one request. Lanes with the same bank number are served one after another, even in different regions."""
    turns: list[int] = []
    taken: dict[int, int] = {}
    banks, size = config.banks, region_words(config)
    for word in words:
        bank = word % banks
        turn = taken[bank] = taken.get(bank, -1) + 1
        if turn == len(turns):
            turns.append(0)
        turns[turn] |= 1 << word // size * banks + bank
    return turns


class Requester(ABC):
    """One requester of the port.

    asks: the banks that its present part still needs. wake: the clock before which it has no part to offer. done: the amount that
    has passed. over: whether nothing is left.
    """

    def __init__(self) -> None:
        self.asks = 0
        self.wake = 0.0
        self.done = 0.0
        self.over = False

    @abstractmethod
    def offer(self, clock: int) -> int:
        """The banks of its next part; 0 if it has none in this clock. Called when the part before has passed."""

    @property
    def progress(self) -> float:
        """The amount that has passed by the end of the present clock."""
        return self.done


def simulate(requesters: Sequence[Requester], clocks: int, each: Callable[[], None] | None = None) -> list[float]:
    """Simulates `clocks` clocks. Returns the rate of each requester until it was over. The first one has the highest priority.

    each: called in every clock before the requesters ask.
    """
    before, worked = [requester.progress for requester in requesters], [0 for _ in requesters]
    numbered = list(enumerate(requesters))
    for clock in range(clocks):
        above = 0
        if each:
            each()
        for number, requester in numbered:
            asks = requester.asks
            if not asks and clock >= requester.wake:
                asks = requester.offer(clock)
            if asks:
                requester.asks = asks & above
                above |= asks
            if not requester.over:
                worked[number] += 1
    passed = [requester.progress - done for requester, done in zip(requesters, before, strict=True)]
    return [amount / max(clocks, 1) for amount, clocks in zip(passed, worked, strict=True)]


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
        self, prefix: str, fields: Fields, config: Config, blocks: Range, groups: Sequence[float], first: int, clocks: int
    ) -> None:
        super().__init__()
        size, own = config.chunk_blocks, blocks[1] - blocks[0]
        ends = np.cumsum(groups) - 2 * size
        count = min(len(groups), int(np.searchsorted(ends, clocks)) + 1)
        words = plane_words(prefix, fields, config, blocks, (first, first + count))
        halves = ends[:count].reshape(-1, 1, 1) + np.array([0, size]).reshape(1, -1, 1) + np.arange(own)
        made = zip(halves.ravel().tolist(), parts_of(words, config), strict=False)  # there may be fewer groups than `groups`
        self.extend([(due, part) for due, parts in made for part in parts])


class VectorReads(Requester):
    """The vector engine's reads of a block, from group `first` on: a part a clock. done: parts offered, the present one included.

    A group takes no fewer clocks than it has parts to write, of which each half has one or more.

    Only parts that it can read within `clocks` are made. written: gets the writes of these groups and of earlier groups that are
    still to come, `pace` clocks apart.
    """

    def __init__(self, fields: Fields, config: Config, block: int, first: int, clocks: int, pace: float, written: DueParts) -> None:
        super().__init__()
        taps = taps_of(fields)
        early = min(first, int(WRITTEN_CLOCKS / pace))
        last = first + 1 + clocks // max(taps, 2)
        reads = parts_of(source_words(fields, config, block, (first, last)), config)
        writes = parts_of(plane_words("dst", fields, config, (block, block + 1), (first - early, last)), config)
        for number in range(early):
            due = WRITTEN_CLOCKS - int((early - number) * pace)
            written.extend([(due, part) for half in writes[2 * number : 2 * number + 2] for part in half])
        self._clock = 0
        groups = [[*chain(*reads[low : low + taps])] for low in range(0, len(reads), taps)]
        self._parts = self._made(groups, writes[2 * early :], written)

    @property
    def progress(self) -> float:
        """The parts that have passed. The present one has, unless it still needs banks."""
        return self.done - (1 if self.asks else 0)

    def offer(self, clock: int) -> int:
        """The next part; 0 after the last group."""
        self._clock = clock
        return next(self._parts, 0)

    def _made(self, groups: list[list[int]], writes: list[list[int]], written: DueParts) -> Iterator[int]:
        late = 0  # clocks that reads had to wait
        for number, parts in enumerate(groups):
            own = [part for half in writes[2 * number : 2 * number + 2] for part in half]
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
            written.extend([(self._clock + WRITTEN_CLOCKS, part) for part in own])
        self.over = True
