"""Affines go into the convolutions beside them."""

from math import inf

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Affine, Clip, Conv, Interleave, MaxPool
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.fusion.fuse_affine import fuse_affine

from ..alone import after, kinds, left_alone, only, typed

X, Y = (1, 4, 5, 5), (1, 6, 5, 5)
CONSTANTS = {"ws": np.ones(6), "w": (6, 4, 1, 1), "b": (6,), "s": (6,), "t": (6,), "u": (4,), "v": (4,), "p": (6, 2, 3, 3)}
CONV, AFFINE, BEFORE = Conv(Window(), 1, "w", "b"), Affine("s", "t"), Affine("u", "v")
PADDED = Conv(Window((3, 3), pads=(1, 1, 1, 1)), 2, "p", "b")


def small(nodes, outputs=("y",), **constants):
    values = CONSTANTS | constants
    used = {value for _, op, _, _ in nodes for value in vars(op).values() if isinstance(value, str)}
    return typed({"x": X}, nodes, outputs, {name: values[name] for name in used})


def test_into_the_convolution_before():
    """BatchNorm behind a Conv must cost nothing, and its limits must go along."""
    graph = small([("a", CONV, ["x"], Y), ("y", Affine("s", "t", 0.0, 6.0), ["a"], Y)])
    graph = after(fuse_affine, graph)
    assert kinds(graph) == ["Conv"]
    assert (only(graph, Conv).op.low, only(graph, Conv).op.high) == (0.0, 6.0)


def test_into_the_convolution_after():
    """Without padding, scale and shift must go into weights and bias; with groups, each to its own channels."""
    grouped = Conv(Window((3, 3)), 2, "p", "b")
    nodes = [("a", BEFORE, ["x"], X), ("y", grouped, ["a"], (1, 6, 3, 3))]
    assert kinds(after(fuse_affine, small(nodes), 1e-4)) == ["Conv"]


def test_scale_passes_padding():
    """An affine without a shift passes padding, because 0 times a scale is still 0."""
    graph = small([("a", BEFORE, ["x"], X), ("y", PADDED, ["a"], Y)], v=np.zeros(4))
    assert kinds(after(fuse_affine, graph)) == ["Conv"]


def test_affines_merge():
    """Two affines would walk over the map twice."""
    nodes = [("a", Clip(0.0), ["x"], X), ("b", BEFORE, ["a"], X), ("y", Affine("u", "v", 0.0), ["b"], X)]
    graph = after(fuse_affine, small(nodes))
    assert kinds(graph) == ["Clip", "Affine"]
    assert only(graph, Affine).op.low == 0


def test_int8_weights_stay_int8():
    """The factor must go into the channel's scale; a negative one must turn the signs of the int8 numbers."""
    whole = np.float32([[3, -127, 1, 0]] * 6)[:, :, None, None]
    conv = Conv(Window(), 1, "w", "b", "ws")
    factors = np.float32([1, -1, 0.5, -2, 3, 0])
    graph = small([("a", conv, ["x"], Y), ("y", AFFINE, ["a"], Y)], w=whole * np.float32(0.1), ws=np.full(6, 0.1), s=factors)
    fused = only(fuse_affine(graph), Conv).op
    constants = fuse_affine(graph).constants
    divided = constants[fused.weights] / constants[fused.weight_scale][:, None, None, None]
    np.testing.assert_allclose(divided, whole * np.sign(factors)[:, None, None, None], atol=1e-4)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("kind", ["weights", "bias", "affine"])
def test_products_beyond_float32_stay_apart(kind, before):
    """They would be infinite in the fused node, with a warning of numpy's, although what the two nodes make may be finite."""
    great = np.float32(3e38)
    nodes = [("a", BEFORE, ["x"], X), ("y", CONV, ["a"], Y)] if before else [("a", CONV, ["x"], Y), ("y", AFFINE, ["a"], Y)]
    if kind == "affine":
        nodes = [("a", BEFORE, ["x"], X), ("y", BEFORE, ["a"], X)]
    constants = {"s": np.full(6, great), "u": np.full(4, great), "w": np.full((6, 4, 1, 1), 8.0)}
    if kind == "bias":
        constants |= {"u": np.ones(4), "v": np.full(4, great), "b": np.full(6, 8.0), "w": np.full((6, 4, 1, 1), 0.5)}
    assert left_alone(fuse_affine, small(nodes, **constants))


