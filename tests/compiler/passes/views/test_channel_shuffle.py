"""Views that select channels become a selection of channels."""

import pytest

from cnna.compiler.graph.float_ops import Clip, Conv, Reshape, Transpose
from cnna.compiler.passes.views.channel_shuffle import channel_shuffle

from ..alone import after, kinds, left_alone, only, typed

SHAPE = (1, 6, 2, 3)


def views(perm, shape=SHAPE):
    """Reshape, Transpose, Reshape from `a` to `v`."""
    first = (1, 2, 3, *shape[2:])
    turned = tuple(first[axis] for axis in perm)
    return [("r", Reshape(first), ["a"], first), ("t", Transpose(perm), ["r"], turned), ("v", Reshape(shape), ["t"], shape)]


@pytest.mark.parametrize("shape", [SHAPE, (1, 6, 1, 1)], ids=["map", "vector"])
def test_shuffle_becomes_a_selection(shape):
    """ShuffleNet's views between two layers would be refused. Weights 0 and 1 with scale 1 are exact in int8."""
    nodes = [("a", Clip(0.0), ["x"], shape), *views((0, 2, 1, 3, 4), shape), ("y", Clip(-9.0, 1.0), ["v"], shape)]
    graph = after(channel_shuffle, typed({"x": shape}, nodes, ["y"]), 0)
    assert kinds(graph) == ["Clip", "Conv", "Clip"]
    conv = only(graph, Conv).op
    assert (graph.constants[conv.weights].sum(axis=(0, 2, 3)) == 1).all()
    assert (graph.constants[conv.weight_scale] == 1).all()


STAYS = {
    "pixels move": [("a", Clip(0.0), ["x"], SHAPE), *views((0, 1, 2, 4, 3)), ("y", Clip(0.0), ["v"], SHAPE)],
    "of an input": [("a", Reshape(SHAPE), ["x"], SHAPE), *views((0, 2, 1, 3, 4)), ("y", Clip(0.0), ["v"], SHAPE)],
    "nobody reads": [("a", Clip(0.0), ["x"], SHAPE), *[("y", *n[1:]) if n[0] == "v" else n for n in views((0, 2, 1, 3, 4))]],
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """The first case is no selection of channels; the others run on the CPU."""
    assert left_alone(channel_shuffle, typed({"x": SHAPE}, STAYS[name], ["y"]))
