"""The layout of an explained graph: on seeded random graphs, it has nothing that a reader would see as wrong."""

import random
from itertools import combinations, pairwise

import pytest

from cnna.compiler.report.layout import GAP, layered


def _graph(seed: int, count: int):
    rng = random.Random(seed)
    sizes = [(rng.choice((60.0, 120.0)), rng.choice((18.0, 36.0))) for _ in range(count)]
    edges = [
        (rng.randrange(max(0, target - 9), target), target) for target in range(1, count) for _ in range(rng.choice((1, 1, 2)))
    ]
    return sizes, edges


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_touch_and_lines_lead_down(seed):
    """A box over another would hide it; a line upwards would look like a tensor that flows back."""
    sizes, edges = _graph(seed, 60)
    found = layered(sizes, edges)
    boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(found.centres, sizes, strict=True)]
    assert min(left for left, _, _, _ in boxes) >= 0
    assert max(right for _, _, right, _ in boxes) <= found.width
    for one, other in combinations(boxes, 2):
        beside = one[2] + GAP <= other[0] + 1e-6 or other[2] + GAP <= one[0] + 1e-6
        assert beside or one[3] < other[1] or other[3] < one[1]
    for edge, points in found.routes.items():
        assert all(y < below for (_, y), (_, below) in pairwise(points))
        for (x, y), (_, below) in zip(points[1:-1:2], points[2:-1:2], strict=True):  # through one rank each
            passed = [box for box in range(60) if box not in edge and boxes[box][1] < below and y < boxes[box][3]]
            assert not any(boxes[box][0] <= x <= boxes[box][2] for box in passed), "a line runs behind a box"


def test_a_chain_is_straight():
    """Networks are mostly chains: bends in them would look like branches."""
    found = layered([(100.0, 30.0)] * 300, [(number, number + 1) for number in range(299)])
    assert len({x for x, _ in found.centres}) == 1
    assert found.height > 299 * 30


def test_nothing_and_one_box():
    """A model of constants alone has no box."""
    assert layered([], []).centres == ()
    assert len(layered([(10.0, 10.0)], []).centres) == 1
