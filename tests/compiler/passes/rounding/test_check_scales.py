"""Scales that fit nothing are refused with the node's name."""

import numpy as np
import pytest

from cnna.compiler.passes.rounding.check_scales import check_scales
from cnna.spec.errors import ModelError

from ..alone import left_alone, untyped

PAIR = """g (float[N,4,3,3] x) => (float[N,4,3,3] y) {
    q = QuantizeLinear <axis=1> (x, s, z)
    y = DequantizeLinear <axis=1> (q, s, z)}"""
WEIGHTS = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
    w = DequantizeLinear <axis=0> (q, s, z)
    y = Conv (x, w)}"""
WHOLE = np.ones((2, 2, 1, 1), np.int8)


def zeros(count):
    return np.zeros(count, np.int8)


SOUND = {
    "one scale": (PAIR, {"s": np.float32(0.1), "z": np.int8(3)}),
    "one a channel": (PAIR, {"s": np.full(4, 0.1, np.float32), "z": zeros(4)}),
    "0 for a channel of weights": (WEIGHTS, {"q": WHOLE, "s": np.float32([0, 1]), "z": zeros(2)}),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_scales_pass(name):
    """The check may neither refuse nor change what fits."""
    assert left_alone(check_scales, untyped(*SOUND[name]))


WRONG = {
    "its scale 's' is not finite": (PAIR, {"s": np.float32(np.inf), "z": np.int8(0)}),
    "its scale 's' is 0; it must be above 0": (PAIR, {"s": np.float32(0), "z": np.int8(0)}),
    "its scale 's' is -1; it must be above 0": (WEIGHTS, {"q": WHOLE, "s": np.float32([-1, 1]), "z": zeros(2)}),
    "its zero point 'z' has 2 values, its scale 's' 4": (PAIR, {"s": np.ones(4, np.float32), "z": zeros(2)}),
    "its scale 's' has shape [3], axis 1 of its tensor 4 elements": (PAIR, {"s": np.ones(3, np.float32), "z": zeros(3)}),
    "its scale 's' is empty": (PAIR, {"s": np.ones(0, np.float32), "z": zeros(0)}),
}


@pytest.mark.parametrize("reason", WRONG)
def test_wrong_scales_are_named(reason):
    """A pass behind would divide by them, or broadcast them along another axis."""
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
