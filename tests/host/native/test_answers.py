"""Softmax, arg-max and top-k: natively and in numpy, bit for bit."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from cnna.host.native import answers, library
from cnna.spec import cpu_ops

from .cases import score_rows


def test_softmax_gives_numpys_bits():
    """A board without the library would answer other shares than one with it."""
    for x in score_rows(200, seed=1):
        assert np.array_equal(answers.softmax(x), cpu_ops.softmax(x), equal_nan=True)
        assert np.array_equal(answers.softmax(x, 0), cpu_ops.softmax(x, 0), equal_nan=True)


def test_a_piece_on_the_cpu_has_the_same_bits_without_the_library(monkeypatch: pytest.MonkeyPatch):
    """Where onnxruntime is installed and the library is not, onnxruntime computed the softmax, and its last bit was another one."""
    x = np.random.default_rng(5).normal(0, 3, (1, 18)).astype(np.float32)
    given, made = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape)] for name in "xy")
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "piece", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    entry: Any = {"op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attributes": {"axis": -1}, "constants": {}}
    for there in (True, False):
        if not there:
            monkeypatch.setattr(library, "native", lambda: library.Found(None, "a test"))
        part = cpu_ops.CpuPart(model, [entry], ["y"], quick=answers.quick())
        assert np.array_equal(part.run({"x": x})["y"], cpu_ops.softmax(x))


def test_softmax_is_what_its_formula_says():
    """Both forms could share a wrong constant. 2^-18 is what a float32 difference of scores of 100 leaves open."""
    for x in score_rows(200, seed=2):
        if np.isfinite(x).all():
            power = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
            assert np.allclose(answers.softmax(x), power / power.sum(-1, keepdims=True), rtol=2**-17, atol=1e-37)


def test_the_greatest_are_numpys():
    """Ties, NaN and infinity in another order would be other classes."""
    rng = np.random.default_rng(3)
    for x in score_rows(200, seed=3):
        assert np.array_equal(answers.argmax(x), x.argmax(-1))
        for k in {0, 1, min(5, x.shape[1]), int(rng.integers(x.shape[1] + 1)), x.shape[1]}:
            for found, wanted in zip(answers.top_k(x, k), cpu_ops.top_k(x, k), strict=True):
                assert np.array_equal(found, wanted, equal_nan=True)


def test_the_axis_may_be_any():
    """Scores of a map lie along its first axis but one."""
    x = np.random.default_rng(4).normal(size=(2, 5, 3, 4)).astype(np.float32)
    assert np.array_equal(answers.argmax(x, 1), x.argmax(1))
    for found, wanted in zip(answers.top_k(x, 2, 1), cpu_ops.top_k(x, 2, 1), strict=True):
        assert np.array_equal(found, wanted)


def test_more_than_there_are_is_refused():
    """The library would read beyond the row."""
    with pytest.raises(ValueError, match="a top-k of 6 of 5 values"):
        answers.top_k(np.zeros((1, 5), np.float32), 6)
