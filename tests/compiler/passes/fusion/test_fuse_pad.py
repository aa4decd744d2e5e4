"""Padding becomes part of the window that reads it."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import AveragePool, Clip, Conv, MaxPool, Onnx
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.fusion.fuse_pad import fuse_pad

from ..alone import after, ints, kinds, left_alone, only, typed

X, PADDED, Y = (1, 3, 5, 5), (1, 3, 7, 8), (1, 3, 5, 6)
WIDTHS = ints(0, 0, 1, 1, 0, 0, 1, 2)
PADS = (1, 1, 1, 2)
PAD = ("p", Onnx("Pad"), ["r", "widths"], PADDED)
RELU = ("r", Clip(0.0), ["x"], X)
WINDOW = Window((3, 3))


def small(*nodes, outputs=("y",), widths=WIDTHS, **constants):
    return typed({"x": X}, nodes, outputs, {"widths": widths, **constants})


def test_convolutions_take_it():
    """The zeros must be added to the window's own padding."""
    conv = Conv(Window((3, 3), pads=(1, 0, 0, 0)), 3, "w", "b")
    graph = small(RELU, PAD, ("y", conv, ["p"], (1, 3, 6, 6)), w=(3, 1, 3, 3), b=(3,))
    graph = after(fuse_pad, graph)
    assert kinds(graph) == ["Clip", "Conv"]
    assert only(graph, Conv).op.window.pads == (2, 1, 1, 2)


def test_averages_count_it():
    """A Pad's zeros are pixels, so the divisor must not shrink at the border."""
    graph = after(fuse_pad, small(RELU, PAD, ("y", AveragePool(WINDOW), ["p"], Y)))
    assert kinds(graph) == ["Clip", "AveragePool"]
    assert only(graph, AveragePool).op == AveragePool(Window((3, 3), pads=PADS), include_pad=True)


def test_maxima_take_it_behind_a_relu():
    """Among values that are never negative, 0 changes no maximum."""
    graph = after(fuse_pad, small(RELU, PAD, ("y", MaxPool(WINDOW), ["p"], Y)))
    assert kinds(graph) == ["Clip", "MaxPool"]


COPIES = {
    "maximum of any sign": [("r", Clip(-1.0), ["x"], X), PAD, ("y", MaxPool(WINDOW), ["p"], Y)],
    "another reader": [RELU, PAD, ("y", Clip(-1.0), ["p"], PADDED)],
    "output": [RELU, ("y", *PAD[1:])],
    "average that pads": [RELU, PAD, ("y", AveragePool(Window((3, 3), pads=(1, 1, 1, 1))), ["p"], (1, 3, 7, 8))],
}


@pytest.mark.parametrize("name", COPIES)
def test_otherwise_a_copy_pads(name):
    """Padding of its own would change what these readers compute, so a copy pads; its weights are exact in int8."""
    graph = after(fuse_pad, small(*COPIES[name]))
    conv = only(graph, Conv).op
    assert (conv.window.pads, conv.groups) == (PADS, 3)
    assert (graph.constants[conv.weight_scale] == 1).all()
    assert "Pad" not in kinds(graph)


STAYS = {
    "another value": small(
        RELU, ("p", Onnx("Pad"), ["r", "widths", "one"], PADDED), ("y", MaxPool(WINDOW), ["p"], Y), one=np.float32(1)
    ),
    "reflection": small(RELU, ("p", Onnx("Pad", {"mode": "reflect"}), ["r", "widths"], PADDED), ("y", MaxPool(WINDOW), ["p"], Y)),
    "channels": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 5, 5, 5)), widths=ints(0, 1, 0, 0, 0, 1, 0, 0)),
    "cut off": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 3, 4, 5)), widths=ints(0, 0, -1, 0, 0, 0, 0, 0)),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """A window pads only with zeros, and only rows and columns."""
    assert left_alone(fuse_pad, STAYS[name])
