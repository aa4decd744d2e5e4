"""Concats of rows and columns of maps become Joins; others stay."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Clip, Concat, Join, MaxPool, Onnx, Transpose
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.canonical.canonical_join import canonical_join
from cnna.compiler.passes.fusion.fuse_clip import fuse_clip

from ..alone import after, kinds, left_alone, only, typed, untyped

X = (1, 3, 4, 5)


def joined(axis, shape, other=X, domain="", **constants):
    """A Concat of x and of z, or of x and a constant w."""
    op = Onnx("Concat", {"axis": axis}, domain)
    return typed({"x": X, "z": other}, [("y", op, ["x", *(constants or ["z"])], shape)], ["y"], constants)


@pytest.mark.parametrize(
    ("graph", "axis"),
    [
        (joined(2, (1, 3, 6, 5), (1, 3, 2, 5)), 2),
        (joined(-2, (1, 3, 6, 5), (1, 3, 2, 5)), 2),
        (joined(-1, (1, 3, 4, 7), (1, 3, 4, 2)), 3),
    ],
    ids=["rows", "rows from the end", "columns"],
)
def test_rows_and_columns_are_typed(graph, axis):
    """Joined along another axis the map would have another shape."""
    changed = after(canonical_join, graph, 0)
    assert only(changed, Join).op == Join(axis)


STAYS = {
    "channels": joined(1, (1, 6, 4, 5)),
    "samples": joined(0, (2, 3, 4, 5)),
    "another domain's": joined(2, (1, 3, 8, 5), domain="com.example"),
    "a constant": joined(2, (1, 3, 6, 5), w=np.zeros((1, 3, 2, 5), np.float32)),
    "three axes": typed({"x": (1, 3, 4)}, [("y", Onnx("Concat", {"axis": 2}), ["x", "x"], (1, 3, 8))], ["y"]),
    "unknown size": typed({"x": (1, 3, 0, 5)}, [("y", Onnx("Concat", {"axis": 2}), ["x", "x"], (1, 3, 0, 5))], ["y"]),
    "integers": untyped("g (int64[N,3,4,5] x) => (int64[N,3,8,5] y) { y = Concat <axis=2> (x, x) }"),
    "a view": typed(
        {"x": X},
        [("t", Transpose((0, 2, 3, 1)), ["x"], (1, 4, 5, 3)), ("y", Onnx("Concat", {"axis": 2}), ["t", "t"], (1, 4, 10, 3))],
        ["y"],
    ),
    "typed": typed({"x": X}, [("y", Concat(), ["x", "x"], (1, 6, 4, 5))], ["y"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """These join no rows or columns of maps that the accelerator has."""
    assert left_alone(canonical_join, STAYS[name])


def test_limits_go_into_what_is_joined():
    """A Relu behind a Join would need a pass of its own, though the parts' own limits cost nothing."""
    nodes = [
        ("a", Clip(-1.0), ["x"], X),
        ("b", MaxPool(Window()), ["x"], X),
        ("j", Join(2), ["a", "b"], (1, 3, 8, 5)),
        ("y", Clip(0.0), ["j"], (1, 3, 8, 5)),
    ]
    graph = after(fuse_clip, typed({"x": X}, nodes, ["y"]), 0)
    assert kinds(graph)[-1] == "Join"
    assert kinds(graph).count("Clip") == 2
