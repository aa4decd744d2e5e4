"""Joins each QuantizeLinear and its DequantizeLinear to one Requantise. uint8 becomes int8 by a shift of the zero point.

Requires: checked scales (`check_scales`), each DequantizeLinear directly behind its QuantizeLinear (`hoist_dequantise`).
Ensures: all equal pairs that read a tensor are one Requantise, so that the tensor has one reader. A QuantizeLinear whose int8
value is still needed reads that Requantise.
Leaves alone: a pair whose scales differ or are not one number, or whose type is neither int8 nor uint8, or not known.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx, Requantise
from cnna.compiler.graph.ir import Graph, Node, Quant

Key = tuple[str, Quant]  # the tensor that is rounded, and how


def pair_quantisation(graph: Graph) -> Graph:
    """Returns the graph with pairs joined."""
    edit = Editor(graph)
    made: dict[Key, str] = {}
    for node in edit:
        before = edit.producer(node.inputs[0]) if is_kind(node, "DequantizeLinear") else None
        if before is None or not is_kind(before, "QuantizeLinear"):
            continue
        quant = quant_of(edit, node)
        if quant is not None and quant == quant_of(edit, before):
            key = (before.inputs[0], quant)
            made[key] = join(edit, node, before.name, key, made.get(key))
    for node in edit:
        if is_kind(node, "QuantizeLinear"):
            _read_behind(edit, node, made)
    return edit.finish()


def is_kind(node: Node, kind: str) -> bool:
    """Whether a node is ONNX's own operator of that name."""
    return isinstance(node.op, Onnx) and node.op.kind == kind and not node.op.domain


def join(edit: Editor, node: Node, name: str, key: Key, one: str | None) -> str:
    """Makes the output of a DequantizeLinear and `one`, the output of an equal pair, the same tensor. Returns its name."""
    source, quant = key
    if one is None:
        return edit.put(name, Requantise(quant), (source,), node.output)
    if node.output not in edit.outputs:
        edit.remove(node)
        edit.redirect(node.output, one)
        return one
    if one in edit.outputs:  # both names must stay; rounding a second time changes nothing
        edit.put(node.name, Requantise(quant), (one,), node.output)
        return one
    edit.remove(edit.nodes[one])
    edit.redirect(one, node.output)
    return edit.put(name, Requantise(quant), (source,), node.output)


def _read_behind(edit: Editor, node: Node, made: dict[Key, str]) -> None:
    """If an equal Requantise exists, lets a QuantizeLinear read its output. The CPU or the user needs this node's int8 value."""
    quant = quant_of(edit, node)
    one = made.get((node.inputs[0], quant)) if quant else None
    if one:
        edit.put(node.name, node.op, (one, *node.inputs[1:]), node.output)


def quant_of(edit: Editor, node: Node) -> Quant | None:
    """The quantisation of a Q or DQ with one constant scale and a constant int8 or uint8 zero point; None for other nodes, and
    for blocks, for which onnxruntime wants more than one scale.

    `check_scales` ensures that the scale is above 0.
    """
    if any(name and name not in edit.constants for name in node.inputs[1:]) or node.op.attributes.get("block_size"):
        return None
    scale = edit.constants[node.inputs[1]]
    given = len(node.inputs) > 2 and node.inputs[2]
    if not given and (node.op.attributes.get("output_dtype") or edit.types.get(node.inputs[0], "uint8") != "uint8"):
        return None
    zero = edit.constants[node.inputs[2]] if given else np.zeros(1, np.uint8)
    if scale.size != 1 or zero.dtype not in (np.int8, np.uint8):
        return None
    shifted = int(zero.reshape(-1)[0]) - (128 if zero.dtype == np.uint8 else 0)
    return Quant(float(scale.reshape(-1)[0]), shifted)
