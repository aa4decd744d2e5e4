"""Elementwise operators as Affine, Add and Clip."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Affine, Clip
from cnna.compiler.passes.canonical_elementwise import canonical_elementwise
from cnna.spec.errors import ModelError

from .alone import after, kinds, left_alone, only, untyped

SHAPE = "[N,3,4,5]"
CASES = {
    "batch norm": ("BatchNormalization <epsilon=0.01> (x, s, o, m, var)", dict.fromkeys(("s", "o", "m", "var"), (3,)), ["Affine"]),
    "times a number": ("Mul (x, s)", {"s": np.float32(3)}, ["Affine"]),
    "channels": ("Add (s, x)", {"s": (1, 3, 1, 1)}, ["Affine"]),
    "minus": ("Sub (x, s)", {"s": (3, 1, 1)}, ["Affine"]),
    "from": ("Sub (s, x)", {"s": (3, 1, 1)}, ["Affine"]),
    "divided": ("Div (x, s)", {"s": np.array([[[2]], [[-3]], [[0.5]]], np.float32)}, ["Affine"]),
    "columns": ("Mul (x, s)", {"s": (5,)}, ["Transpose", "Affine", "Transpose"]),
    "sum of three": ("Sum (x, z, x)", {}, ["Add", "Add"]),
    "sum of one twice": ("Add (x, x)", {}, ["Affine"]),
    "relu": ("Relu (x)", {}, ["Clip"]),
    "clip": ("Clip (x, low, high)", {"low": np.float32(-0.5), "high": np.float32(0.5)}, ["Clip"]),
    "clip, one limit": ("Clip (x, low)", {"low": np.float32(-0.5)}, ["Clip"]),
    "min": ("Min (x, low)", {"low": np.float32(-0.5)}, ["Clip"]),
    "max": ("Max (low, x)", {"low": np.float32([0.5])}, ["Clip"]),
}


@pytest.mark.parametrize("name", CASES)
def test_becomes_typed(name):
    """A form that is not recognised would be refused between two layers."""
    node, weights, expected = CASES[name]
    graph = untyped(f"g (float{SHAPE} x, float{SHAPE} z) => (float{SHAPE} y) {{ y = {node} }}", weights)
    assert kinds(after(canonical_elementwise, graph)) == expected


STAYS = {
    "constant of every pixel": ("Add (x, s)", {"s": (3, 4, 5)}),
    "computed operand that broadcasts": ("Mul (x, m)", {}),
    "product of activations": ("Mul (x, z)", {}),
    "divisor": ("Div (s, x)", {"s": (3, 1, 1)}),
    "division by 0": ("Div (x, s)", {"s": np.float32(0)}),
    "computed limit": ("Max (x, z)", {}),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No Affine, Add or Clip computes it."""
    node, weights = STAYS[name]
    text = f"g (float{SHAPE} x, float{SHAPE} z, float[N,3,1,1] m) => (float{SHAPE} y) {{ y = {node} }}"
    assert left_alone(canonical_elementwise, untyped(text, weights))


def test_limits_are_read():
    """A limit that is left out is infinite; one that is exchanged with the other would cut everything off."""
    text = f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = Clip (x, low) }}"
    clip = only(canonical_elementwise(untyped(text, {"low": np.float32(-0.5)})), Clip).op
    assert (clip.low, clip.high) == (-0.5, np.inf)


def test_sign_of_a_difference():
    """s - x and x - s differ in both constants."""
    text = f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = Sub (s, x) }}"
    graph = canonical_elementwise(untyped(text, {"s": np.float32(2)}))
    affine = only(graph, Affine).op
    assert (graph.constants[affine.scale] == -1).all()
    assert (graph.constants[affine.shift] == 2).all()


WRONG = {
    "'var' has shape [4]; it must be [3]": ("BatchNormalization (x, s, o, m, var)", np.ones(4, np.float32)),
    "a variance plus epsilon is -1; it must be above 0": (
        "BatchNormalization <epsilon=0.0> (x, s, o, m, var)",
        np.full(3, -1, np.float32),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_constants_that_cannot_be_are_named(message):
    """numpy would answer NaN, or say nothing of the node."""
    node, wrong = WRONG[message]
    graph = untyped(f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = {node} }}", dict.fromkeys(("s", "o", "m", "var"), (3,)))
    with pytest.raises(ModelError) as caught:
        canonical_elementwise(replace(graph, constants={**graph.constants, "var": wrong}))
    assert message in str(caught.value)
