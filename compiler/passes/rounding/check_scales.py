"""Refuses scales and zero points that do not fit their tensor, before a pass divides by them. ONNX's own checks ignore them.

Requires: folded constants (`fold_constants`).
Ensures: every constant scale of a Q or DQ is finite and above 0 (weights may have 0 for a channel). It is one number, or has one
for each element of its axis. Its zero point has as many values. The graph is not changed.
Leaves alone: scales that are computed, and custom domains.
"""

from math import prod

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.graph.node_names import place, source_of
from cnna.spec.errors import ModelError

KINDS = ("QuantizeLinear", "DequantizeLinear")


def check_scales(graph: Graph) -> Graph:
    """Returns the graph unchanged.

    ModelError: a scale or zero point is empty, not finite, or does not have the length of its axis.
    """
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Onnx) and node.op.kind in KINDS and not node.op.domain and node.inputs[1] in edit.constants:
            source = source_of(node.name, graph.sources)
            reason = _fault(edit, node, node.inputs[1].removeprefix(f"{source}:"))
            if reason:
                raise ModelError(f"{place(node, graph)}: {reason}; quantise the model again")
    return graph


def _fault(edit: Editor, node: Node, name: str) -> str | None:
    """What is wrong with the constant scale of a node; None if nothing is. name: what the user calls the scale."""
    scale, shape = edit.constants[node.inputs[1]], edit.shape(node.inputs[0])
    if not scale.size:
        return f"its scale '{name}' is empty"
    if not np.isfinite(scale).all():
        return f"its scale '{name}' is not finite"
    # The scale of weights may be 0: a channel of zeros may have any scale.
    weights = node.inputs[0] in edit.constants and node.op.kind == "DequantizeLinear"
    if (scale < 0).any() if weights else not (scale > 0).all():
        return f"its scale '{name}' is {scale.min():g}; it must be above 0"
    zero = node.inputs[2] if len(node.inputs) > 2 else ""
    if zero and (zero in edit.constants or edit.shape(zero)) and prod(edit.shape(zero)) != scale.size:
        return f"its zero point '{zero}' has {prod(edit.shape(zero))} values, its scale '{name}' {scale.size}"
    # an axis of unknown size has size 0
    if scale.size == 1 or node.op.attributes.get("block_size") or not shape:
        return None
    axis = node.op.attributes.get("axis", 1)
    if not -len(shape) <= axis < len(shape):
        return f"axis {axis} is outside a tensor of shape {list(shape)}"
    if scale.ndim != 1 or (shape[axis] != scale.size and (shape[axis] or node.inputs[0] in edit.constants)):
        return f"its scale '{name}' has shape {list(scale.shape)}, axis {axis} of its tensor {shape[axis]} elements"
    return None
