"""Blocks of pixels as channels, and back, in views."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Clip, Reshape, Transpose
from cnna.compiler.passes.views.pixel_shuffle import pixel_shuffle

from ..alone import after, kinds, left_alone, typed


def chain(before, apart, perm, shape):
    """Two Clips, and between them a Reshape, a Transpose and a Reshape."""
    turned = tuple(np.array(apart)[list(perm)].tolist())
    nodes = [
        ("r", Clip(0.0), ["x"], before),
        ("a", Reshape(apart), ["r"], apart),
        ("t", Transpose(perm), ["a"], turned),
        ("b", Reshape(shape), ["t"], shape),
        ("y", Clip(-1.0, 1.0), ["b"], shape),
    ]
    return typed({"x": before}, nodes, ["y"])


@pytest.mark.parametrize(
    ("apart", "perm", "parts"),
    [((1, 3, 2, 2, 4, 5), (0, 1, 4, 2, 5, 3), "Conv"), ((1, 2, 2, 3, 4, 5), (0, 3, 4, 1, 5, 2), "Channels")],
)
def test_pixel_shuffle(apart, perm, parts):
    """PyTorch's order of channels, and TensorFlow's."""
    graph = after(pixel_shuffle, chain((1, 12, 4, 5), apart, perm, (1, 3, 8, 10)), 0)
    assert kinds(graph) == ["Clip"] + [parts] * 4 + ["Interleave", "Clip"]


@pytest.mark.parametrize(("perm", "parts"), [((0, 1, 3, 5, 2, 4), ["Concat", "Conv"]), ((0, 3, 5, 1, 2, 4), ["Concat"])])
def test_pixel_unshuffle(perm, parts):
    """The same back."""
    graph = after(pixel_shuffle, chain((1, 3, 4, 6), (1, 3, 2, 2, 3, 2), perm, (1, 12, 2, 3)), 0)
    assert kinds(graph) == ["Clip"] + ["Pixels"] * 4 + [*parts, "Clip"]


def test_other_views_stay():
    """Rows that become columns are no block."""
    assert left_alone(pixel_shuffle, chain((1, 12, 4, 5), (1, 3, 2, 2, 4, 5), (0, 1, 2, 4, 3, 5), (1, 3, 8, 10)))
