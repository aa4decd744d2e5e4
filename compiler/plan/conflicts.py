"""Finds which sets of words have words in common, all pairs at once.

The words of a set lie in runs. A sweep over the memory meets where each run begins and ends, in order, and knows which sets are
under way there. So a set costs as much as it has runs, however many words these have.

Rows of a map often lie a few words apart. Such gaps are filled before the sweep, which leaves a tenth of the runs, or a run for the
whole map. No two sets have words in common for that alone, as long as the gaps of each are shorter than the runs of the other: a
filled gap has runs on both sides, and what else has a word in it is too long not to meet one of them. Pairs of which this is not
sure are swept again with the runs that they have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Range
from cnna.compiler.lower.layout import Words

WALKS = 4  # of runs, at most: images, blocks, rows and columns
STAY = (1, 0)  # a walk of one step
NARROW = 8  # words: a gap of fewer is filled; those between rows have up to five, and all others hundreds
TOGETHER = 1 << 24  # bits that are unpacked at once, a byte each: a batch of 64 has ten thousand sets, and a bit for each pair

Numbers = NDArray[np.int64]


def conflicts(space: str, size: int, used: Sequence[Words], spans: Sequence[Range]) -> list[list[int]]:
    """For each of the sets, the numbers of all that share a word with it and are used later, in order; it may be one of them.

    size: of the space that they lie in. Runs of one set have no word in common. spans: of each, the numbers of the first and the
    last command that uses it. Used later is one whose last command is behind the first command of the other.
    """
    count = len(used)
    if not count:
        return []
    exact = _walked(used)
    assert exact.firsts.min() >= 0, f"words lie before {space}"
    assert exact.ends().max() <= size, f"words lie beyond {space}"
    filled, gaps = exact.filled()
    before = _swept(*filled.runs(), count)
    shortest, widest = np.full(count, size), np.zeros(count, np.int64)
    np.minimum.at(shortest, exact.owners, exact.lengths)
    np.maximum.at(widest, exact.owners, gaps)
    short = shortest <= widest.max()
    if short.any():
        _sweep_again(before, exact, short, widest >= shortest[short].min())
    return _listed(before, np.array(spans))


@dataclass(frozen=True)
class _Walks:
    """Runs of sets, as one of each and walks to the others. walks: steps and their size in turn, the innermost walk last."""

    owners: Numbers
    firsts: Numbers
    lengths: Numbers
    walks: Numbers

    def ends(self) -> Numbers:
        """The word behind the last run of each."""
        return self.firsts + ((self.walks[::2] - 1) * self.walks[1::2]).sum(0) + self.lengths

    def filled(self) -> tuple["_Walks", Numbers]:
        """With narrow gaps filled, and the widest gap of each that was."""
        lengths, walks, widest = self.lengths, self.walks.copy(), np.zeros_like(self.lengths)
        within = np.ones(len(lengths), bool)  # whether a walk and those within it make one run
        for level in reversed(range(0, 2 * WALKS, 2)):
            steps, gaps = walks[level], walks[level + 1] - lengths
            joined = within & (steps > 1) & (gaps >= 0) & (gaps < NARROW)
            within &= joined | (steps == 1)
            widest = np.where(joined, np.maximum(widest, gaps), widest)
            lengths = np.where(joined, lengths + (steps - 1) * walks[level + 1], lengths)
            walks[level] = np.where(joined, 1, steps)
        return _Walks(self.owners, self.firsts, lengths, walks), widest

    def of(self, sets: NDArray[np.bool_]) -> "_Walks":
        """Those of some sets alone."""
        own = sets[self.owners]
        return _Walks(self.owners[own], self.firsts[own], self.lengths[own], self.walks[:, own])

    def runs(self) -> tuple[Numbers, Numbers, Numbers]:
        """Of all runs: the set that it belongs to, its first word, and the word behind its last."""
        owners, firsts, lengths, walks = self.owners, self.firsts, self.lengths, self.walks
        for level in range(0, 2 * WALKS, 2):
            steps = walks[level]
            if (steps == 1).all():
                continue
            rows = np.repeat(np.arange(len(steps)), steps)
            inner = np.arange(len(rows)) - (steps.cumsum() - steps)[rows]
            firsts = firsts[rows] + inner * walks[level + 1][rows]
            owners, lengths, walks = owners[rows], lengths[rows], walks[:, rows]
        return owners, firsts, firsts + lengths


def _walked(used: Sequence[Words]) -> _Walks:
    table: list[int] = []
    for number, words in enumerate(used):
        for first, walks, length in words:
            table += (number, first, length)
            for walk in walks:
                table += walk
            table += STAY * (WALKS - len(walks))
    columns = np.array(table, np.int64).reshape(-1, 3 + 2 * WALKS).T
    return _Walks(columns[0], columns[1], columns[2], columns[3:])


def _swept(owners: Numbers, firsts: Numbers, lasts: Numbers, count: int) -> list[int]:
    """Of each set, a bit for every set that is under way where one of its runs begins."""
    # one number for a border: where it is, then whether a run begins there (after those that end), then whose run it is
    borders = np.concatenate([(2 * firsts + 1) * count + owners, 2 * lasts * count + owners])
    borders.sort()
    places, whose = np.divmod(borders, count)
    bits = [1 << number for number in range(count)]
    before = [0] * count
    active = 0
    for begins, number in zip((places & 1).tolist(), whose.tolist(), strict=True):
        active ^= bits[number]
        if begins:
            before[number] |= active
    return before


def _sweep_again(before: list[int], exact: _Walks, short: NDArray[np.bool_], gappy: NDArray[np.bool_]) -> None:
    """Corrects what `before` has for pairs of a short and a gappy set. A set may be both."""
    count = len(before)
    owners, firsts, lasts = exact.of(short | gappy).runs()
    own = short[owners]
    order = np.argsort(firsts[own])
    begins, ends = firsts[own][order], np.maximum.accumulate(lasts[own][order])
    earlier = begins.searchsorted(lasts)  # runs of short sets that begin before the end of each
    meets = (earlier > 0) & (ends[earlier - 1] > firsts)
    found = _swept(owners[meets], firsts[meets], lasts[meets], count)
    bits = [sum(1 << number for number in np.flatnonzero(sets).tolist()) for sets in (gappy, short)]
    for number in np.flatnonzero(short | gappy).tolist():
        doubtful = bits[0] * bool(short[number]) | bits[1] * bool(gappy[number])
        before[number] = before[number] & ~doubtful | found[number] & doubtful


def _listed(before: Sequence[int], spans: Numbers) -> list[list[int]]:
    """For each set, those that `before` has for it, or that have it, if they are used later. spans: as of `conflicts`."""
    count, size = len(before), -(-len(before) // 8)
    firsts, lasts = spans.T
    pairs: list[Numbers] = []
    rows = max(TOGETHER // count, 1)
    for low in range(0, count, rows):
        packed = np.frombuffer(b"".join(bits.to_bytes(size, "little") for bits in before[low : low + rows]), np.uint8)
        unpacked = np.unpackbits(packed.reshape(-1, size), axis=1, bitorder="little", count=count)
        found = np.flatnonzero(unpacked.view(np.bool_)) + low * count  # numbers that may be above 1 are searched more slowly
        ones, others = np.divmod(found, count)
        pairs += [found[lasts[others] > firsts[ones]], (others * count + ones)[lasts[ones] > firsts[others]]]
    whose, numbered = np.divmod(np.unique(np.concatenate(pairs)), count)
    numbers = numbered.tolist()
    return [numbers[low:high] for low, high in pairwise(whose.searchsorted(np.arange(count + 1)).tolist())]
