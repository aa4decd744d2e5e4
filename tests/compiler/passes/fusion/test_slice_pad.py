"""Slices with steps, and Pads of channels, become convolutions that copy."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Clip, Conv, Onnx
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.fusion.slice_pad import slice_pad

from ..alone import after, ints, kinds, left_alone, only, typed, untyped

X, HALF, MORE = (1, 4, 6, 7), (1, 4, 3, 4), (1, 8, 3, 4)
RELU = ("r", Clip(0.0), ["x"], X)
SLICE = ("h", Onnx("Slice"), ["r", "starts", "ends", "axes", "steps"], HALF)
STEPS = {"starts": ints(0, 0), "ends": ints(99, 99), "axes": ints(2, 3), "steps": ints(2, 2)}
CHANNELS = {"widths": ints(0, 1, 0, 0, 0, 3, 0, 0)}


def test_slice_with_steps_is_a_depthwise_copy():
    """A window of one tap with stride 2 reads every second pixel."""
    graph = typed({"x": X}, [RELU, ("y", *SLICE[1:])], ["y"], STEPS)
    conv = only(after(slice_pad, graph, 0), Conv).op
    assert (conv.window, conv.groups) == (Window(stride=(2, 2)), 4)


def test_option_a_shortcut_is_one_convolution():
    """Slice and Pad of ResNet's shortcut without parameters must be one walk over the map, not two."""
    nodes = [RELU, SLICE, ("y", Onnx("Pad"), ["h", "widths"], MORE)]
    graph = after(slice_pad, typed({"x": X}, nodes, ["y"], STEPS | CHANNELS), 0)
    assert kinds(graph) == ["Clip", "Conv"]
    conv = only(graph, Conv).op
    assert conv.window.stride == (2, 2)
    assert np.flatnonzero(graph.constants[conv.weights].any(axis=(1, 2, 3))).tolist() == [1, 2, 3, 4]
    assert (graph.constants[conv.weight_scale] == 1).all()


def test_pad_of_a_shared_slice():
    """The Slice must stay for its other reader, as a separate copy."""
    nodes = [RELU, SLICE, ("y", Onnx("Pad"), ["h", "widths"], MORE), ("z", Clip(-1.0, 1.0), ["h"], HALF)]
    graph = after(slice_pad, typed({"x": X}, nodes, ["y", "z"], STEPS | CHANNELS), 0)
    assert sorted(kinds(graph)) == ["Clip", "Clip", "Conv", "Conv"]


SPELLINGS = {
    "all axes": (["starts", "ends", "", "steps"], {"starts": ints(0, 0, 0, 0), "ends": ints(*[99] * 4), "steps": ints(1, 1, 2, 3)}),
    "from the end": (["starts", "ends", "axes", "steps"], {"axes": ints(-1, -2), "steps": ints(3, 2)}),
    "columns alone": (
        ["starts", "ends", "axes", "steps"],
        {"starts": ints(0), "ends": ints(99), "axes": ints(3), "steps": ints(3)},
    ),
    "rows alone": (["starts", "ends", "axes", "steps"], {"starts": ints(0), "ends": ints(99), "axes": ints(2), "steps": ints(2)}),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_a_slice(name):
    """The order of the axes is the exporter's: rows stepped as columns would be another map."""
    inputs, constants = SPELLINGS[name]
    stride = (1 if "columns" in name else 2, 1 if "rows" in name else 3)
    shape = (1, 4, -(-6 // stride[0]), -(-7 // stride[1]))
    constants = {key: (STEPS | constants)[key] for key in inputs if key}
    graph = after(slice_pad, typed({"x": X}, [RELU, ("y", Onnx("Slice"), ["r", *inputs], shape)], ["y"], constants), 0)
    assert only(graph, Conv).op.window == Window(stride=stride)


def test_pad_of_channels_behind_another_operator():
    """It pads what that operator makes: its input is another tensor."""
    nodes = [("s", Onnx("Sin"), ["x"], X), ("y", Onnx("Pad"), ["s", "widths"], (1, 8, 6, 7))]
    graph = after(slice_pad, typed({"x": X}, nodes, ["y"], CHANNELS))
    assert kinds(graph) == ["Sin", "Conv"]
    assert only(graph, Conv).op.window == Window()


def changed(shape, **constants):
    return typed({"x": X}, [RELU, ("y", *SLICE[1:3], shape)], ["y"], STEPS | constants)


def padded(shape, place, width=1):
    return typed({"x": X}, [RELU, ("y", Onnx("Pad"), ["r", "widths"], shape)], ["y"], {"widths": width * (np.arange(8) == place)})


STAYS = {
    "from another pixel": changed((1, 4, 2, 4), starts=ints(2, 0)),
    "part of a map": changed((1, 4, 2, 4), ends=ints(4, 99)),
    "backwards": changed(HALF, steps=ints(-2, 2)),
    "of channels": changed((1, 2, 6, 4), axes=ints(1, 3)),
    "of another domain": typed({"x": X}, [RELU, ("y", Onnx("Slice", domain="com.example"), *SLICE[2:])], ["y"], STEPS),
    "of one axis of pixels": typed(
        {"x": X[:3]},
        [("y", Onnx("Slice"), ["x", *SLICE[2][1:]], (1, 4, 3))],
        ["y"],
        {"starts": ints(0), "ends": ints(99), "axes": ints(2), "steps": ints(2)},
    ),
    "of an unknown number of channels": typed(
        {"x": (1, 0, 6, 7)}, [("y", Onnx("Slice"), ["x", *SLICE[2][1:]], (1, 0, 3, 4))], ["y"], STEPS
    ),
    "that is computed": typed({"x": X, "z": (2,)}, [RELU, ("y", Onnx("Slice"), ["r", "z", "z"], HALF)], ["y"]),
    "of integers": untyped("g (int64[N,4,6,7] x) => (int64[N,4,3,4] y) { y = Slice (x, starts, ends, axes, steps) }", STEPS),
    "another kind": typed({"x": X}, [RELU, ("y", Onnx("Tile"), ["r", "times", "times"], X)], ["y"], {"times": ints(0, 0, 0, 0)}),
    "rows padded": padded((1, 4, 7, 7), 2),
    "columns padded": padded((1, 4, 6, 8), 3),
    "rows padded behind": padded((1, 4, 7, 7), 6),
    "columns padded behind": padded((1, 4, 6, 8), 7),
    "samples padded": padded((2, 4, 6, 7), 0),
    "samples padded behind": padded((2, 4, 6, 7), 4),
    "channels cut off": padded((1, 3, 6, 7), 1, -1),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No window of one tap from pixel 0 reads these pixels; `fuse_pad` takes Pads of rows, and nothing pads the batch."""
    assert left_alone(slice_pad, STAYS[name])
