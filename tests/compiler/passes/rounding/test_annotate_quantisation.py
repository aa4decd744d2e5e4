"""A rounding becomes a property of the tensor that is rounded."""

import numpy as np

from cnna.compiler.graph.float_ops import Clip, Requantise
from cnna.compiler.graph.ir import Quant
from cnna.compiler.passes.rounding.annotate_quantisation import annotate_quantisation
from cnna.compiler.passes.rounding.pair_quantisation import pair_quantisation

from ..alone import after, kinds, typed, untyped

SHAPE = (1, 2, 3, 3)
COARSE, FINE = Quant(0.1, 3), Quant(0.02, -5)


def test_rounding_becomes_the_tensors():
    """The roundings of the input and behind the Clip: each operator must know them, and each must be done once."""
    nodes = [("a", Requantise(FINE), ["x"], SHAPE), ("b", Clip(0.0), ["a"], SHAPE), ("y", Requantise(COARSE), ["b"], SHAPE)]
    graph = after(annotate_quantisation, typed({"x": SHAPE}, nodes, ["y"]))
    assert kinds(graph) == ["Clip"]
    assert (graph.tensors["x"].quant, graph.tensors["y"].quant) == (FINE, COARSE)


def test_copy_of_a_rounded_tensor_stays():
    """The second rounding is coarser: without the copy, its readers would see finer values."""
    nodes = [("a", Clip(0.0), ["x"], SHAPE), ("y", Requantise(COARSE), ["a"], SHAPE)]
    graph = after(annotate_quantisation, typed({"x": SHAPE}, nodes, ["y"], quants={"x": FINE, "a": FINE}))
    assert kinds(graph) == ["Clip", "Requantise"]
    assert (graph.tensors["a"].quant, graph.tensors["y"].quant) == (FINE, COARSE)


def test_rounding_of_a_shared_tensor_stays():
    """The other reader sees the float, which a quantisation of the tensor would round too."""
    nodes = [("a", Clip(0.0), ["x"], SHAPE), ("y", Requantise(COARSE), ["a"], SHAPE), ("z", Clip(-1.0, 1.0), ["a"], SHAPE)]
    graph = after(annotate_quantisation, typed({"x": SHAPE}, nodes, ["y", "z"]))
    assert kinds(graph) == ["Clip", "Requantise", "Clip"]
    assert graph.tensors["a"].quant is None


def test_rounding_of_a_second_output_stays():
    """An ONNX node with two outputs is written as it is, so the rounding of its second output would have no place."""
    text = """g (float[N,2,3,3] x) => (float[N,1,3,3] y, float[N,1,3,3] z) {
        z, b = Split <axis=1, num_outputs=2> (x)
        q = QuantizeLinear (b, s, o)
        y = DequantizeLinear (q, s, o)}"""
    graph = pair_quantisation(untyped(text, {"s": np.float32(0.1), "o": np.int8(3)}))
    graph = after(annotate_quantisation, graph)
    assert kinds(graph) == ["Split", "Requantise"]
    assert graph.tensors["b"].quant is None
