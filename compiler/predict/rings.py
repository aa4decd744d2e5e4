"""Weight rings of `predict`'s model: which words have come, and how a reader takes them. `weight_ports` fills them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from cnna.compiler.predict.ready import Ready, Steps

QUANTUM: Final = 64  # words of a ring whose arrival is looked up together


@dataclass
class Column:
    """The part of a ring that some of the ports fill. asked: words that have been requested. come: words that have come.

    clocks: the clock at which as many words as the entry of `counts` says had come. near: the entry that was looked up last.
    """

    asked: int = 0
    come: int = 0
    counts: list[int] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    near: int = 0

    def came(self, word: int) -> float:
        """The clock at which `word` words had come; inf: not known yet."""
        if not word:
            return 0.0
        if self.come < word:  # nearly always
            return inf
        counts, found = self.counts, self.near  # a reader asks for words that follow each other
        while counts[found] < word:
            found += 1
        while found and counts[found - 1] >= word:
            found -= 1
        self.near = found
        return self.clocks[found]

    def add(self, words: int, clock: float) -> None:
        """Notes that by now `words` words have come, the last ones at `clock`."""
        self.come = words
        self.counts.append(words)
        self.clocks.append(clock)


@dataclass
class Ring:
    """A weight ring. Words are counted from the program's start. taken: words that the reader has begun to use."""

    size: int
    columns: list[Column]
    freed: int = 0
    taken: int = 0

    def came(self, word: int) -> float:
        """The clock at which `word` whole words had come; inf: not known yet."""
        latest = 0.0
        for column in self.columns:
            clock = column.came(word)
            if clock > latest:
                latest = clock
        return latest

    def when_taken(self, words: int) -> Ready | float:
        """The first clock at which a reader can start on the last `words` taken words and find each there, one word a clock."""
        known = self.came(self.taken) - words
        return known if known < inf else WordsCome(self, self.taken, words)


class WordsCome(Ready):
    """As `Ring.when_taken`, of `words` words before word number `last`."""

    def __init__(self, ring: Ring, last: int, words: int) -> None:
        self._ring, self._last, self._words = ring, last, words

    def clock(self, now: float) -> float:
        """inf: the last one has not come."""
        return self._ring.came(self._last) - self._words


class Taking(Steps):
    """A reader takes `words` words of a ring in each of `groups`, over so many clocks, none before it has come.

    free: whether it makes room for others by that. At least one word.
    """

    def __init__(self, ring: Ring, words: int, groups: Sequence[float], free: bool) -> None:
        super().__init__()
        self._ring, self._words, self._groups, self._free = ring, words, groups, free
        self._group = self._low = 0  # the present group, and its words before the present ones
        self._last = self._quantum = 0  # the present words: the number of the last one, and how many they are
        self._coming = False  # whether they may still have to come

    def go_on(self, now: float) -> bool:
        """Takes the present words when they have come, and then the next ones."""
        quantum = self._quantum
        if self._coming:
            self._coming = False
            self.at = now + self._groups[self._group] * quantum / self._words
            return True
        ring = self._ring
        if self._free:
            ring.freed += quantum
        self._low += quantum
        if self._low == self._words:
            self._low, self._group = 0, self._group + 1
            if self._group == len(self._groups):
                return False
        self._quantum = quantum = min(QUANTUM, self._words - self._low)
        ring.taken += quantum
        self._last, self._coming = ring.taken, True
        self.at = self.clock(now)
        return True

    def clock(self, now: float) -> float:
        """From which the words come one a clock; inf: the last one has not come."""
        return self._ring.came(self._last) - self._quantum
