"""Finds which sets of words have words in common, all pairs at once.

The words of a set lie in runs. A sweep over the memory meets where each run begins and ends, in order, and knows which sets are
under way there. So a set costs as much as it has runs, however many words these have.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Range
from cnna.compiler.lower.layout import Words

WALKS = 4  # of runs, at most: images, blocks, rows and columns
STAY = (1, 0)  # a walk of one step
TOGETHER = 1 << 24  # bits that are unpacked at once, a byte each: a batch of 64 has ten thousand sets, and a bit for each pair


def conflicts(space: str, size: int, used: Sequence[Words], spans: Sequence[Range]) -> list[list[int]]:
    """For each of the sets, the numbers of all that share a word with it and are used later, in order; it may be one of them.

    size: of the space that they lie in. Runs of one set have no word in common. spans: of each, the numbers of the first and the
    last command that uses it. Used later is one whose last command is behind the first command of the other.
    """
    count = len(used)
    if not count:
        return []
    owners, firsts, lengths = _runs(used)
    lasts = firsts + lengths
    assert firsts.min() >= 0, f"words lie before {space}"
    assert lasts.max() <= size, f"words lie beyond {space}"
    # one number for a border: where it is, then whether a run begins there (after those that end), then whose run it is
    borders = np.concatenate([(2 * firsts + 1) * count + owners, 2 * lasts * count + owners])
    borders.sort()
    places, whose = np.divmod(borders, count)
    bits = [1 << number for number in range(count)]
    before = [0] * count  # of each set, those under way where one of its runs begins
    active = 0
    for begins, number in zip((places & 1).tolist(), whose.tolist(), strict=True):
        active ^= bits[number]
        if begins:
            before[number] |= active
    return _listed(before, np.array(spans))


def _runs(used: Sequence[Words]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of all runs: the set that it belongs to, its first word, and its length."""
    table = [
        (number, first, length, *(number for walk in (*walks, *(STAY,) * (WALKS - len(walks))) for number in walk))
        for number, words in enumerate(used)
        for first, walks, length in words
    ]
    columns = np.array(table, np.int64).T
    owners, firsts, lengths, walks = columns[0], columns[1], columns[2], columns[3:]
    for level in range(0, 2 * WALKS, 2):
        steps = walks[level]
        if (steps == 1).all():
            continue
        rows = np.repeat(np.arange(len(steps)), steps)
        inner = np.arange(len(rows)) - (steps.cumsum() - steps)[rows]
        firsts = firsts[rows] + inner * walks[level + 1][rows]
        owners, lengths, walks = owners[rows], lengths[rows], walks[:, rows]
    return owners, firsts, lengths


def _listed(before: Sequence[int], spans: NDArray[np.int64]) -> list[list[int]]:
    """For each set, those that `before` has for it, or that have it, if they are used later. spans: as of `conflicts`."""
    count, size = len(before), -(-len(before) // 8)
    firsts, lasts = spans.T
    pairs: list[NDArray[np.int64]] = []
    rows = max(TOGETHER // count, 1)
    for low in range(0, count, rows):
        packed = np.frombuffer(b"".join(bits.to_bytes(size, "little") for bits in before[low : low + rows]), np.uint8)
        found = np.flatnonzero(np.unpackbits(packed.reshape(-1, size), axis=1, bitorder="little", count=count)) + low * count
        ones, others = np.divmod(found, count)
        pairs += [found[lasts[others] > firsts[ones]], (others * count + ones)[lasts[ones] > firsts[others]]]
    whose, numbered = np.divmod(np.unique(np.concatenate(pairs)), count)
    numbers = numbered.tolist()
    return [numbers[low:high] for low, high in pairwise(whose.searchsorted(np.arange(count + 1)).tolist())]
