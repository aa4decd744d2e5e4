"""Graphs written as ONNX are sound to onnxruntime, whatever passes have done to them."""

import numpy as np
import onnx
import onnxruntime
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.graph.float_ops import Conv, Transpose
from cnna.compiler.graph.ir import Graph, Node, Tensor, Window


def test_nodes_of_one_name_are_told_apart() -> None:
    """Passes make several nodes of one and name them after it: onnxruntime would refuse a model with one name twice."""
    shape = (1, 2, 3, 4)
    nodes = tuple(Node("twin", Transpose((0, 1, 2, 3)), (a,), b) for a, b in (("x", "a"), ("a", "b"), ("b", "y")))
    graph = Graph("twins", ("x",), ("y",), nodes, {name: Tensor(shape) for name in "xaby"})
    model = to_model(graph)
    assert len({node.name for node in model.graph.node}) == len(nodes)
    x = np.arange(24, dtype=np.float32).reshape(shape)
    assert np.array_equal(onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0], x)


def test_shapes_are_inferred_without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inference writes its model as a string and reads it again: with weights, that took most of the quantiser's memory."""
    infer, sizes = onnx.shape_inference.infer_shapes, []

    def seen(model: onnx.ModelProto) -> onnx.ModelProto:
        sizes.append(model.ByteSize())
        return infer(model)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", seen)
    op = Conv(Window(), 1, "w", "b")
    constants = {"w": np.ones((64, 64, 1, 1), np.float32), "b": np.zeros(64, np.float32)}
    tensors = {name: Tensor((1, 64, 5, 7)) for name in "xy"}
    model = to_model(Graph("net", ("x",), ("y",), (Node("conv", op, ("x",), "y"),), tensors, constants))
    assert model.ByteSize() > 4 * 64 * 64 > 8 * sizes[0] > 0
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim][1:] == [64, 5, 7]
