"""Sets of words conflict if they have a word in common, and only then."""

import numpy as np
import pytest

from cnna.compiler.lower.layout import Box, FeaturePlace, feature_words, listed
from cnna.compiler.plan.conflicts import conflicts

DECK = 4096


SMALL, WIDE = (4, 6, 6, 9), (3, 5, 9, 40)  # of a map, the most images, blocks, rows and pitch


def some_words(rng, most=SMALL):
    """The words of a random box of a random place; of every second one, rows and columns are apart."""
    images, blocks, height, pitch = (int(rng.integers(1, size)) for size in most)
    depth = int(rng.integers(1, 3))
    block_words = pitch * height + int(rng.integers(3))
    place = FeaturePlace(int(rng.integers(DECK // 2)), pitch, block_words, block_words * blocks, depth=depth)
    ranges = []
    for size in (images, blocks, height, pitch):
        low = int(rng.integers(size))
        ranges.append((low, int(rng.integers(low, size)) + 1))
    step = (int(rng.integers(1, 4)), int(rng.integers(1, 4))) if rng.integers(2) else (1, 1)
    return feature_words(place, Box(*ranges, step), DECK)


@pytest.mark.parametrize("most", [SMALL, WIDE], ids=["small", "wide"])
@pytest.mark.parametrize(("count", "together"), [(1, 1), (2, 9), (7, 20), (60, 250), (60, 1 << 24)])
def test_conflicts_are_those_of_the_words_one_by_one(count, together, most, seed, monkeypatch):
    """Also where the pairs are listed in several steps, as those of a large batch are, to take little memory."""
    monkeypatch.setattr("cnna.compiler.plan.conflicts.TOGETHER", together)
    rng = np.random.default_rng([seed, count])
    used = [some_words(rng, most) for _ in range(count)]
    sets = [set(listed(words).tolist()) for words in used]
    spans = [(int(first), int(first + rng.integers(count))) for first in rng.integers(count, size=count)]
    wanted = [
        [other for other in range(count) if own & sets[other] and spans[other][1] > first]
        for own, (first, _) in zip(sets, spans, strict=True)
    ]
    assert conflicts("features", 2 * DECK, used, spans) == wanted


def test_neighbours_do_not_conflict():
    """A run that begins where another ends, in whatever order they are listed."""
    used = [((4, (), 4),), ((0, (), 4),), ((8, (), 1),), ((3, (), 2),)]
    assert conflicts("features", 9, used, [(0, 1)] * 4) == [[0, 3], [1, 3], [2], [0, 1, 3]]


def test_a_filled_gap_is_nobodys():
    """Rows of 6 words, 3 apart. A run of 3 in a gap meets none of them; one of 4 does, and rows of 4 with gaps of 5 need not."""
    rows = (0, ((4, 9),), 6)
    others = [(6, (), 3), (15, (), 3), (6, (), 4), (14, (), 3), (24, ((2, 9),), 3), (23, ((2, 9),), 4)]
    found = conflicts("features", 40, [(one,) for one in (rows, *others)], [(0, 1)] * 7)
    assert found[0] == [0, 3, 4, 6]


def test_words_outside_of_the_space_are_refused():
    assert conflicts("features", 4, [], []) == []
    for words in (((0, ((2, 3),), 2),), ((-1, (), 2),)):
        with pytest.raises(AssertionError, match="features"):
            conflicts("features", 4, [words], [(0, 0)])
