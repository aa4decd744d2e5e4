"""Slices with steps, and Pads of channels, become convolutions that copy."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Clip, Conv, Onnx
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.fusion.slice_pad import slice_pad

from ..alone import after, ints, kinds, left_alone, only, typed

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


def changed(shape, **constants):
    return typed({"x": X}, [RELU, ("y", *SLICE[1:3], shape)], ["y"], STEPS | constants)


STAYS = {
    "from another pixel": changed((1, 4, 2, 4), starts=ints(2, 0)),
    "part of a map": changed((1, 4, 2, 4), ends=ints(4, 99)),
    "backwards": changed(HALF, steps=ints(-2, 2)),
    "of channels": changed((1, 2, 6, 4), axes=ints(1, 3)),
    "rows padded": typed(
        {"x": X}, [RELU, ("y", Onnx("Pad"), ["r", "widths"], (1, 4, 7, 7))], ["y"], {"widths": ints(0, 0, 1, 0, 0, 0, 0, 0)}
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No window of one tap from pixel 0 reads these pixels; `fuse_pad` takes Pads of rows."""
    assert left_alone(slice_pad, STAYS[name])
