"""Flatten and Gemm become one convolution of the whole map."""

import pytest

from cnna.compiler.graph.float_ops import Clip, Conv, Onnx, Requantise, Reshape, Transpose
from cnna.compiler.graph.ir import Quant, Window
from cnna.compiler.passes.views.absorb_views import absorb_views

from ..alone import Made, after, kinds, left_alone, only, typed

MAP, VECTOR = (1, 2, 3, 4), (1, 24, 1, 1)
CONSTANTS = {"w": (5, 24, 1, 1), "b": (5,)}
GEMM = Conv(Window(), 1, "w", "b")
VIEWS: dict[str, list[Made]] = {
    "channels first": [("v", Reshape(VECTOR), ["m"], VECTOR)],
    "channels last": [("t", Transpose((0, 2, 3, 1)), ["m"], (1, 3, 4, 2)), ("v", Reshape(VECTOR), ["t"], VECTOR)],
}


@pytest.mark.parametrize("layout", VIEWS)
def test_kernel_is_the_map(layout):
    """Weights in another order than the map's elements would give other sums, and a view that stays would not run."""
    nodes = [("m", Clip(0.0), ["x"], MAP), *VIEWS[layout], ("y", GEMM, ["v"], (1, 5, 1, 1))]
    graph = after(absorb_views, typed({"x": MAP}, nodes, ["y"], CONSTANTS))
    assert kinds(graph) == ["Clip", "Conv"]
    assert only(graph, Conv).op.window == Window(kernel=MAP[2:])


OUT, CLIP, LAST = (1, 5, 1, 1), ("m", Clip(0.0), ["x"], MAP), VIEWS["channels last"]
PADDED = Conv(Window(pads=(1, 1, 1, 1)), 1, "w", "b")
FLAT = (1, 6, 4)
STAYS = {
    "view of the input": ([("v", Reshape(VECTOR), ["x"], VECTOR), ("y", GEMM, ["v"], OUT)], MAP),
    "view of the CPU": ([("m", Onnx("Sin"), ["x"], MAP), *LAST, ("y", GEMM, ["v"], OUT)], MAP),
    "padding": ([CLIP, *LAST, ("y", PADDED, ["v"], (1, 5, 3, 3))], MAP),
    "no view": ([("v", Clip(0.0), ["x"], VECTOR), ("y", GEMM, ["v"], OUT)], VECTOR),
    "no map": ([("m", Requantise(Quant(0.1, 0)), ["x"], FLAT), *VIEWS["channels first"], ("y", GEMM, ["v"], OUT)], FLAT),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """The CPU's views stay with its head, a vector with padding has neighbours that its map has not, and a kernel needs a map."""
    nodes, shape = STAYS[name]
    assert left_alone(absorb_views, typed({"x": shape}, nodes, ["y"], CONSTANTS))


def test_grouped_convolutions_stay():
    """A group reads only some elements of the vector, which are no window of the map."""
    nodes = [CLIP, *LAST, ("y", Conv(Window(), 2, "w", "b"), ["v"], (1, 4, 1, 1))]
    assert left_alone(absorb_views, typed({"x": MAP}, nodes, ["y"], {"w": (4, 12, 1, 1), "b": (4,)}))