PARTS = [(f"a{number}", CONV, ["x"], Y) for number in range(4)]
WHOLE = (1, 6, 10, 10)
BEHIND = [("m", Interleave(2), [name for name, *_ in PARTS], WHOLE), ("y", AFFINE, ["m"], WHOLE)]


def test_into_interleaved_convolutions():
    """A BatchNorm behind a transposed convolution costs nothing either."""
    graph = after(fuse_affine, small([*PARTS, *BEHIND]), 1e-4)
    assert kinds(graph) == ["Conv"] * 4 + ["Interleave"]


def test_weights_of_minus_128_take_a_factor_that_is_not_negative():
    """Only its negative leaves int8: a smaller scale holds it, and any scale holds what a factor of 0 leaves."""
    whole = np.full((6, 4, 1, 1), -128, np.float32)
    nodes = [("a", Conv(Window(), 1, "w", "b", "ws"), ["x"], Y), ("y", AFFINE, ["a"], Y)]
    factors = np.float32([0, 0.5, 1, 2, 0, 3])
    assert kinds(after(fuse_affine, small(nodes, w=whole, ws=np.ones(6), s=factors), 1e-3)) == ["Conv"]


STAYS = {
    "interleaved, one behind limits": ([*PARTS[1:], ("a0", Conv(Window(), 1, "w", "b", low=0.0), ["x"], Y), *BEHIND], ["y"]),
    "interleaved, one shared": ([*PARTS, *BEHIND, ("z", Clip(0.0), ["a2"], Y)], ["y", "z"]),
    "interleaved, one no convolution": ([*PARTS[1:], ("n", CONV, ["x"], Y), ("a0", MaxPool(Window()), ["n"], Y), *BEHIND], ["y"]),
    "int8 weights behind it": ([("a", BEFORE, ["x"], X), ("y", Conv(Window(), 1, "w", "b", "ws"), ["a"], Y)], ["y"]),
    "interleaved and shared": ([*PARTS, *BEHIND, ("z", Clip(0.0), ["m"], WHOLE)], ["y", "z"]),
    "shift before padding": ([("a", BEFORE, ["x"], X), ("y", PADDED, ["a"], Y)], ["y"]),
    "behind limits": ([("a", Conv(Window(), 1, "w", "b", low=0.0), ["x"], Y), ("y", AFFINE, ["a"], Y)], ["y"]),
    "shared": ([("a", CONV, ["x"], Y), ("y", AFFINE, ["a"], Y), ("z", Clip(0.0), ["a"], Y)], ["y", "z"]),
    "an output": ([("y", BEFORE, ["x"], X), ("z", CONV, ["y"], Y)], ["y", "z"]),
    "limits of its own": ([("a", Affine("u", "v", 0.0, inf), ["x"], X), ("y", CONV, ["a"], Y)], ["y"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """Folded, each of these would change what some reader sees."""
    assert left_alone(fuse_affine, small(*STAYS[name]))


def test_int8_weight_without_a_negative_stays():
    """-(-128) is 128, beyond int8."""
    whole = np.full((6, 4, 1, 1), -128, np.float32)
    conv = Conv(Window(), 1, "w", "b", "ws")
    constants = {"w": whole, "ws": np.ones(6), "s": np.full(6, -1.0)}
    graph = small([("a", conv, ["x"], Y), ("y", AFFINE, ["a"], Y)], **constants)
    assert left_alone(fuse_affine, graph)
    parts = [(name, conv, ["x"], Y) for name, *_ in PARTS]
    assert left_alone(fuse_affine, small([*parts, *BEHIND], **constants))
