"""Views move down until they meet a view that undoes them."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Add, Affine, Clip, Concat, Conv, Onnx, Requantise, Reshape, Transpose
from cnna.compiler.graph.ir import Quant, Window
from cnna.compiler.passes.views.sink_views import elements_behind, sink_views

from ..alone import after, kinds, left_alone, typed, untyped

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
    """No view is sunk through it: it joins rows, not channels."""
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


def joined(before, made, **attributes):
    """An ONNX Concat of an input with itself."""
    domain = attributes.pop("domain", "")
    return typed({"x": before}, [("y", Onnx("Concat", {"axis": 1, **attributes}, domain), ["x", "x"], made)], ["y"])


OTHERS = {
    "another domain's": joined(X, (1, 8, 2, 3), domain="com.example"),
    "rows": joined(X, (1, 4, 4, 3), axis=-2),
    "samples": joined((1, 4), (2, 4), axis=0),
    "several samples": joined((3, 4, 2, 3), (3, 8, 2, 3)),
    "unknown rank": joined((), ()),
    "inputs of unknown rank": joined((), (1, 8, 2, 3)),
    "unknown size": joined((1, 4, 0, 3), (1, 8, 0, 3)),
    "one axis": joined((1,), (2,), axis=0),
    "integers": untyped("g (int64[N,4,2,3] x) => (int64[N,8,2,3] y) { y = Concat <axis=1> (x, x) }"),
    "a constant": untyped("g (float[N,4,2,3] x) => (float[N,8,2,3] y) { y = Concat <axis=1> (x, w) }", {"w": X}),
    "no inputs": untyped("g (float[N,2] x) => (float[N,2] y) { r = RandomNormal <shape=[1,2]> () y = Mod <fmod=1> (x, r) }"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_operators_stay(name):
    """A typed Concat joins channels of real maps of one sample, and nothing else."""
    assert left_alone(sink_views, OTHERS[name])


def test_concatenation_of_vectors_is_typed():
    """Between two fully connected layers it would be left to the CPU."""
    assert "Concat" in kinds(after(sink_views, joined((1, 4), (1, 8))))


def test_views_in_front_of_a_concatenation_go_behind_it():
    """Detection heads flatten rows and columns before they are joined: as one view behind it, nothing is left between layers."""
    flat = (1, 4, 6, 1)
    nodes = [("n", Clip(0.0), ["m"], X), ("t", Reshape(flat), ["m"], flat), ("u", Reshape(flat), ["n"], flat)]
    graph = after(sink_views, small(*nodes, ("y", Concat(), ["t", "u"], (1, 8, 6, 1))))
    assert kinds(graph) == ["Conv", "Clip", "Concat", "Reshape"]


def test_views_that_change_nothing_go():
    """A Reshape to the shape that is there would be a copy."""
    graph = after(sink_views, small(("t", Reshape(X), ["m"], X), ("y", Clip(0.0), ["t"], X)))
    assert kinds(graph) == ["Conv", "Clip"]


@pytest.mark.parametrize("known", [("t",), ("v",), ("t", "v")])
def test_a_joined_view_has_a_name_of_the_model(known):
    """An error would name a view that a rewrite has put in; of two names of the model it is the last one."""
    one, two = (1, 8, 3, 1), (1, 2, 12, 1)
    graph = small(("t", Reshape(one), ["m"], one), ("v", Reshape(two), ["t"], two), ("y", Onnx("Sin"), ["v"], two))
    graph = after(sink_views, replace(graph, sources=dict.fromkeys(known, "Reshape")))
    assert [node.name for node in graph.nodes if isinstance(node.op, Reshape)] == [known[-1]]
