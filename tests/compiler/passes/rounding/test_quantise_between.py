"""A tensor between a convolution and its Add gets a quantisation."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Add, Clip, Conv
from cnna.compiler.graph.ir import Quant, Window
from cnna.compiler.passes.rounding.quantise_between import quantise_between

from ..alone import computed, left_alone, typed

SHAPE = (1, 2, 3, 3)
X, Y = Quant(0.02, -5), Quant(0.05, 10)
CONSTANTS = {"w": (2, 2, 1, 1), "b": (2,)}
CONV = ("a", Conv(Window(), 1, "w", "b"), ["x"], SHAPE)


@pytest.mark.parametrize("operands", [["a", "x"], ["x", "a"]])
def test_range_is_what_can_change_the_sum(operands):
    """A narrower range would saturate sums, and a wider one would lose precision. The answer may move by one step at most."""
    graph = typed({"x": SHAPE}, [CONV, ("y", Add(), operands, SHAPE)], ["y"], CONSTANTS, {"x": X, "y": Y})
    changed = quantise_between(graph)
    quant = changed.tensors["a"].quant
    low, high = quant.scale * (-128 - quant.zero), quant.scale * (127 - quant.zero)
    ends = [(scale * (-128 - zero), scale * (127 - zero)) for scale, zero in ((X.scale, X.zero), (Y.scale, Y.zero))]
    (x_low, x_high), (y_low, y_high) = ends
    assert quant.scale == pytest.approx((y_high - x_low - (y_low - x_high)) / 255)
    assert low == pytest.approx(y_low - x_high, abs=quant.scale)
    assert high == pytest.approx(y_high - x_low, abs=quant.scale)
    assert np.abs(computed(changed)[0] - computed(graph)[0]).max() <= quant.scale / 2 + Y.scale + 1e-6


STAYS = {
    "difference": ([CONV, ("y", Add(minus=True), ["x", "a"], SHAPE)], {"x": X, "y": Y}, ["y"]),
    "output without": ([CONV, ("y", Add(), ["a", "x"], SHAPE)], {"x": X}, ["y"]),
    "neither operand": ([CONV, ("y", Add(), ["a", "z"], SHAPE)], {"x": X, "y": Y}, ["y"]),
    "quantised already": ([CONV, ("y", Add(), ["a", "x"], SHAPE)], {"x": X, "a": X, "y": Y}, ["y"]),
    "no convolution": ([("a", Clip(0.0), ["x"], SHAPE), ("y", Add(), ["a", "x"], SHAPE)], {"x": X, "y": Y}, ["y"]),
    "shared": ([CONV, ("y", Add(), ["a", "x"], SHAPE), ("v", Clip(0.0), ["a"], SHAPE)], {"x": X, "y": Y}, ["y", "v"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No range can be derived, or another reader would see values that are cut to it."""
    nodes, quants, outputs = STAYS[name]
    constants = CONSTANTS if CONV in nodes else {}
    assert left_alone(quantise_between, typed({"x": SHAPE, "z": SHAPE}, nodes, outputs, constants, quants))
