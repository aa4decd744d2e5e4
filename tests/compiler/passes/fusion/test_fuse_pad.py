"""Padding becomes part of the window that reads it."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import AveragePool, Clip, Conv, MaxPool, Onnx, Pad
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.fusion.fuse_pad import fuse_pad

from ...written import rewritten, written
from ..alone import after, ints, kinds, left_alone, only, typed, untyped

X, PADDED, Y = (1, 3, 5, 5), (1, 3, 8, 8), (1, 3, 6, 6)
WIDTHS = ints(0, 0, 2, 1, 0, 0, 1, 2)
PADS = (2, 1, 1, 2)
PAD = ("p", Onnx("Pad"), ["r", "widths"], PADDED)
RELU = ("r", Clip(0.0), ["x"], X)
WINDOW = Window((3, 3))


def small(*nodes, outputs=("y",), widths=WIDTHS, **constants):
    return typed({"x": X}, nodes, outputs, {"widths": widths, **constants})


def test_convolutions_take_it():
    """The zeros must be added to the window's own padding."""
    conv = Conv(Window((3, 3), pads=(3, 1, 2, 0)), 3, "w", "b")
    graph = small(RELU, PAD, ("y", conv, ["p"], (1, 3, 11, 7)), w=(3, 1, 3, 3), b=(3,))
    graph = after(fuse_pad, graph)
    assert kinds(graph) == ["Clip", "Conv"]
    assert only(graph, Conv).op.window.pads == (5, 2, 3, 2)


@pytest.mark.parametrize("rest", [["nought"], ["nought", ""], ["", ""]], ids=["zeros", "zeros, no axes", "nothing"])
def test_inputs_that_say_nothing_new(rest):
    """Exporters write the value 0 and an absent list of axes: each would keep the Pad on the CPU."""
    pad = ("p", Onnx("Pad"), ["r", "widths", *rest], PADDED)
    constants = {"nought": np.float32(0)} if "nought" in rest else {}
    assert kinds(fuse_pad(small(RELU, pad, ("y", AveragePool(WINDOW), ["p"], Y), **constants))) == ["Clip", "AveragePool"]


def test_averages_count_it():
    """A Pad's zeros are pixels, so the divisor must not shrink at the border."""
    graph = after(fuse_pad, small(RELU, PAD, ("y", AveragePool(WINDOW), ["p"], Y)))
    assert kinds(graph) == ["Clip", "AveragePool"]
    assert only(graph, AveragePool).op == AveragePool(Window((3, 3), pads=PADS), include_pad=True)


def test_averages_that_count_their_padding_count_it_too():
    """Zeros of either kind are pixels."""
    pool = AveragePool(Window((5, 5), pads=(1, 2, 1, 2)), include_pad=True)
    graph = after(fuse_pad, small(RELU, PAD, ("y", pool, ["p"], (1, 3, 6, 8))))
    assert kinds(graph) == ["Clip", "AveragePool"]
    assert only(graph, AveragePool).op.window.pads == (3, 3, 2, 4)


def test_maxima_take_it_behind_a_relu():
    """Among values that are never negative, 0 changes no maximum."""
    graph = after(fuse_pad, small(RELU, PAD, ("y", MaxPool(WINDOW), ["p"], Y)))
    assert kinds(graph) == ["Clip", "MaxPool"]


def test_maxima_add_it_to_their_own():
    """Every window still has a pixel of the map, and none of those is below the Pad's zeros."""
    text = """g (float[N,3,5,5] x) => (float[N,3,6,8] y) {
        r = Relu (x) p = Pad (r, widths) y = MaxPool <kernel_shape=[5,5], pads=[1,2,1,2]> (p) }"""
    graph, found = rewritten(written(text, {"widths": WIDTHS}))
    assert found == ["Clip", "MaxPool"]
    assert only(graph, MaxPool).op.window.pads == (3, 3, 2, 4)


@pytest.mark.parametrize(("source", "value"), [(RELU, -0.5), (RELU, -np.inf), (("r", Clip(-1.0), ["x"], X), -1.0), (None, -np.inf)])
def test_maxima_take_what_is_never_above_the_map(source, value):
    """Exporters write the padding of a maximum as a Pad with -inf, for which int8 has no value."""
    nodes = [
        *([source] if source else []),
        ("p", Pad(PADS, value), ["r" if source else "x"], PADDED),
        ("y", MaxPool(WINDOW), ["p"], Y),
    ]
    graph = after(fuse_pad, small(*nodes))
    assert "Pad" not in kinds(graph)
    assert only(graph, MaxPool).op.window.pads == PADS


