"""Other models in onnxruntime: which tensors they show, and what they are fed."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnna.compiler.frontend.other_model import OtherModel
from cnna.spec.errors import DataError, ModelError


def model(shape: list[int | str], kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """y = rounded(-x) + rounded(-x), where `negative` is rounded to steps of 1."""
    nodes = [
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("QuantizeLinear", ["negative", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["rounded"]),
        helper.make_node("Add", ["rounded", "rounded"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name in ("x", "y")]
    constants = [
        numpy_helper.from_array(np.array(1, helper.tensor_dtype_to_np_dtype(kind)), "scale"),
        numpy_helper.from_array(np.array(0, np.int8), "zero"),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


X = np.array([[0.75, -2.25]], np.float32)


def test_tensors_are_seen_as_all_who_read_them_see_them() -> None:
    """A tensor before its rounding has values that no int8 has, so every clip would look like a fault of the import."""
    found = OtherModel(model([1, 2]), "m", {"negative", "nowhere", "x"}).run({"x": X})
    assert found.keys() == {"y", "negative"}
    assert np.array_equal(found["negative"], [[-1, 2]])
    assert np.array_equal(found["y"], [[-2, 4]])


@pytest.mark.parametrize(
    ("shape", "kind"), [(["n", 2], TensorProto.FLOAT), ([3, 2], TensorProto.FLOAT), ([1, 2], TensorProto.FLOAT16)]
)
def test_a_sample_is_fed_as_the_model_wants_it(shape: list[int | str], kind: int) -> None:
    """A model exported for a batch of three or of any size, or with other floats, could not be fed."""
    found = OtherModel(model(shape, kind), "m", ()).run({"other": X})
    assert np.array_equal(found["y"], [[-2, 4]])


def test_a_model_without_a_batch() -> None:
    """The one axis of its input would be taken for the samples."""
    assert np.array_equal(OtherModel(model([2]), "m", ()).run({"x": X})["y"], [-2, 4])


def test_what_does_not_fit_is_said() -> None:
    """The line would lack the model's name. The name of a single input does not matter."""
    other = OtherModel(model([1, 2]), "m.onnx", ())
    other.check_inputs(["image"])
    with pytest.raises(DataError, match=r"m.onnx: not the same model: the .cnna has inputs a, b; missing: a, b; unknown: x"):
        other.check_inputs(["a", "b"])
    with pytest.raises(ModelError, match=r"m.onnx: onnxruntime cannot run it"):
        other.run({"x": np.zeros((1, 5), np.float32)})
    broken = model([1, 2])
    broken.graph.node[0].op_type = "Nonsense"
    with pytest.raises(ModelError, match=r"m.onnx: onnxruntime cannot run it"):
        OtherModel(broken, "m.onnx", ())


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_an_input_may_be_a_single_number(kind: int) -> None:
    """numpy takes a single number out of an array as no array, which onnxruntime does not take."""
    found = OtherModel(model([], kind), "m", {"negative"}).run({"x": np.array([2.25], np.float32)})
    assert np.array_equal(found["y"], np.array(-4))
