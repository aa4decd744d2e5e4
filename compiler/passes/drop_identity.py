"""Removes operators that change nothing: Identity, Dropout, empty Pads, views and limits without effect.

Requires: nothing. It finds more once operators are typed, so it runs twice.
Ensures: no node reads the output of an operator without effect. If a graph output needs the name, its producer takes it.
Leaves alone: an identity between a graph input and a graph output, because neither name may go.
"""

from collections.abc import Mapping
from math import inf

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Affine, Clip, Concat, Onnx, Requantise, Reshape, Transpose
from cnna.compiler.graph.ir import Graph, Node

FLOAT = 1  # TensorProto.FLOAT


def drop_identity(graph: Graph) -> Graph:
    """Returns the graph without these operators."""
    edit = Editor(graph)
    for node in edit:
        if _is_identity(edit, node):
            edit.bypass(node)
    return edit.finish()


def draws_at_random(node: Node, constants: Mapping[str, np.ndarray]) -> bool:
    """Whether a Dropout may drop values: its ratio is not 0, and it is in training mode, or the mode is unknown before it runs."""
    ratio, training = [constants.get(name) if name else np.zeros(1) for name in (*node.inputs[1:], "", "")[:2]]
    trains = training is None or bool(training.any())
    return trains and not (len(node.inputs) > 1 and node.inputs[1] and ratio is not None and not ratio.any())


def _is_identity(edit: Editor, node: Node) -> bool:
    op = node.op
    if not node.inputs or node.inputs[0] in edit.constants:
        return False
    if isinstance(op, Onnx):
        return _onnx_identity(edit, node)
    if isinstance(op, Reshape):
        return edit.shape(node.inputs[0]) == op.shape
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(op.perm)))
    if isinstance(op, Clip):
        return (op.low, op.high) == (-inf, inf)
    if isinstance(op, Concat):
        return len(node.inputs) == 1
    if isinstance(op, Affine):
        neutral = (edit.constants[op.scale] == 1).all() and (edit.constants[op.shift] == 0).all()
        return bool(neutral) and (op.low, op.high) == (-inf, inf)
    if isinstance(op, Requantise):
        return edit.tensors[node.inputs[0]].quant == op.quant
    return False


def _onnx_identity(edit: Editor, node: Node) -> bool:
    kind, attributes = node.op.kind, node.op.attributes
    if node.op.domain or any(name and edit.uses(name) for name in node.op.more_outputs):
        return False
    if kind == "Dropout":
        return not draws_at_random(node, edit.constants)
    if kind == "Identity" or (kind in ("Sum", "Concat", "Max", "Min", "Mean") and len(node.inputs) == 1):
        return True
    if kind == "Cast":
        producer = edit.producer(node.inputs[0])
        return (
            attributes.get("to") == FLOAT
            and node.inputs[0] not in edit.types
            and (producer is None or not isinstance(producer.op, Onnx) or producer.op.kind == "Conv")
        )
    if kind == "Pad" and len(node.inputs) > 1 and node.inputs[1] in edit.constants:
        return not np.any(edit.constants[node.inputs[1]])
    return False
