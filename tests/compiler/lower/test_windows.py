"""Where the vector engine takes several taps of a kernel row in a step."""

import numpy as np
import pytest

from cnna.compiler.graph.ir import Window
from cnna.compiler.lower.kernels import VectorPart
from cnna.compiler.lower.lower import lower
from cnna.compiler.lower.windows import taps_apart
from cnna.spec.config import preset

from ...graph_builder import Builder

ZCU102 = preset("zcu102")
CASES = {
    "3x3 at stride 1": (Window((3, 3)), 1, (56, 56), 1),
    "3x3 at stride 2": (Window((3, 3), stride=(2, 2)), 1, (28, 28), 2),
    "stride 3 leaves no tap to share": (Window((3, 3), stride=(3, 3)), 1, (28, 28), 0),
    "taps 2 apart at stride 2 follow each other": (Window((3, 3), stride=(2, 2), dilation=(2, 2)), 1, (28, 28), 1),
    "taps 2 apart at stride 1 lie between the pixels": (Window((3, 3), dilation=(2, 2)), 1, (28, 28), 0),
    "a column of taps has none to share": (Window((3, 1)), 1, (28, 28), 0),
    "a 2x2 takes 2 clocks in place of 4": (Window((2, 2)), 1, (28, 28), 1),
    "the writes of a 1x2 take as long": (Window((1, 2)), 1, (28, 28), 0),
    "the mean of a map": (Window((7, 7)), 1, (1, 1), 1),
    "means of 8 maps share a group of pixels if they take single taps": (Window((7, 7)), 8, (1, 1), 0),
    "a row of 9 pixels takes two groups": (Window((1, 5)), 1, (8, 9), 1),
}


@pytest.mark.parametrize(("window", "images", "size", "apart"), CASES.values(), ids=CASES)
def test_the_way_with_fewer_clocks_is_taken(window: Window, images: int, size: tuple[int, int], apart: int) -> None:
    """Pools and depthwise layers would take longer than they need, or words would be read that do not lie evenly apart."""
    assert taps_apart(window, (0, images), size, ZCU102) == apart


@pytest.mark.parametrize("width", [5, 9])
def test_a_rectangle_of_an_average_pool_is_counted_by_its_own_size(width: int) -> None:
    """Edges have divisors of their own: a part of one column would be planned as if it were as wide as the map, or wider."""
    b, window = Builder(np.random.default_rng(1), "edges"), Window((1, 3), pads=(0, 1, 0, 1))
    (kernel,) = lower(b.graph(b.average_pool(b.input(16, 5, width), window)), ZCU102).kernels
    parts = [part for part in kernel.parts if isinstance(part, VectorPart)]
    assert len(parts) == len(kernel.parts)
    assert [part.columns for part in parts] == [(0, 1), (1, width - 1), (width - 1, width)]
    for part in parts:
        size = part.rows[1] - part.rows[0], part.columns[1] - part.columns[0]
        assert part.apart == taps_apart(window, (0, 1), size, ZCU102)