COPIES = {
    "maximum of any sign": [("r", Clip(-1.0), ["x"], X), PAD, ("y", MaxPool(WINDOW), ["p"], Y)],
    "another reader": [RELU, PAD, ("y", Clip(-1.0), ["p"], PADDED)],
    "output": [RELU, ("y", *PAD[1:])],
    "average that pads": [RELU, PAD, ("y", AveragePool(Window((3, 3), pads=(1, 1, 1, 1))), ["p"], PADDED)],
    "maximum of nothing but padding": [RELU, PAD, ("y", MaxPool(Window((2, 2))), ["p"], (1, 3, 7, 7))],
    "maximum of an input": [("p", Onnx("Pad"), ["x", "widths"], PADDED), ("y", MaxPool(WINDOW), ["p"], Y)],
}


@pytest.mark.parametrize("name", COPIES)
def test_otherwise_a_copy_pads(name):
    """Padding of its own would change what these readers compute, so a copy pads; its weights are exact in int8."""
    graph = after(fuse_pad, small(*COPIES[name]))
    conv = only(graph, Conv).op
    assert (conv.window.pads, conv.groups) == (PADS, 3)
    assert (graph.constants[conv.weight_scale] == 1).all()
    assert "Pad" not in kinds(graph)


def padded(widths, value, op, shape, **constants):
    """A typed Pad behind a Relu, and an operator that reads it."""
    size = (1, 3, 5 + widths[0] + widths[2], 5 + widths[1] + widths[3])
    return typed({"x": X}, [RELU, ("p", Pad(widths, value), ["r"], size), ("y", op, ["p"], shape)], ["y"], constants)


STAYS = {
    "another value": small(
        RELU, ("p", Onnx("Pad"), ["r", "widths", "one"], PADDED), ("y", MaxPool(WINDOW), ["p"], Y), one=np.float32(1)
    ),
    "a value above the map's least": padded(PADS, 0.5, MaxPool(WINDOW), Y),
    "a value that a sum would miss": padded(PADS, -0.5, Conv(WINDOW, 3, "w", "b"), Y, w=(3, 1, 3, 3), b=(3,)),
    "a value that a mean would miss": padded(PADS, -0.5, AveragePool(WINDOW), Y),
    "a typed cut": padded((-1, 0, 1, 0), 0.0, MaxPool(WINDOW), (1, 3, 3, 3)),
    "reflection": small(RELU, ("p", Onnx("Pad", {"mode": "reflect"}), ["r", "widths"], PADDED), ("y", MaxPool(WINDOW), ["p"], Y)),
    "channels": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 5, 5, 5)), widths=ints(0, 1, 0, 0, 0, 1, 0, 0)),
    "channels in front": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 4, 5, 5)), widths=ints(0, 1, 0, 0, 0, 0, 0, 0)),
    "channels behind": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 4, 5, 5)), widths=ints(0, 0, 0, 0, 0, 1, 0, 0)),
    "samples behind": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (2, 3, 5, 5)), widths=ints(0, 0, 0, 0, 1, 0, 0, 0)),
    "another domain's": small(RELU, ("y", Onnx("Pad", domain="com.example"), ["r", "widths"], PADDED)),
    "a list of axes": small(RELU, ("y", Onnx("Pad"), ["r", "widths", "", "axes"], (1, 3, 5, 8)), widths=ints(1, 2), axes=ints(3)),
    "widths that are computed": typed({"x": X, "z": (8,)}, [RELU, ("y", Onnx("Pad"), ["r", "z"], PADDED)], ["y"]),
    "a value that is computed": typed(
        {"x": X, "z": ()}, [RELU, ("y", Onnx("Pad"), ["r", "widths", "z"], PADDED)], ["y"], {"widths": WIDTHS}
    ),
    "channels of unknown number": typed({"x": (1, 0, 5, 5)}, [("y", *PAD[1:2], ["x", "w"], (1, 0, 8, 8))], ["y"], {"w": WIDTHS}),
    "one axis of pixels": typed(
        {"x": (1, 3, 5)}, [("y", Onnx("Pad"), ["x", "w"], (1, 3, 6))], ["y"], {"w": ints(0, 0, 0, 0, 0, 1)}
    ),
    "integers": untyped("g (int64[N,3,5,5] x) => (int64[N,3,8,8] y) { y = Pad (x, widths) }", {"widths": WIDTHS}),
    "cut off": small(RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 3, 4, 5)), widths=ints(0, 0, -1, 0, 0, 0, 0, 0)),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """A window pads real values only, with what its reader ignores, in rows and columns, by numbers that are known."""
    assert left_alone(fuse_pad, STAYS[name])
