"""Views move down until they meet a view that undoes them."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Add, Affine, Clip, Concat, Conv, Onnx, Requantise, Reshape, Transpose
from cnna.compiler.graph.ir import Quant, Window
from cnna.compiler.passes.views.sink_views import elements_behind, sink_views

from ..alone import after, kinds, left_alone, typed

X, LAST = (1, 4, 2, 3), (1, 2, 3, 4)
THERE, BACK = Transpose((0, 2, 3, 1)), Transpose((0, 3, 1, 2))
CONV = ("m", Conv(Window(), 1, "w", "b"), ["x"], X)
CONSTANTS = {"w": (4, 4, 1, 1), "b": (4,)}
ROUNDING = Requantise(Quant(0.1, 3))


def small(*nodes, **constants):
    return typed({"x": X}, [CONV, *nodes], [nodes[-1][0]], CONSTANTS | constants)


PAST = {
    "limits": ([("e", Clip(0.0), ["t"], LAST)], {}),
    "rounding": ([("e", ROUNDING, ["t"], LAST)], {}),
    "sum of two views": ([("u", THERE, ["n"], LAST), ("e", Add(), ["t", "u"], LAST)], {}),
    "affine of one number": ([("e", Affine("s", "o"), ["t"], LAST)], {"s": np.full(2, 3.0), "o": np.full(2, 1.0)}),
}


@pytest.mark.parametrize("name", PAST)
def test_views_meet_what_undoes_them(name):
    """Between convolutions, TensorFlow has islands with channels last: each of their views would be refused."""
    nodes, constants = PAST[name]
    second = [("n", Clip(-1.0), ["m"], X)] if "sum" in name else []
    graph = small(*second, ("t", THERE, ["m"], LAST), *nodes, ("y", BACK, ["e"], X), **constants)
    changed = kinds(after(sink_views, graph))
    assert not {"Transpose", "Reshape"} & {*changed}
    assert changed[-1] == kinds(graph)[-2]


def test_affine_of_channels_finds_them_in_front_of_the_view():
    """The channels of a vector that views made of a [1, 4, 1, 1] map are the map's channels."""
    constants = {"s": np.arange(4.0), "o": np.arange(4.0)}
    conv = ("m", CONV[1], ["x"], (1, 4, 1, 1))
    nodes = [conv, ("t", Transpose((0, 2, 1, 3)), ["m"], (1, 1, 4, 1)), ("v", Reshape((1, 4, 1, 1)), ["t"], (1, 4, 1, 1))]
    nodes += [("y", Affine("s", "o"), ["v"], (1, 4, 1, 1))]
    graph = typed({"x": (1, 4, 1, 1)}, nodes, ["y"], CONSTANTS | constants)
    assert kinds(after(sink_views, graph)) == ["Conv", "Affine"]


def test_affine_along_rows_keeps_its_view():
    """Behind the Transpose its numbers belong to rows, but a map's Affine has numbers for channels only."""
    constants = {"s": np.arange(2.0), "o": np.arange(2.0)}
    graph = small(("t", THERE, ["m"], LAST), ("y", Affine("s", "o"), ["t"], LAST), **constants)
    assert left_alone(sink_views, graph)


def test_concatenation_of_channels_is_typed():
    """A Concat of channels-last maps must become a concatenation of their sources, followed by a view."""
    nodes = [("t", THERE, ["m"], LAST), ("n", Clip(0.0), ["m"], X), ("u", THERE, ["n"], LAST)]
    nodes += [("y", Onnx("Concat", {"axis": 3}), ["t", "u"], (1, 2, 3, 8))]
    graph = after(sink_views, small(*nodes))
    assert kinds(graph) == ["Conv", "Clip", "Concat", "Transpose"]
    assert isinstance(graph.nodes[2].op, Concat)


def test_concatenation_of_rows_stays():
    """The accelerator can only concatenate channels."""
    graph = small(("n", Clip(0.0), ["m"], X), ("y", Onnx("Concat", {"axis": 2}), ["m", "n"], (1, 4, 4, 3)))
    assert left_alone(sink_views, graph)


def test_views_of_the_input_stay_in_front():
    """They run on the CPU, before the rounding that makes the accelerator's input; behind it they would have no place."""
    nodes = [("t", BACK, ["x"], (1, 3, 4, 2)), ("r", ROUNDING, ["t"], (1, 3, 4, 2))]
    nodes += [("y", Conv(Window(), 1, "w", "b"), ["r"], (1, 4, 4, 2))]
    assert left_alone(sink_views, typed({"x": X}, nodes, ["y"], {"w": (4, 3, 1, 1), "b": (4,)}))


def test_rounding_goes_behind_a_view_of_the_input():
    """The accelerator's input must be the tensor that its first layer reads."""
    nodes = [("r", ROUNDING, ["x"], X), ("t", BACK, ["r"], (1, 3, 4, 2))]
    nodes += [("y", Conv(Window(), 1, "w", "b"), ["t"], (1, 4, 4, 2))]
    graph = after(sink_views, typed({"x": X}, nodes, ["y"], {"w": (4, 3, 1, 1), "b": (4,)}))
    assert kinds(graph) == ["Transpose", "Requantise", "Conv"]


def test_elements_behind_views():
    """`absorb_views` and `channel_shuffle` put weights in this order."""
    order = elements_behind((1, 2, 1, 3), [Transpose((0, 2, 3, 1)), Reshape((1, 6))])
    assert order.tolist() == [[0, 3, 1, 4, 2, 5]]
