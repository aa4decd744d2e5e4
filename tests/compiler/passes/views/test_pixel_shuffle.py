"""Views that move blocks of pixels to channels, or back, become typed operators."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Clip, Reshape, Transpose
from cnna.compiler.passes.views.pixel_shuffle import pixel_shuffle

from ..alone import after, kinds, left_alone, typed


def chain(before, apart, perm, shape):
    """Two Clips, with a Reshape, a Transpose and a Reshape between them."""
    turned = tuple(np.array(apart)[list(perm)].tolist())
    nodes = [
        ("r", Clip(0.0), ["x"], before),
        ("a", Reshape(apart), ["r"], apart),
        ("t", Transpose(perm), ["a"], turned),
        ("b", Reshape(shape), ["t"], shape),
        ("y", Clip(-1.0, 1.0), ["b"], shape),
    ]
    return typed({"x": before}, nodes, ["y"])


SIZES = [(4, 5), (2, 10), (1, 1)]


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize(
    ("apart", "perm", "parts"), [((3, 2, 2), (0, 1, 4, 2, 5, 3), "Conv"), ((2, 2, 3), (0, 3, 4, 1, 5, 2), "Channels")]
)
def test_pixel_shuffle(apart, perm, parts, height, width):
    """PyTorch's or TensorFlow's order of channels would be confused, or a wide map or a single pixel not count as a map."""
    shape = (1, 3, 2 * height, 2 * width)
    graph = after(pixel_shuffle, chain((1, 12, height, width), (1, *apart, height, width), perm, shape), 0)
    assert kinds(graph) == ["Clip"] + [parts] * 4 + ["Interleave", "Clip"]


@pytest.mark.parametrize(("height", "width"), SIZES[:2])
@pytest.mark.parametrize(("perm", "parts"), [((0, 1, 3, 5, 2, 4), ["Concat", "Conv"]), ((0, 3, 5, 1, 2, 4), ["Concat"])])
def test_pixel_unshuffle(perm, parts, height, width):
    """The way back would be wrong."""
    before, shape = (1, 3, 2 * height, 2 * width), (1, 12, height, width)
    graph = after(pixel_shuffle, chain(before, (1, 3, height, 2, width, 2), perm, shape), 0)
    assert kinds(graph) == ["Clip"] + ["Pixels"] * 4 + [*parts, "Clip"]


OTHERS = {
    "rows become columns": chain((1, 12, 4, 5), (1, 3, 2, 2, 4, 5), (0, 1, 2, 4, 3, 5), (1, 3, 8, 10)),
    "rows alone double": chain((1, 2, 2, 6), (1, 2, 1, 2, 6), (0, 2, 3, 1, 4), (1, 1, 4, 6)),
    "rows alone halve": chain((1, 1, 4, 6), (1, 1, 2, 2, 6), (0, 1, 3, 2, 4), (1, 2, 2, 6)),
    "blocks are turned": chain((1, 3, 4, 4), (1, 3, 2, 2, 2, 2), (0, 1, 3, 5, 4, 2), (1, 12, 2, 2)),
    "a vector is made": chain((1, 3, 2, 2), (1, 3, 1, 2, 1, 2), (0, 1, 3, 5, 2, 4), (1, 12, 1, 1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_views_stay(name):
    """They move other elements than whole blocks do, or make a vector, which a convolution of the map reads (`absorb_views`)."""
    assert left_alone(pixel_shuffle, OTHERS[name])
