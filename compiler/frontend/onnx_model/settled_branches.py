"""Puts the branch that is taken in place of each If whose condition is known, such as whether an axis has the size 1.

`source_model` calls it. PyTorch's older exporter writes such an If for a `squeeze` of a size that it leaves open.
"""

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.computed_sizes import with_sizes
from cnna.compiler.frontend.onnx_model.subgraphs import rename
from cnna.compiler.graph.node_names import node_name


def settle_branches(model: ModelProto) -> bool:
    """Works in place. Whether there was such an If. A branch's nodes bear the If's name, a colon and their own."""
    changed = False
    while any(_is_if(node) for node in model.graph.node):
        conditions = _conditions(with_sizes(model))
        if not any(_is_if(node) and node.input[0] in conditions for node in model.graph.node):
            break
        nodes: list[NodeProto] = []
        for node in model.graph.node:
            known = _is_if(node) and node.input[0] in conditions
            nodes += _branch(node, conditions[node.input[0]], model.graph) if known else [node]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        changed = True
    return changed


def _is_if(node: NodeProto) -> bool:
    return bool(node.op_type == "If" and node.domain in ("", "ai.onnx"))


def _conditions(model: ModelProto) -> dict[str, bool]:
    """Every single truth value that is known."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    found = {}
    for name, tensor in tensors.items():
        if helper.tensor_dtype_to_np_dtype(tensor.data_type) == np.bool_ and np.prod(tensor.dims) == 1:
            found[name] = bool(numpy_helper.to_array(tensor).reshape(-1)[0])
    return found


def _branch(node: NodeProto, taken: bool, graph: GraphProto) -> list[NodeProto]:
    """The nodes of a branch, whose outputs have the names of the If's."""
    (branch,) = [entry.g for entry in node.attribute if entry.name == ("then_branch" if taken else "else_branch")]
    base = node_name(node)
    made = [name for one in branch.node for name in one.output if name]
    names = {name: f"{base}:{name}" for name in (*made, *(tensor.name for tensor in branch.initializer))}
    shown = [value.name for value in branch.output]
    copies = []
    for own, name in zip(shown, node.output, strict=False):
        if own in made and names[own] not in node.output:
            names[own] = name
        else:  # a tensor from outside, a constant, or an output given twice
            copies.append(helper.make_node("Identity", [names.get(own, own)], [name], f"{base}:{name}"))
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    nodes = []
    for one in branch.node:
        inner = NodeProto()
        inner.CopyFrom(one)
        inner.name = f"{base}:{node_name(one)}"
        rename(inner, names)
        for place, name in enumerate(inner.output):
            inner.output[place] = names.get(name, name)
        nodes.append(inner)
    return nodes + copies
