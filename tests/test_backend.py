"""`cnna.backend`: the interface that the onnx package's runner and other programs call."""

import unittest
from collections.abc import Sequence
from typing import Any, cast

import conformance
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.base import Backend
from onnx.backend.test.runner import Runner

import cnna.backend as backend
from cnna.host.model.model import Model
from cnna.spec.errors import DataError, ModelError

from . import qdq_networks

X = np.random.default_rng(1).normal(size=(2, 3, 6, 6)).astype(np.float32)
W = np.random.default_rng(2).normal(size=(4, 3, 3, 3)).astype(np.float32)


def conv() -> onnx.ModelProto:
    """One convolution with its weights inside."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    values[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 6, 6])
    graph = helper.make_graph([node], "conv", values[:1], values[1:], [onnx.numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


class SteppedRunner(Runner):
    """The package's runner, which compares answers in quantisation steps."""

    @classmethod
    def assert_similar_outputs(
        cls, ref_outputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float, model_dir: str | None = None
    ) -> None:
        """Compares within the steps that docs/operators.md states."""
        for want, have in zip(ref_outputs, outputs, strict=True):
            assert want.dtype == have.dtype
            assert conformance.steps_off(want, have) <= conformance.NODE_STEPS


def test_the_packages_own_runner_passes_convolutions_and_pools() -> None:
    """onnx's suites reach this backend through this runner, which would find a different signature."""
    module = cast(type[Backend], backend)  # onnx's annotation asks for a class, its runner for four functions
    runner = SteppedRunner(module).include(r"^test_(Conv2d|MaxPool2d|averagepool_2d_pads|Conv1d_stride)_cpu$")
    suite = unittest.TestSuite(case for case in runner.test_suite if not _is_skipped(case))
    assert suite.countTestCases() == 4
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun == 4
    assert not result.errors + result.failures, result.errors + result.failures


def _is_skipped(case: Any) -> bool:
    return bool(getattr(getattr(case, case._testMethodName), "__unittest_skip__", False))


def test_model_and_node_give_the_answer_of_the_float_model() -> None:
    """Inputs in the wrong order, or a batch that is cut or joined wrongly, would give other values."""
    (want,) = onnx.reference.ReferenceEvaluator(conv()).run(None, {"x": X})
    (by_model,) = backend.run_model(conv(), [X])
    (by_name,) = backend.run_model(conv(), {"x": X}, execution="reference")
    assert conformance.steps_off(want, by_model) <= conformance.NODE_STEPS
    assert np.array_equal(by_model, by_name)
    (relu,) = backend.run_node(helper.make_node("Relu", ["a"], ["b"]), [X])
    assert conformance.steps_off(np.maximum(X, 0), relu) <= 1
    (older,) = backend.run_node(helper.make_node("Relu", ["a"], ["b"]), [X], outputs_info=[(X.dtype, X.shape)], opset_version=13)
    assert np.array_equal(relu, older)


def test_inputs_without_a_batch_are_given_as_the_model_has_them() -> None:
    """The runner knows no samples: an image of three axes, or a number, is one whole input."""
    x, factor = X[0], np.array(3, np.float32)
    node = helper.make_node("Mul", ["a", "b"], ["c"])
    (got,) = backend.run_node(node, [x, factor])
    assert got.shape == x.shape
    assert conformance.steps_off(x * factor, got) <= 1


def test_the_first_inputs_calibrate_and_the_model_is_compiled_once() -> None:
    """If scales changed from run to run, answers would depend on the order of questions."""
    prepared = backend.prepare(conv())
    with pytest.raises(DataError, match="has not run yet"):
        _ = prepared.placement
    first = prepared.run([X])
    artifact = prepared.artifact
    prepared.run([X * 100])
    assert prepared.artifact is artifact
    assert np.array_equal(prepared.run([X])[0], first[0])
    assert prepared.placement == backend.Placement(1, W.size * 16, 0, ())
    assert prepared.placement.accelerated


def test_a_quantised_model_stays_as_it_is() -> None:
    """A second quantisation would round twice."""
    model = qdq_networks.model(3)
    x = qdq_networks.images(model, 2, 3)
    prepared = backend.prepare(model, execution="reference")
    answers = prepared.run(x)
    assert prepared.artifact is not None
    with Model(prepared.artifact, "emulator") as same:
        assert all(np.array_equal(y, z) for y, z in zip(answers, same.run(x).values(), strict=True))
    assert backend.runs_as_it_is(model)
    assert not backend.runs_as_it_is(conv())


def test_mistakes_are_user_errors() -> None:
    """A caller tells a model that does not run from a fault of ours by the error's class."""
    with pytest.raises(DataError, match="2 arrays were given"):
        backend.run_model(conv(), [X, X])
    with pytest.raises(DataError, match="no configuration 'huge'"):
        backend.prepare(conv(), config="huge")
    with pytest.raises(ModelError):
        backend.prepare(onnx.ModelProto())
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")


def test_weights_that_come_as_an_input_are_constants_until_others_come() -> None:
    """onnx's own cases give weights as inputs: left to the CPU, no convolution of the suite would run on the accelerator."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", X.shape), ("w", W.shape))]
    answer = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "conv", values, [answer])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    prepared, reference = backend.prepare(model), onnx.reference.ReferenceEvaluator(model)
    for weights in (W, 2 * W):
        (want,) = reference.run(None, {"x": X, "w": weights})
        (have,) = prepared.run([X, weights])
        assert conformance.steps_off(want, have) <= conformance.NODE_STEPS
        assert prepared.placement.accelerated


def test_answers_have_the_models_float_type() -> None:
    """Answers are computed in float32: a caller that declared float64 would find another type."""
    (answer,) = backend.run_node(helper.make_node("Relu", ["a"], ["b"]), [X.astype(np.float64)])
    assert answer.dtype == np.float64


def cut_rows(first: int, last: int) -> onnx.ModelProto:
    """Rows of a map of ten, and as many outputs of it as a model would declare."""
    shape = (2, max(last - first, 0), 5)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", (2, 10, 5)), ("y", shape))]
    numbers = [onnx.numpy_helper.from_array(np.array([at]), name) for name, at in (("first", first), ("last", last), ("rows", 1))]
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "first", "last", "rows"], ["y"])], "cut", [values[0]], [values[1]], numbers
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("first", [9, 10, 1000])
def test_an_output_without_elements_is_one_answer(first: int) -> None:
    """Each sample has an empty answer of its own, and the model's answer to all of them would be refused as if they differed."""
    x = X.reshape(-1)[:100].reshape(2, 10, 5)
    model = cut_rows(first, 10)
    (want,) = map(np.asarray, onnx.reference.ReferenceEvaluator(model).run(None, {"x": x}))
    (have,) = backend.run_model(model, [x])
    assert (have.shape, have.dtype) == (want.shape, want.dtype)
    assert conformance.steps_off(want, have) <= conformance.NODE_STEPS


def test_answers_of_sizes_that_differ_are_refused() -> None:
    """They cannot be one array; filled up or cut, they would be wrong."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    found = helper.make_tensor_value_info("y", TensorProto.INT64, [2, None])
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "places", [value], [found])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(DataError, match="'y' has a size of its own for each of the 2 samples"):
        backend.run_model(model, [np.eye(2, 3, dtype=np.float32)])
