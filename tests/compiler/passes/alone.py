"""Runs one pass alone on a small graph, and asks ONNX's reference evaluator whether the graph still computes the same."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx.reference import ReferenceEvaluator

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import AnyNode, AnyOperator, Graph, Node, Quant, Tensor
from cnna.compiler.graph.node_names import kind_of
from cnna.compiler.graph.validate import validate
from cnna.compiler.passes.pipeline import Pass

from ..written import Shapes, images, written

OPSET = 19  # the oldest whose Q and DQ the reference evaluator knows
Shape = tuple[int, ...]
Made = tuple[str, AnyOperator, Sequence[str], Shape]  # output, operator, inputs, the output's shape


def typed(
    inputs: Mapping[str, Shape],
    nodes: Sequence[Made],
    outputs: Sequence[str],
    constants: Mapping[str, Shape | np.ndarray] | None = None,
    quants: Mapping[str, Quant] | None = None,
) -> Graph:
    """A graph of typed operators. Each node has its output's name; constants are arrays, or shapes of seeded normal arrays."""
    rng, quants = np.random.default_rng(1), quants or {}
    values = {n: rng.normal(0, 1, v).astype(np.float32) if isinstance(v, tuple) else v for n, v in (constants or {}).items()}
    shapes = {**inputs, **{output: shape for output, _, _, shape in nodes}}
    tensors = {name: Tensor(shape, quants.get(name)) for name, shape in shapes.items()}
    made: tuple[AnyNode, ...] = tuple(Node(output, op, tuple(read), output) for output, op, read, _ in nodes)
    graph = Graph("small", tuple(inputs), tuple(outputs), made, tensors, values, OPSET)
    validate(graph)
    return graph


def untyped(text: str, weights: Shapes | None = None, opset: int = OPSET) -> Graph:
    """The graph of a model in ONNX's text form; every operator is the model's own."""
    return to_graph(written(text, weights, opset))


def computed(graph: Graph) -> list[np.ndarray]:
    """What ONNX's reference evaluator answers for two seeded samples."""
    model = to_model(graph)
    found = ReferenceEvaluator(model).run(None, images(model, count=2))
    assert isinstance(found, list)
    return found


def check_described(graph: Graph) -> None:
    """AssertionError: one sample of a tensor has another shape than the graph says. Whoever places that tensor would go wrong."""
    made = [name for node in graph.nodes for name in outputs_of(node) if name and graph.tensors[name].shape]
    model = to_model(graph, extra_outputs=made)
    values = ReferenceEvaluator(model).run(None, images(model, count=1))
    for name, value in zip(dict.fromkeys((*graph.outputs, *made)), values, strict=True):
        described = graph.tensors[name].shape
        fits = len(described) == value.ndim and all(size in (0, real) for size, real in zip(described, value.shape, strict=False))
        assert fits or not described, f"'{name}' has shape {value.shape}; the graph says {described}"


def after(one: Pass, graph: Graph, tolerance: float = 1e-5) -> Graph:
    """The sound graph that a pass makes of another.

    AssertionError: it has other inputs or outputs, computes something else, or describes a tensor by a wrong shape.
    """
    changed = one(graph)
    validate(changed)
    check_described(changed)
    assert (changed.inputs, changed.outputs) == (graph.inputs, graph.outputs)
    for got, expected in zip(computed(changed), computed(graph), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    return changed


def left_alone(one: Pass, graph: Graph) -> bool:
    """Whether a pass returns the graph that it was given."""
    same = one(graph)
    return (same.nodes, same.tensors, {*same.constants}) == (graph.nodes, graph.tensors, {*graph.constants})


def kinds(graph: Graph) -> list[str]:
    """The operators in order."""
    return [kind_of(node) for node in graph.nodes]


def only(graph: Graph, kind: type) -> Node:
    """The only node of that operator."""
    (found,) = [node for node in graph.nodes if isinstance(node.op, kind)]
    return found


def ints(*values: int) -> np.ndarray:
    """A constant of the type that ONNX uses for shapes and axes."""
    return np.array(values, np.int64)
