"""Products of a vector and a constant matrix become 1x1 convolutions."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.passes.canonical.canonical_gemm import canonical_gemm
from cnna.spec.errors import ModelError

from ..alone import after, kinds, left_alone, only, untyped

CASES = {
    "MatMul": ("MatMul (x, w)", {"w": (6, 4)}),
    "Gemm": ("Gemm (x, w, b)", {"w": (6, 4), "b": (4,)}),
    "transB": ("Gemm <transB=1> (x, w, b)", {"w": (4, 6), "b": (4,)}),
    "alpha and beta": ("Gemm <transB=1, alpha=0.5, beta=2.0> (x, w, b)", {"w": (4, 6), "b": (4,)}),
    "negative alpha": ("Gemm <alpha=-0.5> (x, w)", {"w": (6, 4)}),
    "one offset": ("Gemm (x, w, b)", {"w": (6, 4), "b": np.float32(0.3)}),
    "an offset a row": ("Gemm (x, w, b)", {"w": (6, 4), "b": np.full((2, 4), 0.3, np.float32)}),
}


@pytest.mark.parametrize("name", CASES)
def test_becomes_a_convolution(name):
    """A lost factor, or a matrix that is not transposed, would give other sums."""
    node, weights = CASES[name]
    rows = 2 if name == "an offset a row" else "N"
    graph = after(canonical_gemm, untyped(f"g (float[{rows},6] x) => (float[{rows},4] y) {{ y = {node} }}", weights))
    assert kinds(graph) == ["Reshape", "Conv", "Reshape"]
    assert graph.constants[only(graph, Conv).op.weights].shape == (4, 6, 1, 1)


STAYS = {
    "computed matrix": ("g (float[1,6] x, float[1,6,4] z) => (float[1,1,4] y) { y = MatMul (x, z) }", {}),
    "computed offset": ("g (float[1,6] x, float[1,4] z) => (float[1,4] y) { y = Gemm (x, w, z) }", {"w": (6, 4)}),
    "matrix of three axes": ("g (float[1,6] x) => (float[1,1,4] y) { y = MatMul (x, w) }", {"w": (1, 6, 4)}),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """None of these is a convolution of a 1x1 map with constants."""
    assert left_alone(canonical_gemm, untyped(*STAYS[name]))


@pytest.mark.parametrize("shape", ["3,6", "2,3,6", "2,3,2,6"])
def test_tokens_are_pixels(shape):
    """Every vector of a sequence or of an NHWC map meets the same matrix: a 1x1 convolution of the map in the other layout."""
    text = f"g (float[N,{shape}] x) => (float[N,{shape[:-1]}4] y) {{ y = MatMul (x, w) }}"
    found = kinds(after(canonical_gemm, untyped(text, {"w": (6, 4)})))
    assert [kind for kind in found if kind != "Reshape"] == ["Transpose", "Conv", "Transpose"]


def test_turned_activations_stay():
    """A sample would become a column of the map."""
    graph = untyped("g (float[N,6] x) => (float[N,4] y) { y = Gemm (x, w) }", {"w": (6, 4)})
    (node,) = graph.nodes
    turned = replace(node, op=replace(node.op, attributes={**node.op.attributes, "transA": 1}))
    assert left_alone(canonical_gemm, replace(graph, nodes=(turned,)))


def test_offset_that_differs_between_samples_is_named():
    """The accelerator has one bias for all samples of a batch."""
    text = "g (float[2,6] x) => (float[2,4] y) { y = Gemm (x, w, b) }"
    with pytest.raises(ModelError, match=r"node 'Gemm:y' \(Gemm\): its C has shape \(2, 4\) and differs between the samples"):
        canonical_gemm(untyped(text, {"w": (6, 4), "b": (2, 4)}))


@pytest.mark.parametrize("shape", [(1, 1, 4), (3,), (0, 4)])
def test_offset_that_does_not_fit_is_named(shape):
    """numpy would broadcast one of the shapes, and for the other give an error without the node."""
    graph = untyped("g (float[N,6] x) => (float[N,4] y) { y = Gemm (x, w, b) }", {"w": (6, 4), "b": (4,)})
    with pytest.raises(ModelError, match=r"third input has shape .*; it must be \[4\], one value per output"):
        canonical_gemm(replace(graph, constants={**graph.constants, "b": np.zeros(shape, np.float32)}))
