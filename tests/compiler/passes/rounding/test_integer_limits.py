"""Limits of integers between a QuantizeLinear and its DequantizeLinear become limits of real numbers in front of both."""

import numpy as np
import pytest

from cnna.compiler.passes.rounding.hoist_dequantise import hoist_dequantise
from cnna.compiler.passes.rounding.integer_limits import integer_limits

from ..alone import after, kinds, left_alone, untyped

TEXT = """g (float[N,4,4,4] x) => (float[N,4,4,4] y) {{
    a = Mul (x, x) q = QuantizeLinear (a, s, z) {limit} y = DequantizeLinear (c, s, z) }}"""
UINT8 = {"s": np.float32(0.02), "z": np.uint8(3)}
INT8 = {"s": np.float32(0.02), "z": np.int8(-100)}
LIMITS = {
    "Clip": ("c = Clip (q, low, high)", {"low": np.uint8(10), "high": np.uint8(127)}, UINT8),
    "Clip above": ("c = Clip (q, , high)", {"high": np.uint8(127)}, UINT8),
    "Clip below": ("c = Clip (q, low)", {"low": np.int8(-90)}, INT8),
    "Relu": ("c = Relu (q)", {}, INT8),
    "Min": ("c = Min (q, high)", {"high": np.array([15], np.uint8)}, UINT8),
    "Max, number first": ("c = Max (low, q)", {"low": np.int8(-97)}, INT8),
    "Min of Max": ("b = Max (q, low) c = Min (b, high)", {"low": np.int8(-98), "high": np.int8(-30)}, INT8),
    "Clip, moved": ("b = Clip (q, low, high) c = Transpose <perm=[0,2,1,3]> (b)", {"low": np.int8(-98), "high": np.int8(7)}, INT8),
}  # fmt: skip
WITHOUT_EFFECT = {
    "Clip": ("c = Clip (q, low, high)", {"low": np.int8(-128), "high": np.int8(127)}),
    "nothing": ("c = Clip (q)", {}),
    "Max": ("c = Max (q, low)", {"low": np.int8(-128)}),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_limit_comes_first(name):
    """A layer has no limits of integers, so all that lies around one would run on the CPU."""
    limit, bounds, rounding = LIMITS[name]
    graph = after(integer_limits, untyped(TEXT.format(limit=limit), {**bounds, **rounding}), tolerance=0)
    before = kinds(graph).index("QuantizeLinear")
    assert set(kinds(graph)[1:before]) == {"Clip"}
    assert not {"Clip", "Relu", "Min", "Max"} & {*kinds(graph)[before:]}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_an_input_come_behind(name):
    """The host rounds an input before anything else, so that a limit before the rounding would take the CPU."""
    limit, bounds, rounding = LIMITS[name]
    text = TEXT.format(limit=limit).replace("a = Mul (x, x)", "").replace("(a, ", "(x, ")
    graph = untyped(text, {**bounds, **rounding})
    assert left_alone(integer_limits, graph)
    assert kinds(after(hoist_dequantise, graph, tolerance=0))[:3] == ["QuantizeLinear", "DequantizeLinear", "Clip"]


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_limits_of_the_type_are_none(name):
    """A copy of every map would be made for them."""
    limit, bounds = WITHOUT_EFFECT[name]
    graph = untyped(TEXT.format(limit=limit), {**bounds, **INT8})
    assert "Clip" not in kinds(after(integer_limits, graph, tolerance=0))


SEVERAL = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] v) {{
    a = Mul (x, x) q = QuantizeLinear (a, s, z) {more} }}"""
TOGETHER = {
    "one limit, two readers": "c = Clip (q, low, high) y = DequantizeLinear (c, s, z) v = DequantizeLinear (c, s, z)",
    "two limits": "c = Clip (q, low, high) d = Clip (q, low, high) y = DequantizeLinear (c, s, z) v = DequantizeLinear (d, s, z)",
    "two roundings": """r = QuantizeLinear (a, s, z) c = Clip (q, low, high) d = Clip (r, low, high)
        y = DequantizeLinear (c, s, z) v = DequantizeLinear (d, s, z)""",
}
APART = {
    "without a limit": "c = Clip (q, low, high) y = DequantizeLinear (c, s, z) v = DequantizeLinear (q, s, z)",
    "another limit": "c = Clip (q, low, high) d = Clip (q, low) y = DequantizeLinear (c, s, z) v = DequantizeLinear (d, s, z)",
    "before the rounding": "c = Clip (q, low, high) y = DequantizeLinear (c, s, z) v = Relu (a)",
}
BOUNDS = {"low": np.int8(-98), "high": np.int8(-30)}


@pytest.mark.parametrize("name", TOGETHER)
def test_equal_limits_become_one(name):
    """Two Clips in front would be two readers of a layer, which then had no one rounding."""
    graph = after(integer_limits, untyped(SEVERAL.format(more=TOGETHER[name]), INT8 | BOUNDS), tolerance=0)
    assert kinds(graph)[1] == "Clip"
    assert kinds(graph).count("Clip") == 1


@pytest.mark.parametrize("name", APART)
def test_what_others_read_unlimited_stays(name):
    """They would get limited numbers, or the layer two readers. The limit moves behind the DequantizeLinear instead."""
    graph = untyped(SEVERAL.format(more=APART[name]), INT8 | BOUNDS)
    assert left_alone(integer_limits, graph)
    assert kinds(after(hoist_dequantise, graph, tolerance=0)).index("Clip") > 2


STAYS = {
    "each channel": ("c = Clip (q, low, high)", {"s": np.full(4, 0.02, np.float32), "z": np.zeros(4, np.int8)}),
    "limits of channels": ("c = Min (q, each)", {**INT8, "each": np.zeros((4, 1, 1), np.int8)}),
    "a limit with more axes": (
        "b = Max (q, one) c = ReduceMax <keepdims=0> (b, k)",
        {**INT8, "k": np.array([0]), "one": np.full((1,) * 5, 3, np.int8)},
    ),
    "limits that are computed": ("c = Max (q, q)", INT8),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """One number in front would be another limit for most channels."""
    limit, constants = STAYS[name]
    graph = untyped(TEXT.format(limit=limit), {**constants, **(BOUNDS if "low" in limit else {})})
    assert left_alone(integer_limits, graph)
    assert left_alone(hoist_dequantise, graph)


def test_the_user_may_read_limited_integers():
    """The output keeps its name and its integers, whatever stands in front."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, int8[N,4,4,4] c, int8[N,4,4,4] d) {
        a = Mul (x, x) q = QuantizeLinear (a, s, z)
        c = Clip (q, low, high) d = Clip (q, low, high) y = DequantizeLinear (c, s, z) }"""
    graph = after(integer_limits, untyped(text, INT8 | BOUNDS), tolerance=0)
    assert kinds(graph)[1] == "Clip"
