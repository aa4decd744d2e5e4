"""Brings each QuantizeLinear and its DequantizeLinear together as one Requantise, uint8 shifted to int8."""

import numpy as np

from cnna.compiler.editor import Editor
from cnna.compiler.float_ops import Onnx, Requantise
from cnna.compiler.ir import Graph, Node, Quant


def pair_quantisation(graph: Graph) -> Graph:
    """Leaves a pair alone whose scales differ, are not one number, or whose type is neither int8 nor uint8."""
    edit = Editor(graph)
    made: dict[tuple[str, Quant], str] = {}
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.kind != "DequantizeLinear":
            continue
        before = edit.producer(node.inputs[0], Onnx)
        if before is None or before.op.kind != "QuantizeLinear":
            continue
        quant = _quant(edit, node)
        if quant is None or quant != _quant(edit, before):
            continue
        key = (before.inputs[0], quant)
        if key in made and node.output not in edit.outputs:
            edit.remove(node)
            edit.redirect(node.output, made[key])
        else:
            made.setdefault(key, edit.put(before.name, Requantise(quant), (before.inputs[0],), node.output))
    return edit.finish()


def _quant(edit: Editor, node: Node) -> Quant | None:
    if any(name and name not in edit.constants for name in node.inputs[1:]):
        return None
    scale = edit.constants[node.inputs[1]]
    given = len(node.inputs) > 2 and node.inputs[2]
    zero = edit.constants[node.inputs[2]] if given else np.zeros(1, np.uint8)
    if scale.size != 1 or zero.dtype not in (np.int8, np.uint8) or not float(scale.reshape(-1)[0]) > 0:
        return None
    shifted = int(zero.reshape(-1)[0]) - (128 if zero.dtype == np.uint8 else 0)
    return Quant(float(scale.reshape(-1)[0]), shifted)
