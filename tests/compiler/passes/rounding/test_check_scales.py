"""Scales that do not fit are refused with the node's name."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Clip, Onnx
from cnna.compiler.passes.rounding.check_scales import check_scales
from cnna.spec.errors import ModelError

from ..alone import left_alone, typed, untyped

MAP = (1, 4, 3, 3)
PAIR = """g (float[N,4,3,3] x) => (float[N,4,3,3] y) {
    q = QuantizeLinear <axis=1> (x, s, z)
    y = DequantizeLinear <axis=1> (q, s, z)}"""
WEIGHTS = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
    w = DequantizeLinear <axis=0> (q, s, z)
    y = Conv (x, w)}"""
INT8 = "g (int8[N,4,3,3] x) => (float[N,4,3,3] y) { y = DequantizeLinear <axis=1> (x, s, z) }"
COMPUTED = """g (float[N,4,3,3] x) => (float[N,4,3,3] y) {
    s = ReduceMax <keepdims=0> (x)
    q = QuantizeLinear (x, s)
    y = DequantizeLinear (q, s, z)}"""
BLOCKED = WEIGHTS.replace("axis=0", "axis=0, block_size=2").replace("N,2", "N,4")
WHOLE = np.ones((2, 2, 1, 1), np.int8)


def zeros(count):
    return np.zeros(count, np.int8)


SOUND = {
    "one scale": (PAIR, {"s": np.float32(0.1), "z": np.int8(3)}),
    "one a channel": (PAIR, {"s": np.full(4, 0.1, np.float32), "z": zeros(4)}),
    "0 for a channel of weights": (WEIGHTS, {"q": WHOLE, "s": np.array([0, 1], np.float32), "z": zeros(2)}),
    "no zero point": (PAIR.replace(", z", ""), {"s": np.float32(0.1)}),
    "a scale that is computed": (COMPUTED, {"z": np.uint8(0)}),
    "axis 1 where none is named": (PAIR.replace("<axis=1> ", ""), {"s": np.full(4, 0.1, np.float32), "z": zeros(4)}),
    "axis counted from the end": (PAIR.replace("axis=1", "axis=-4", 1), {"s": np.ones(1, np.float32), "z": zeros(1)}),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_scales_pass(name):
    """The check must neither refuse nor change scales that fit."""
    assert left_alone(check_scales, untyped(*SOUND[name]))


def dequantised(shape, scale, zero=None, axis=1, constant=False, domain="", **attributes):
    """One DequantizeLinear with these shapes of scales and zero points (None: none), some of which no ONNX model file can have."""
    inputs = {"q": shape, "z": zero} if isinstance(zero, tuple) else {"q": shape}
    constants = {"s": np.full(scale, 0.5, np.float32)} | ({"z": zero} if isinstance(zero, np.ndarray) else {})
    if constant:
        constants["q"] = np.ones(inputs.pop("q"), np.int8)
    names = ["q", "s", *([] if zero is None else ["z"] if zero != "" else [""])]
    op = Onnx("DequantizeLinear", {"axis": axis, **attributes}, domain)
    return typed(inputs, [("y", op, names, shape)], ["y"], constants)


KNOWN_LATER = {
    "another domain's scale": dequantised(MAP, 0, domain="com.example"),
    "an absent zero point": dequantised(MAP, 4, ""),
    "a zero point of unknown shape": dequantised(MAP, 4, ()),
    "a tensor of unknown shape": dequantised((), 4),
    "an axis of unknown size": dequantised((1, 0, 3, 3), 4),
    "the first axis from the end": dequantised((4, 3), 4, axis=-2),
    "blocks along an axis": dequantised((4, 2), (2, 2), constant=True, block_size=2),
}


@pytest.mark.parametrize("name", KNOWN_LATER)
def test_what_is_not_known_is_not_refused(name):
    """A sound model would be refused for a size that its file leaves open, or that another domain or block size gives a meaning."""
    assert left_alone(check_scales, KNOWN_LATER[name])


WRONG = {
    "its scale 's' is not finite": (PAIR, {"s": np.float32(np.inf), "z": np.int8(0)}),
    "its scale 's' is 0; it must be above 0": (PAIR, {"s": np.float32(0), "z": np.int8(0)}),
    "its scale 's' is -1; it must be above 0": (WEIGHTS, {"q": WHOLE, "s": np.array([-1, 1], np.float32), "z": zeros(2)}),
    "its zero point 'z' has 2 values, its scale 's' 4": (PAIR, {"s": np.ones(4, np.float32), "z": zeros(2)}),
    "its scale 's' has shape [3], axis 1 of its tensor 4 elements": (PAIR, {"s": np.ones(3, np.float32), "z": zeros(3)}),
    "its scale 's' is empty": (PAIR, {"s": np.ones(0, np.float32), "z": zeros(0)}),
    "(DequantizeLinear): its scale 's' is 0; it must be above 0": (INT8, {"s": np.float32(0), "z": np.int8(0)}),
    "(QuantizeLinear): its scale 's' is 0; it must be above 0": (
        "g (float[N,4] x) => (float[N,4] y) { q = QuantizeLinear (w, s, z) d = DequantizeLinear (q, t, z) y = Add (x, d) }",
        {"w": (4,), "s": np.float32(0), "t": np.float32(1), "z": np.int8(0)},
    ),
}


MISFITS = {
    "its zero point 'z' has 1 values, its scale 's' 4": dequantised(MAP, 4, zeros(())),
    "its zero point 'z' has 2 values, its scale 's' 4": dequantised(MAP, 4, (2,)),
    "axis 4 is outside a tensor of shape [1, 4, 3, 3]": dequantised(MAP, 4, axis=4),
    "its scale 's' has shape [2, 2], axis 1 of its tensor 4 elements": dequantised(MAP, (2, 2)),
    "its scale 's' has shape [3], axis 1 of its tensor 0 elements": dequantised((2, 0), 3, constant=True),
}


@pytest.mark.parametrize("reason", MISFITS)
def test_misfits_are_named(reason):
    """A pass behind would broadcast them, or end in numpy's words."""
    with pytest.raises(ModelError) as caught:
        check_scales(MISFITS[reason])
    assert reason in str(caught.value)


def test_typed_operators_pass():
    """They have no kind that could be asked for."""
    assert left_alone(check_scales, typed({"x": MAP}, [("y", Clip(0.0), ["x"], MAP)], ["y"]))


@pytest.mark.parametrize("reason", WRONG)
def test_wrong_scales_are_named(reason):
    """A later pass would divide by them, or broadcast them along another axis."""
    text, weights = WRONG[reason]
    with pytest.raises(ModelError) as caught:
        check_scales(untyped(text, weights))
    assert reason in str(caught.value)
    assert str(caught.value).endswith("quantise the model again")


def test_axis_outside_the_tensor_is_named():
    """numpy would raise IndexError."""
    text = PAIR.replace("axis=1> (x", "axis=7> (x")
    with pytest.raises(ModelError, match=r"axis 7 is outside a tensor of shape \[1, 4, 3, 3\]"):
        check_scales(untyped(text, {"s": np.ones(4, np.float32), "z": zeros(4)}))
