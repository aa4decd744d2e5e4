"""Limits become part of the operator that computes the values."""

from math import inf

import pytest

from cnna.compiler.graph.float_ops import Add, Affine, AveragePool, Clip, Concat, Conv, Interleave, MaxPool, Onnx
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.fusion.fuse_clip import fuse_clip

from ..alone import after, kinds, left_alone, typed

SHAPE = (1, 2, 3, 3)
CONV = Conv(Window(), 1, "w", "b")
CONSTANTS = {"w": (2, 2, 1, 1), "b": (2,), "s": (2,), "t": (2,)}
TAKERS = {
    "Conv": (CONV, ["x"]),
    "AveragePool": (AveragePool(Window((3, 3), pads=(1, 1, 1, 1))), ["x"]),
    "Affine": (Affine("s", "t"), ["x"]),
    "Add": (Add(), ["x", "z"]),
    "Clip": (Clip(-1.0, 0.5), ["x"]),
}


def small(nodes, outputs=("y",)):
    used = {value for _, op, _, _ in nodes for value in vars(op).values() if value in ("w", "b", "s", "t")}
    return typed({"x": SHAPE, "z": SHAPE}, nodes, outputs, {name: CONSTANTS[name] for name in used})


@pytest.mark.parametrize("kind", TAKERS)
def test_operator_takes_the_limits(kind):
    """A separate Relu would be another walk over the map."""
    op, inputs = TAKERS[kind]
    graph = after(fuse_clip, small([("a", op, inputs, SHAPE), ("y", Clip(0.0, 2.0), ["a"], SHAPE)]))
    assert kinds(graph) == [kind]
    assert (graph.nodes[0].op.low, graph.nodes[0].op.high) == (0.0, 0.5 if kind == "Clip" else 2.0)


def test_limits_that_exclude_each_other():
    """Clip to [1, inf) and then to (-inf, 0] is 0 everywhere, not 1."""
    graph = after(fuse_clip, small([("a", Clip(1.0), ["x"], SHAPE), ("y", Clip(-inf, 0.0), ["a"], SHAPE)]))
    assert (graph.nodes[0].op.low, graph.nodes[0].op.high) == (0.0, 0.0)


def test_passes_pools_and_concatenations():
    """The greatest of limited values is the limited greatest value, so the convolutions before a pool can take the Relu."""
    pooled = (1, 4, 1, 1)
    nodes = [("a", CONV, ["x"], SHAPE), ("e", CONV, ["z"], SHAPE), ("c", Concat(), ["a", "e"], (1, 4, 3, 3))]
    nodes += [("d", MaxPool(Window((3, 3))), ["c"], pooled), ("y", Clip(0.0), ["d"], pooled)]
    graph = after(fuse_clip, small(nodes))
    assert kinds(graph) == ["Conv", "Conv", "Concat", "MaxPool"]
    assert [node.op.low for node in graph.nodes[:2]] == [0.0, 0.0]


STAYS = {
    "of an input": ([("y", Clip(0.0), ["x"], SHAPE)], ["y"]),
    "shared": ([("a", CONV, ["x"], SHAPE), ("y", Clip(0.0), ["a"], SHAPE), ("v", Add(), ["a", "z"], SHAPE)], ["y", "v"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """An input has no operator to take limits, and the other reader of a shared tensor must see negative values."""
    assert left_alone(fuse_clip, small(*STAYS[name]))


WHOLE = (1, 2, 6, 6)
PARTS = [(f"a{number}", CONV, ["x"], SHAPE) for number in range(4)]
NAMES = [name for name, *_ in PARTS]


def test_passes_interleaved_maps():
    """Each of the convolutions of a transposed one takes the Relu that follows it."""
    nodes = [*PARTS, ("m", Interleave(2), NAMES, WHOLE), ("y", Clip(0.0), ["m"], WHOLE)]
    graph = after(fuse_clip, small(nodes))
    assert kinds(graph) == ["Conv"] * 4 + ["Interleave"]
    assert [node.op.low for node in graph.nodes[:4]] == [0.0] * 4


def test_interleaved_maps_without_limits_keep_their_clip():
    """A kernel writes between the pixels of others: a Clip of its own there has none, and nor has a pool."""
    parts = [*PARTS[1:], ("a0", MaxPool(Window()), ["x"], SHAPE)]
    nodes = [*parts, ("m", Interleave(2), NAMES, WHOLE), ("y", Clip(0.0), ["m"], WHOLE)]
    assert left_alone(fuse_clip, small(nodes))


def test_parts_of_a_concatenation_have_clips_of_their_own():
    """Where no operator takes the limits, each part gets a Clip with a name of its own: reports tell them apart."""
    nodes = [("a", Onnx("Sin"), ["x"], SHAPE), ("e", Onnx("Cos"), ["z"], SHAPE), ("c", Concat(), ["a", "e"], (1, 4, 3, 3))]
    graph = after(fuse_clip, small([*nodes, ("y", Clip(0.0), ["c"], (1, 4, 3, 3))]))
    assert [node.name for node in graph.nodes if isinstance(node.op, Clip)] == ["y", "y:1"]
