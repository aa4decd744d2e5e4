"""The port of feature memory's banks that all but the array's reads share, played clock by clock. Used by `speeds`.

Users ask in the order of priority of `hw/memory/feature_memory.py`. A request is served in parts; each part waits until no user of
higher priority needs its banks. The model leaves out a request's latency. Load and store ask for what DDR has moved: see
`ddr_beats`.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from math import inf

import numpy as np

from cnna.compiler.cost.engine_steps import Fields, taps_of
from cnna.compiler.lower.kernels import Range
from cnna.compiler.predict.bank_clocks import NONE, Words, plane_words, source_words
from cnna.spec.config import Config

WORD_BITS = 64  # that numpy shifts
WRITTEN_CLOCKS = 24  # from a group's last read by the vector engine to its first write


def parts_of(words: Words, config: Config) -> list[list[int]]:
    """For each request the sets of banks that it takes one after another: a bit for each bank of every region."""
    bank = words % config.banks
    place = words // (config.banks * config.bank_words) * config.banks + bank
    masks: list[int] = []
    for low in range(0, config.regions * config.banks, WORD_BITS):
        here = (words >= 0) & (place >= low) & (place < low + WORD_BITS)
        bits = np.where(here, np.left_shift(np.uint64(1), (place - low).astype(np.uint64)), np.uint64(0))
        own = np.bitwise_or.reduce(bits, axis=1).tolist()
        masks = [mask | part << low for mask, part in zip(masks, own, strict=True)] if low else own
    found = [[mask] for mask in masks]
    ordered = np.sort(np.where(words >= 0, bank, NONE - np.arange(words.shape[1])), axis=1)
    for number in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(1)).tolist():
        found[number] = turns_of([word for word in words[number].tolist() if word >= 0], config)
    return found


def turns_of(words: Sequence[int], config: Config) -> list[int]:
    """The same for one request: lanes that share a bank, of whatever region, take turns."""
    turns: list[int] = []
    taken: dict[int, int] = {}
    banks, region_words = config.banks, config.banks * config.bank_words
    for word in words:
        bank = word % banks
        turn = taken[bank] = taken.get(bank, -1) + 1
        if turn == len(turns):
            turns.append(0)
        turns[turn] |= 1 << word // region_words * banks + bank
    return turns


class User(ABC):
    """One user of the port.

    asks: the banks that it still needs for the part under way. wake: before this clock it has no part to offer. done: how much has
    passed. over: nothing is left.
    """

    def __init__(self) -> None:
        self.asks, self.wake, self.done, self.over = 0, 0.0, 0.0, False

    @abstractmethod
    def offer(self, clock: int) -> int:
        """The banks of its next part, 0 if it has none in this clock; called when the part before has passed."""


def play(users: Sequence[User], clocks: int, each: Callable[[], None] | None = None) -> list[float]:
    """Plays so many clocks of users in order of priority, the highest first; of each, how much passed a clock until it was over.

    each: what else happens in a clock, before the users ask.
    """
    before, worked = [user.done for user in users], [0 for _ in users]
    numbered = list(enumerate(users))
    for clock in range(clocks):
        above = 0
        if each:
            each()
        for number, user in numbered:
            asks = user.asks
            if not asks and clock >= user.wake:
                asks = user.offer(clock)
            if asks:
                user.asks = asks & above
                above |= asks
            if not user.over:
                worked[number] += 1
    return [(user.done - done) / max(clocks, 1) for user, done, clocks in zip(users, before, worked, strict=True)]


class Written(User):
    """Parts that are due at known clocks: here what the vector engine writes, half a group a clock, after it has read the group."""

    def __init__(self) -> None:
        super().__init__()
        self.wake = inf
        self._due: deque[tuple[float, int]] = deque()

    def extend(self, due: Iterable[tuple[float, int]]) -> None:
        """Adds parts, in order of the clocks at which they are due."""
        self._due.extend(due)
        if self._due:
            self.wake = self._due[0][0]

    def offer(self, clock: int) -> int:
        """The next part, which is due."""
        _, part = self._due.popleft()
        self.wake = self._due[0][0] if self._due else inf
        return part


class Writes(Written):
    """What the array writes, or reads as residual operands: half a group and one block a clock, at the end of each group.

    groups: the clocks of each, from number `first` on. Only what is due within `clocks` is made. The array is never held up.
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


class Reads(User):
    """What the vector engine reads of a block, from group `first` on: a part a clock, but no group in less than two. done: clocks.

    Only what can be read within `clocks` is made. The writes of the groups before are still to come, `pace` clocks apart.
    """

    def __init__(self, fields: Fields, config: Config, block: int, first: int, clocks: int, pace: float, written: Written) -> None:
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

    def offer(self, clock: int) -> int:
        """The next part; none when the groups are over."""
        self._clock = clock
        return next(self._parts, 0)

    def _made(self, groups: list[list[int]], writes: list[list[int]], written: Written) -> Iterator[int]:
        for number, parts in enumerate(groups):
            for part in [*parts, *repeat(0, 2 - len(parts))]:
                yield part
                self.done += 1
            due = self._clock + WRITTEN_CLOCKS
            written.extend([(due, part) for half in writes[2 * number : 2 * number + 2] for part in half])
        self.over = True
