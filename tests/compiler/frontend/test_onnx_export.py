"""Graphs written as ONNX are sound to onnxruntime, whatever passes have done to them."""

import numpy as np
import onnxruntime

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.graph.float_ops import Transpose
from cnna.compiler.graph.ir import Graph, Node, Tensor


def test_nodes_of_one_name_are_told_apart() -> None:
    """Passes make several nodes of one and name them after it: onnxruntime would refuse a model with one name twice."""
    shape = (1, 2, 3, 4)
    nodes = tuple(Node("twin", Transpose((0, 1, 2, 3)), (a,), b) for a, b in (("x", "a"), ("a", "b"), ("b", "y")))
    graph = Graph("twins", ("x",), ("y",), nodes, {name: Tensor(shape) for name in "xaby"})
    model = to_model(graph)
    assert len({node.name for node in model.graph.node}) == len(nodes)
    x = np.arange(24, dtype=np.float32).reshape(shape)
    assert np.array_equal(onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0], x)
