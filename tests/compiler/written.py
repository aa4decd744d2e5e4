"""ONNX models that tests write as text, with seeded weights, and onnxruntime's answers for them."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
from onnx import ModelProto, numpy_helper

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, to_graph
from cnna.compiler.graph.ir import Graph
from cnna.compiler.graph.node_names import kind_of
from cnna.compiler.passes.pipeline import REWRITES, run_passes

Constant = Sequence[int] | np.ndarray | np.generic
Shapes = Mapping[str, Constant]


def written(text: str, weights: Shapes | None = None, opset: int = 17, seed: int = 1) -> ModelProto:
    """The model of a graph in ONNX's text form. `weights`: arrays, or shapes of seeded normal arrays ("var*": positive)."""
    rng = np.random.default_rng(seed)
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> {text}')
    for name, value in (weights or {}).items():
        if not isinstance(value, np.ndarray | np.generic):
            fan_in = max(1, int(np.prod(value[1:])))
            value = (rng.normal(0, 1 / np.sqrt(fan_in), value) if len(value) > 1 else rng.normal(0, 0.5, value)).astype(np.float32)
            value = np.abs(value) + np.float32(0.5) if name.startswith("var") else value
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def silu(made: str, read: str) -> str:
    """The text of `made`, SiLU of `read`, in the two nodes that exporters write."""
    return f"{made}_s = Sigmoid ({read}) {made} = Mul ({read}, {made}_s)"


def images(model: ModelProto, count: int = 3, seed: int = 2) -> dict[str, np.ndarray]:
    """Seeded normal float32 for each input of a model with a free batch axis."""
    rng = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        found[value.name] = rng.normal(0, 1, (sizes[0] or count, *sizes[1:])).astype(np.float32)
    return found


def answers(model: ModelProto, feeds: Mapping[str, np.ndarray], optimised: bool = False) -> list[np.ndarray]:
    """onnxruntime's outputs; graph optimisation is off unless asked for."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def rewritten(model: ModelProto) -> tuple[Graph, list[str]]:
    """The float graph after every rewrite, and its operators in order. Checks that it still computes the same."""
    graph = run_passes(to_graph(load_model(model.SerializeToString())), REWRITES)
    feeds = images(model)
    for got, expected in zip(answers(to_model(graph), feeds), answers(model, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    return graph, [kind_of(node) for node in graph.nodes]
