"""`labels`: whatever the points are, nothing that is drawn covers anything else."""

from itertools import combinations

import numpy as np
import pytest

from cnna.compiler.report.labels import Rectangle, labels

FRAME, LETTER = Rectangle(0, 0, 400, 300), (6.0, 12.0)


@pytest.mark.parametrize("count", [1, 8, 60])
def test_labels_cover_nothing_and_stay_beside_their_points(count, seed):
    """The names of a roofline would lie on top of each other, on its points and across its frame."""
    rng = np.random.default_rng(seed)
    spots = {n: (float(x), float(y)) for n, (x, y) in enumerate(rng.uniform((0, 0), (400, 300), (count, 2)))}
    taken = [Rectangle(x - 5, y - 5, x + 5, y + 5) for x, y in spots.values()] + [Rectangle(200, 20, 400, 34)]
    found = labels(spots, taken, FRAME, LETTER)
    assert found
    for label in found:
        assert label.box.within(FRAME)
        assert not any(label.box.overlaps(box) for box in taken)
        assert label.box.right - label.box.left == pytest.approx(LETTER[0] * len(label.words))
        x, y = label.spot
        assert max(label.box.left - x, x - label.box.right, label.box.low - y, y - label.box.high) < 2 * LETTER[1]
    assert not any(one.box.overlaps(other.box) for one, other in combinations(found, 2))
    named = [int(word) for label in found for word in label.words.split(", ")]
    assert len(named) == len(set(named))


def test_points_that_nearly_coincide_share_a_label():
    """Repeated blocks have equal layers; a pile of numbers beside them would belong to none."""
    found = labels({20: (100, 100), 3: (101, 99), 7: (200, 100), 18: (100, 103)}, [], FRAME, LETTER)
    assert [(label.words, label.spot) for label in found] == [("3, 18, 20", (100, 100)), ("7", (200, 100))]


def test_a_point_without_room_has_no_label():
    """No label is better than one that cannot be read; the point's tooltip has the name."""
    spots = {1: (200, 150), 2: (50, 50)}
    assert [label.words for label in labels(spots, [Rectangle(100, 60, 300, 240)], FRAME, LETTER)] == ["2"]


def test_who_comes_first_chooses_first():
    """Readers look for the layers with the most clocks."""
    first, second = labels({1: (100, 100), 2: (100, 111)}, [], FRAME, LETTER)
    assert first.box.left > 100
    assert first.box.low < 100 < first.box.high
    assert second.box.right < 100 or second.box.low > 111
