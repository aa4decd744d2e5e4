"""Multiply-accumulates of nodes of a float graph, of one image: what the CPU does where the accelerator does not."""

from math import prod

from cnna.compiler.graph.float_ops import Conv, Onnx
from cnna.compiler.graph.ir import Graph, Node


def float_macs(node: Node, graph: Graph) -> int:
    """Those of a convolution or matrix product; 0 for other operators, and where a shape is not known."""
    if isinstance(node.op, Conv):
        weights = graph.constants[node.op.weights].shape
        return prod(weights) * prod(graph.tensors[node.output].shape[2:])
    if not isinstance(node.op, Onnx) or node.op.domain:
        return 0
    out = _shape(graph, node.output)
    kind = node.op.kind.removesuffix("Integer").removeprefix("QLinear")
    if kind in ("Conv", "ConvTranspose"):
        weights = _shape(graph, node.inputs[3 if node.op.kind.startswith("QLinear") else 1])
        image = out if kind == "Conv" else _shape(graph, node.inputs[0])
        return prod(weights) * prod(image[2:]) if weights and image else 0
    if kind in ("Gemm", "MatMul"):
        first = _shape(graph, node.inputs[0])
        summed = first[0] if kind == "Gemm" and node.op.attributes.get("transA") else first[-1] if first else 0
        return prod(out) * summed if out else 0
    return 0


def _shape(graph: Graph, name: str) -> tuple[int, ...]:
    return graph.constants[name].shape if name in graph.constants else graph.tensors[name].shape
