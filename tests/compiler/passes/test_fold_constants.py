"""Values that depend only on constants are computed, and the shapes that follow from them become known."""

import numpy as np
import pytest

from cnna.compiler.passes import fold_constants as module
from cnna.compiler.passes.fold_constants import fold_constants
from cnna.spec.errors import ModelError

from .alone import after, ints, kinds, left_alone, untyped


def test_computed_shapes_become_known():
    """PyTorch computes the target of a view from Shape: until it is folded, the Gemm's input has no known shape."""
    text = """g (float[N,3,4,4] x) => (float[N,5] y) {
        n = Shape (x)
        first = Gather <axis=0> (n, zero)
        one = Unsqueeze (first, axes)
        to = Concat <axis=0> (one, rest)
        v = Reshape (x, to)
        m = Shape (v)
        k = Gather <axis=0> (m, last)
        f = Cast <to=1> (k)
        d = Div (v, f)
        y = Gemm (d, w) }"""
    weights = {"zero": np.int64(0), "last": np.int64(1), "axes": ints(0), "rest": ints(-1), "w": (48, 5)}
    graph = fold_constants(untyped(text, weights))
    assert kinds(graph) == ["Reshape", "Div", "Gemm"]
    assert graph.tensors["v"].shape == (1, 48)
    assert graph.constants["f"] == 48


def test_values_are_the_evaluators():
    """A constant that an exporter writes as a small graph must be what ONNX computes for it."""
    text = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
        c = Constant <value_floats=[1.0, 2.0]> ()
        d = Exp (c)
        e = Reshape (d, to)
        y = Mul (x, e) }"""
    graph = after(fold_constants, untyped(text, {"to": ints(2, 1, 1)}))
    assert kinds(graph) == ["Mul"]
    np.testing.assert_allclose(graph.constants["e"].reshape(-1), np.exp([1, 2]), rtol=1e-6)


def test_sizes_of_some_axes_are_known():
    """PyTorch's newer exporter asks for one axis at a time; without it, most of a network with open sizes goes to the CPU."""
    text = """g (float[N,3,4,5] x) => (float[N,3,2,10] y) {
        n = Shape <end=1> (x)
        h = Shape <start=2, end=3> (x)
        none = Shape <start=3, end=2> (x)
        half = Div (h, two)
        c, rest = Split <axis=0> (sizes, parts)
        to = Concat <axis=0> (n, c, half, rest, none)
        z = Reshape (x, to)
        all = Size (x)
        count = Cast <to=1> (all)
        y = Div (z, count) }"""
    graph = fold_constants(untyped(text, {"two": ints(2), "sizes": ints(3, 10), "parts": ints(1, 1)}))
    assert kinds(graph) == ["Reshape", "Div"]
    assert graph.constants["to"].tolist() == [1, 3, 2, 10]
    assert graph.constants["count"] == 60


@pytest.mark.parametrize(("asked", "there"), [("<end=1>", False), ("<start=-1>", True), ("", True)])
def test_an_unknown_axis_is_not_taken_for_empty(asked, there):
    """A size that depends on the data is written as 0, and would become the size of a map."""
    text = f"""g (float[N,3] x) => (float[N,3] y) {{
        z = NonZero (x)
        n = Shape {asked} (z)
        f = Cast <to=1> (n)
        s = ReduceSum <keepdims=0> (f)
        y = Mul (x, s) }}"""
    assert ("Shape" in kinds(fold_constants(untyped(text)))) == there


def test_quantised_constants_stay():
    """Folded to floats, they would lose the scale that makes them int8."""
    text = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
        w = DequantizeLinear (q, s)
        y = Conv (x, w) }"""
    assert left_alone(fold_constants, untyped(text, {"q": np.ones((2, 2, 1, 1), np.int8), "s": np.float32(0.1)}))


def test_activations_stay():
    """Nothing in this graph is constant."""
    assert left_alone(fold_constants, untyped("g (float[N,2,3,3] x) => (float[N,2,3,3] y) { y = Exp (x) }"))


def test_what_makes_an_output_stays():
    """If a constant output, such as a table of anchors, were folded, no node would make it and the output would be gone."""
    text = """g (float[N,2,3,3] x) => (float[N,2,3,3] y, float[2] z) {
        y = Relu (x)
        z = Exp (c) }"""
    assert left_alone(fold_constants, untyped(text, {"c": (2,)}))


def test_constants_that_cannot_be_computed_are_named():
    """The evaluator raises whatever numpy does, without the node."""
    text = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
        e = Gather (c, far)
        y = Mul (x, e) }"""
    with pytest.raises(ModelError, match=r"node 'Gather:e' \(Gather\) has constant inputs but cannot be computed"):
        fold_constants(untyped(text, {"c": (2, 1), "far": np.int64(9)}))


def test_constants_that_are_too_large_are_named(monkeypatch):
    """A mistake in a ConstantOfShape would take all memory."""
    monkeypatch.setattr(module, "ELEMENTS_MAX", 8)
    text = "g (float[N,2,3,3] x) => (float[N,2,3,3] y) { e = Exp (c) y = Mul (x, e) }"
    with pytest.raises(ModelError, match=r"makes a constant of 9 elements, above 8; use smaller images"):
        fold_constants(untyped(text, {"c": (3, 3)}))
