"""Checks of nodes for which ONNX's own checker would name neither the node nor the remedy. `onnx_import.read` calls it.

They are: operators that ONNX does not have, attributes of a wrong type, tensors that nothing makes, and names that are made twice.
"""

from collections import Counter

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from cnna.compiler.graph.node_names import place_of
from cnna.spec.errors import ModelError


def check_nodes(model: ModelProto) -> None:
    """ModelError: a node cannot be what ONNX allows. The graphs inside nodes are left to ONNX's checker."""
    version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    for node in model.graph.node:
        if node.domain in ("", "ai.onnx"):
            _check_operator(node, version)
    _check_names(model.graph)


def _check_operator(node: NodeProto, version: int) -> None:
    if not onnx.defs.has(node.op_type, version):
        newer = onnx.defs.has(node.op_type) and onnx.defs.get_schema(node.op_type).since_version
        remedy = f"export the model with opset {newer} or above" if newer else "replace it by operators that ONNX has"
        raise ModelError(f"{place_of(node)}: opset {version} of ONNX has no such operator; {remedy}")
    known = onnx.defs.get_schema(node.op_type, version).attributes
    for entry in node.attribute:
        wanted = _type(known[entry.name].type) if entry.name in known else entry.type
        if entry.type != wanted and not entry.ref_attr_name:
            types = [AttributeProto.AttributeType.Name(kind) for kind in (entry.type, wanted)]
            raise ModelError(
                f"{place_of(node)}: attribute '{entry.name}' has the type {types[0]}, not {types[1]}; export the model again"
            )


def _check_names(graph: GraphProto) -> None:
    inputs = Counter(value.name for value in graph.input)
    if twice := [name for name, count in inputs.items() if count > 1]:
        raise ModelError(f"two inputs are called '{twice[0]}'; rename one of them")
    made = {*inputs, *(tensor.name for tensor in graph.initializer), *(one.values.name for one in graph.sparse_initializer)}
    known = made.union(*(node.output for node in graph.node))
    for node in graph.node:
        if missing := [name for name in node.input if name and name not in known]:
            raise ModelError(f"{place_of(node)}: it reads '{missing[0]}', which nothing makes; export the model again")
        if again := [name for name in node.output if name and name in made]:
            raise ModelError(f"{place_of(node)}: it makes '{again[0]}', which is made before already; rename one of them")
        made.update(node.output)


def _type(kind: object) -> int:
    """A schema's type of an attribute, `AttrType.INTS`, as nodes have it."""
    return AttributeProto.AttributeType.Value(str(kind).rpartition(".")[2])
