"""A Split becomes Slices."""

import numpy as np

from cnna.compiler.graph.float_ops import Clip, Onnx
from cnna.compiler.passes.canonical.split_slices import split_slices
from cnna.compiler.passes.fold_constants import fold_constants

from ..alone import after, ints, kinds, left_alone, typed, untyped


def test_every_output_that_is_read_gets_a_slice():
    """Parts of unequal size, a part that nobody reads, or an axis counted from the end would go wrong."""
    text = """g (float[N,7,4,5] x) => (float[N,2,4,5] y, float[N,2,2,5] z) {
        y, b, c = Split <axis=-3> (x, parts) d = Relu (c) z, e = Split <axis=2> (d, halves) }"""
    graph = after(split_slices, fold_constants(untyped(text, {"parts": ints(2, 3, 2), "halves": ints(2, 2)}, 13)), 0)
    assert kinds(graph) == ["Slice", "Slice", "Relu", "Slice"]


def test_splits_of_other_domains_and_without_names_stay():
    """Another domain's Split may part anything, and an output without a name has no size to count."""
    for op in (Onnx("Split", {"axis": 1}, "com.example"), Onnx("Split", {"axis": 1}, more_outputs=("",))):
        graph = typed({"x": (1, 4, 2, 2)}, [("y", op, ["x", "parts"], (1, 4, 2, 2))], ["y"], {"parts": ints(4)})
        assert left_alone(split_slices, graph)


def test_typed_operators_stay():
    """They have no kind that could be asked for."""
    assert left_alone(split_slices, typed({"x": (1, 4, 2, 2)}, [("y", Clip(0.0), ["x"], (1, 4, 2, 2))], ["y"]))


def test_a_split_of_unknown_parts_stays():
    """A part of unknown size cannot be written as numbers."""
    graph = typed({"x": (1, 4, 2, 2)}, [("y", Onnx("Split", {"axis": 1}), ["x", "parts"], ())], ["y"], {"parts": np.array([4])})
    assert left_alone(split_slices, graph)


def test_a_split_of_unknown_shape_stays():
    """Behind a computed Reshape no shape is known: the pass would ask for the least of no sizes."""
    graph = typed({"x": ()}, [("y", Onnx("Split", {"axis": 0}), ["x", "parts"], ())], ["y"], {"parts": np.array([4])})
    assert left_alone(split_slices, graph)
