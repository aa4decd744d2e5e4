"""The names of nodes in error messages: the name and operator that a node has in the user's model, wherever rewrites have taken it.

A pass or an import that makes several nodes out of one begins their names with its name and a colon. So the node that a rewritten
node came from can be found (`source_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


def node_name(node: NodeProto) -> str:
    """A node's name or, if it has none, its operator and its first output."""
    return node.name or f"{node.op_type}:{node.output[0]}"


def place_of(node: NodeProto) -> str:
    """A node as errors call it: by its name, or by its first output."""
    return f"node '{node.name or next(iter(node.output), '')}' ({node.op_type})"


def sources_of(model: ModelProto) -> dict[str, str]:
    """Every node's name and operator."""
    return {node_name(node): node.op_type for node in model.graph.node if node.output}


def source_of(name: str, sources: Mapping[str, str]) -> str | None:
    """The name of the node in `sources` from which the node `name` came; None if there is none."""
    while name not in sources:
        name, colon, _ = name.rpartition(":")
        if not colon:
            return None
    return name


def kind_of(node: Node) -> str:
    """The operator's name, as the model's author knows it."""
    return node.op.kind if isinstance(node.op, Onnx) else type(node.op).__name__


def kind_in(node: Node, graph: Graph) -> str:
    """The operator, as the model's author knows it, from which a node was made."""
    return graph.sources.get(source_of(node.name, graph.sources) or "", kind_of(node))


def place(node: Node, graph: Graph) -> str:
    """A node as the model's author knows it: its name and operator, or those of the node that it was made from."""
    source = source_of(node.name, graph.sources)
    return f"node '{node.name}' ({kind_of(node)})" if source is None else f"node '{source}' ({graph.sources[source]})"
