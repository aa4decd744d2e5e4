"""Where the vector engine takes several taps of a kernel row in a step."""

import pytest

from cnna.compiler.graph.ir import Window
from cnna.compiler.lower.windows import taps_apart
from cnna.spec.config import preset

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
