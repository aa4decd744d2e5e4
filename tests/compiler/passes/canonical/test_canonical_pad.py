"""Pads with a constant: each spelling becomes the one typed Pad of the same rows and columns, or stays as it is."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Onnx, Pad
from cnna.compiler.passes.canonical.canonical_pad import canonical_pad

from ..alone import after, ints, kinds, left_alone, only, typed, untyped

V, ZERO = np.float32(0.7), np.float32(0)


def padded(line, shape="6,5,7", **constants):
    """The graph of one Pad of a map."""
    return untyped(f"g (float[N,{shape}] x) => (float[N{',?' * len(shape.split(','))}] y) {{ y = Pad {line} }}", constants, 19)


@pytest.mark.parametrize(
    ("graph", "op"),
    [
        (padded("(x, w, v)", w=ints(0, 0, 2, 1, 0, 0, 0, 3), v=V), Pad((2, 1, 0, 3), float(V))),
        (padded("(x, w, v, a)", w=ints(2, 1), v=V, a=ints(3)), Pad((0, 2, 0, 1), float(V))),
        (padded("(x, w, v, a)", w=ints(2, 0, 1, 4), v=V, a=ints(-1, -2)), Pad((0, 2, 4, 1), float(V))),
        (padded("(x, w, , a)", w=ints(2, 1), a=ints(2)), Pad((2, 0, 1, 0), 0.0)),
    ],
    ids=["value", "columns", "axes in another order", "zeros of an axis"],
)
def test_spellings(graph, op):
    """With another order of axes or sides the wrong border would get the value."""
    changed = after(canonical_pad, graph, 0)
    assert kinds(changed) == ["Pad"]
    assert only(changed, Pad).op == op


def test_columns_of_one_row():
    """A map of three axes has no rows; a width set on them would need another shape."""
    changed = after(canonical_pad, padded("(x, w, v)", "6,5", w=ints(0, 0, 2, 0, 0, 1), v=V), 0)
    assert kinds(changed) == ["Reshape", "Pad", "Reshape"]
    assert only(changed, Pad).op == Pad((0, 2, 0, 1), float(V))


def test_cuts():
    """A negative width cuts off; ONNX's evaluator knows none, so the numbers are compared with onnxruntime in test_moves."""
    graph = typed({"x": (1, 3, 5, 5)}, [("y", Onnx("Pad"), ["x", "w"], (1, 3, 5, 4))], ["y"], {"w": ints(0, 0, -1, 1, 0, 0, 1, -2)})
    assert only(canonical_pad(graph), Pad).op == Pad((-1, 1, 1, -2), 0.0)


X = (1, 3, 5, 5)


def small(inputs, shape, op=None, **constants):
    return typed({"x": X, "z": (8,)}, [("y", op or Onnx("Pad"), ["x", *inputs], shape)], ["y"], constants)


WIDTHS = ints(0, 0, 1, 0, 0, 0, 0, 0)
STAYS = {
    "zeros, which a window takes": small(["w", "v"], (1, 3, 6, 5), w=WIDTHS, v=ZERO),
    "nothing": small(["w", "v"], X, w=ints(*[0] * 8), v=V),
    "channels": small(["w", "v"], (1, 4, 5, 5), w=ints(0, 1, 0, 0, 0, 0, 0, 0), v=V),
    "channels behind, and rows": small(["w", "v"], (1, 4, 6, 5), w=ints(0, 0, 1, 0, 0, 1, 0, 0), v=V),
    "samples": small(["w", "v"], (2, 3, 5, 5), w=ints(1, 0, 0, 0, 0, 0, 0, 0), v=V),
    "another mode": small(["w"], (1, 3, 6, 5), Onnx("Pad", {"mode": "edge"}), w=WIDTHS),
    "another domain's": small(["w", "v"], (1, 3, 6, 5), Onnx("Pad", domain="com.example"), w=WIDTHS, v=V),
    "widths that are computed": small(["z", "v"], (1, 3, 6, 5), v=V),
    "value that is computed": small(["w", "z"], (1, 3, 6, 5), w=WIDTHS),
    "integers": untyped("g (int64[N,3,5,5] x) => (int64[N,3,6,5] y) { y = Pad (x, w, v) }", {"w": WIDTHS, "v": np.int64(3)}),
    "cut beyond the map": small(["w", "v"], (1, 3, 2, 5), w=ints(0, 0, -6, 0, 0, 0, 3, 0), v=V),
    "five axes": padded("(x, w, v)", "3,2,3,4", w=ints(0, 0, 0, 0, 1, 0, 0, 0, 0, 0), v=V),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """What is padded is not known, or is no row or column of real values, or belongs to another pass."""
    assert left_alone(canonical_pad, STAYS[name])


def test_typed_pads_stay():
    """A typed Pad has neither kind nor attributes: a pass that looked for these would end in a traceback."""
    graph = canonical_pad(padded("(x, w, v)", w=ints(0, 0, 2, 1, 0, 0, 0, 3), v=V))
    assert left_alone(canonical_pad, replace(graph))
