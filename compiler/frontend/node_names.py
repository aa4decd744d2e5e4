"""What errors call a node: the name and operator that it has in the user's model, wherever a rewrite has brought it.

Whatever makes several nodes out of one (a pass, an import) lets their names begin with its name and a colon; so the node that a
rewritten one came from can be found (`source_of`).
"""

from collections.abc import Mapping

from onnx import ModelProto, NodeProto

from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node


def node_name(node: NodeProto) -> str:
    """A node's name; of one without, its operator and its first output."""
    return node.name or f"{node.op_type}:{node.output[0]}"


def place_of(node: NodeProto) -> str:
    """What errors call a node: its name, or its first output."""
    return f"node '{node.name or next(iter(node.output), '')}' ({node.op_type})"


def sources_of(model: ModelProto) -> dict[str, str]:
    """Every node's name and operator."""
    return {node_name(node): node.op_type for node in model.graph.node if node.output}


def source_of(name: str, sources: Mapping[str, str]) -> str | None:
    """The name of the node in `sources` from which the one called `name` came; None where there is none."""
    while name not in sources:
        name, colon, _ = name.rpartition(":")
        if not colon:
            return None
    return name


def kind_of(node: Node) -> str:
    """What the model's author calls the operator."""
    return node.op.kind if isinstance(node.op, Onnx) else type(node.op).__name__


def kind_in(node: Node, graph: Graph) -> str:
    """What the model's author calls the operator that a node was made from."""
    return graph.sources.get(source_of(node.name, graph.sources) or "", kind_of(node))


def place(node: Node, graph: Graph) -> str:
    """What the model's author calls a node: its name and operator, or those of the node it was made from."""
    source = source_of(node.name, graph.sources)
    return f"node '{node.name}' ({kind_of(node)})" if source is None else f"node '{source}' ({graph.sources[source]})"
