"""DequantizeLinear moves above operators that only move int8 elements."""

import numpy as np
import pytest

from cnna.compiler.passes.rounding.hoist_dequantise import hoist_dequantise

from ..alone import after, ints, kinds, left_alone, untyped

TEXT = """g (float[N,4,4,4] x) => (float[N,4,?,?] y) {{
    q = QuantizeLinear (x, s, z)
    m = {mover}
    y = DequantizeLinear {axis} (m, {scale}, {zero})}}"""
ONE = {"s": np.float32(0.1), "z": np.int8(3)}
EACH = {"each": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "zeros": np.zeros(4, np.int8)}
MOVERS = {
    "MaxPool": ("MaxPool <kernel_shape=[2,2], strides=[2,2]> (q)", {}),
    "Transpose": ("Transpose <perm=[0,1,3,2]> (q)", {}),
    "Concat": ("Concat <axis=1> (half, half)", {}),
    "Reshape": ("Reshape (q, same)", {"same": ints(0, 4, 4, 4)}),
    "Pad": ("Pad (part, widths, value)", {"widths": ints(0, 0, 2, 0, 0, 0, 0, 0), "value": np.int8(5)}),
    "Pad of 0": ("Pad (part, widths)", {"widths": ints(0, 0, 2, 0, 0, 0, 0, 0)}),
}
SLICES = """half = Slice (q, nought, two, channels)
    part = Slice (q, nought, two, rows)
    m = """


@pytest.mark.parametrize("name", MOVERS)
def test_movers_work_on_real_values(name):
    """A pool of int8 between two layers would be refused, because the passes know only operators of real values."""
    mover, weights = MOVERS[name]
    text = TEXT.format(mover=mover, axis="", scale="s", zero="z").replace("m = ", SLICES, 1)
    weights = weights | {"nought": ints(0), "two": ints(2), "channels": ints(1), "rows": ints(2)}
    graph = untyped(text, ONE | {name: weights[name] for name in weights if name in text})
    changed = kinds(after(hoist_dequantise, graph))
    assert changed[:2] == ["QuantizeLinear", "DequantizeLinear"]
    assert changed.count("DequantizeLinear") == 1
    assert changed[-1] == name.split()[0]


def test_whoever_reads_int8_keeps_it():
    """The user asks for the int8 values too."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, int8[N,4,4,4] m) {
        q = QuantizeLinear (x, s, z)
        m = Transpose <perm=[0,1,3,2]> (q)
        y = DequantizeLinear (m, s, z)}"""
    graph = hoist_dequantise(untyped(text, ONE))
    assert sorted(kinds(graph)) == ["DequantizeLinear", "QuantizeLinear", "Transpose", "Transpose"]


@pytest.mark.parametrize("scale", ["s", "each"])
def test_only_one_scale_for_all_moves_above_a_transpose(scale):
    """A scale for each channel, moved above a Transpose as it is, would scale rows: the shapes fit, but the values do not."""
    zero = {"s": "z", "each": "zeros"}[scale]
    text = TEXT.format(mover="Transpose <perm=[0,2,3,1]> (q)", axis="<axis=3>", scale=scale, zero=zero)
    graph = untyped(text, ONE | (EACH if scale == "each" else {}))
    assert left_alone(hoist_dequantise, graph) == (scale == "each")


def test_operators_that_compute_stay():
    """Only operators that move or choose elements may change places with the scale."""
    text = TEXT.format(mover="Max (q, q)", axis="", scale="s", zero="z")
    assert left_alone(hoist_dequantise, untyped(text, ONE))
