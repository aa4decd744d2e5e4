"""Operators that rearrange elements become Reshape and Transpose."""

from dataclasses import replace

import pytest

from cnna.compiler.graph.float_ops import Onnx, Reshape, Transpose
from cnna.compiler.graph.ir import Tensor
from cnna.compiler.passes.canonical.canonical_views import canonical_views
from cnna.spec.errors import ModelError

from ..alone import after, ints, left_alone, only, typed, untyped

RESHAPES = {
    "Reshape (x, to)": ("[N,6,4]", {"to": ints(0, 6, -1)}, (1, 6, 4)),
    "Flatten (x)": ("[N,24]", {}, (1, 24)),
    "Unsqueeze (x, to)": ("[N,2,1,3,4]", {"to": ints(2)}, (1, 2, 1, 3, 4)),
}


@pytest.mark.parametrize("node", RESHAPES)
def test_reshapes(node):
    """Later passes know only Reshape, and not its three other spellings."""
    shape, weights, expected = RESHAPES[node]
    graph = after(canonical_views, untyped(f"g (float[N,2,3,4] x) => (float{shape} y) {{ y = {node} }}", weights))
    assert only(graph, Reshape).op.shape == expected


def test_an_axis_before_the_batch_is_no_reshape():
    """For one sample [1, N, 2] and [N, 1, 2] are alike, but several samples would be answered in another order."""
    assert left_alone(canonical_views, untyped("g (float[N,2] x) => (float[1,N,2] y) { y = Unsqueeze (x, to) }", {"to": ints(0)}))


def test_squeeze():
    """The axes of size 1 must go, and the elements stay in place."""
    text = "g (float[N,2,1,1] x) => (float[N,2] y) { y = Squeeze (x, to) }"
    assert only(after(canonical_views, untyped(text, {"to": ints(2, 3)})), Reshape).op.shape == (1, 2)


def test_transposes():
    """The order of axes must be the model's."""
    text = "g (float[N,2,3,4] x) => (float[N,3,4,2] y) { y = Transpose <perm=[0,2,3,1]> (x) }"
    assert only(after(canonical_views, untyped(text)), Transpose).op.perm == (0, 2, 3, 1)


def test_flatten_of_a_vector():
    """Without an axis it keeps the first one, even of a tensor that has just two."""
    assert only(after(canonical_views, untyped("g (float[N,6] x) => (float[N,6] y) { y = Flatten (x) }")), Reshape).op.shape == (
        1,
        6,
    )


UNKNOWN = {
    "rank before": ("Flatten", (), (1, 24)),
    "rank after": ("Flatten", (1, 2, 3, 4), ()),
    "size before": ("Flatten", (1, 0, 4), (1, 24)),
    "size after": ("Flatten", (1, 2, 3, 4), (1, 0)),
    "several rows before": ("Reshape", (3, 2), (1, 6)),
    "one axis": ("Sin", (1,), (1,)),
    "batch moved behind an axis of size 1": ("Transpose", (1, 2, 1), (1, 2, 1)),
    "axes that are computed": ("Unsqueeze", (1, 2), (1, 1, 2)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_not_keep_the_batch_stays(name):
    """A typed view has a known shape whose first axis is the batch: a wrong one would mix samples, or end in a traceback."""
    kind, before, made = UNKNOWN[name]
    assert left_alone(canonical_views, typed({"x": before, "z": ()}, [("y", Onnx(kind), ["x", "z"], made)], ["y"]))


def test_views_of_integers_stay():
    """The accelerator has no integers of the model: every later pass takes a typed view for one of real values."""
    assert left_alone(canonical_views, untyped("g (int64[N,2,3] x) => (int64[N,6] y) { y = Flatten (x) }"))


STAYS = {
    "axes reversed": "g (float[1,2,3] x) => (float[3,2,1] y) { y = Transpose (x) }",
    "a constant's": "g (float[1,3,2] x) => (float[1,3,2] y) { c = Reshape (six, shape) y = Add (x, c) }",
    "batch spread": "g (float[1,6] x) => (float[3,2] y) { y = Reshape (x, to) }",
}


@pytest.mark.parametrize("name", STAYS)
def test_views_of_the_batch_stay(name):
    """The accelerator runs sample after sample, so none of its views may mix samples. A constant is no map."""
    constants = {"to": ints(3, 2), "six": (1, 6), "shape": ints(1, 3, 2)}
    assert left_alone(canonical_views, untyped(STAYS[name], constants))


def test_wrong_number_of_elements_is_named():
    """Wrong shapes from an exporter would end in numpy's words, without the node."""
    graph = untyped("g (float[N,2,3,4] x) => (float[N,24] y) { y = Flatten (x) }")
    wrong = {**graph.tensors, "y": Tensor((1, 23))}
    with pytest.raises(
        ModelError, match=r"node 'Flatten:y' \(Flatten\): it turns \[1, 2, 3, 4\], which has 24 elements, into \[1, 23\]"
    ):
        canonical_views(replace(graph, tensors=wrong))


def test_a_row_of_all_samples_stays():
    """Flatten from axis 0 joins the batch. As a Reshape that keeps the batch, it would answer two rows instead of one."""
    text = "g (float[N,2,3,4] x) => (float[1,?] y) { y = Flatten <axis=0> (x) }"
    assert left_alone(canonical_views, untyped(text))
