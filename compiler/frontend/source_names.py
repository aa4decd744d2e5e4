"""What the user's model calls the node that a rewritten one came from: errors name nodes that the user can find.

Whatever makes nodes out of one (a pass, an import) lets their names begin with its name and a colon.
"""

from collections.abc import Mapping

from onnx import ModelProto, NodeProto


def node_name(node: NodeProto) -> str:
    """A node's name; of one without, its operator and its first output."""
    return node.name or f"{node.op_type}:{node.output[0]}"


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
