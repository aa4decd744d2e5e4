"""Computes QuantizeLinear and DequantizeLinear of constants. int8 weights become real values, with their scales beside them.

Requires: folded constants (`fold_constants`), checked scales (`check_scales`).
Ensures: no Q or DQ of a constant is left. For 8-bit weights, the constant `scale_name(constant)` holds the scales, so that a
division gives the exact int8 weights again.
Leaves alone: blocked quantisation, a constant that is itself an output of the graph, a Q to short floats, and other domains.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx, scale_name
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.graph.node_names import place
from cnna.spec.errors import ModelError

FLOAT_MAX = float(np.finfo(np.float32).max)
LIMITS = {  # of the types that a weight's whole number may have; numpy knows those of the short ones by name alone
    **{kind: (-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in (("int2", 2), ("int4", 4), ("int8", 8), ("int16", 16))},
    **{kind: (0, (1 << bits) - 1) for kind, bits in (("uint2", 2), ("uint4", 4), ("uint8", 8), ("uint16", 16))},
}


def dequantise_constants(graph: Graph) -> Graph:
    """Returns the graph with real constants. ModelError: a real value exceeds the range of float32."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or not all(name in edit.constants for name in node.inputs if name):
            continue
        if node.op.attributes.get("block_size") or node.output in edit.outputs:
            continue
        if node.op.kind == "QuantizeLinear":
            if _zero(node, edit).dtype.name not in LIMITS:
                continue
            edit.constants[node.output] = _quantised(node, edit)
        elif node.op.kind == "DequantizeLinear":
            whole, scale, zero = (np.asarray(value, np.float64) for value in _operands(node, edit))
            edit.constants[node.output] = (whole - zero) * scale
            if np.abs(edit.constants[node.output]).max(initial=0) > FLOAT_MAX:
                what = f"the values of '{node.inputs[0]}' times their scale"
                raise ModelError(f"{place(node, graph)}: {what} exceed the range of float32; use a smaller scale")
            if edit.constants[node.inputs[0]].dtype.name in LIMITS and edit.constants[node.inputs[0]].dtype.itemsize == 1:
                edit.constants[node.output] = edit.constants[node.output].astype(np.float32)
                edit.constants[scale_name(node.output)] = scale
        else:
            continue
        edit.remove(node)
    return edit.finish()


def _operands(node: Node, edit: Editor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value, scale, zero point) of a node. Scale and zero point get the rank of the value, so that they broadcast to it."""
    value, scale, zero = edit.constants[node.inputs[0]], edit.constants[node.inputs[1]], _zero(node, edit)
    shape = [1] * value.ndim
    if scale.size > 1:
        shape[node.op.attributes.get("axis", 1)] = scale.size
    return value, scale.reshape(shape), zero.reshape(shape)


def _zero(node: Node, edit: Editor) -> np.ndarray:
    """The zero point, as `frontend.zero_points` has written it; where the node has none, its type does not matter."""
    given = len(node.inputs) > 2 and node.inputs[2]
    return edit.constants[node.inputs[2]] if given else np.zeros(edit.constants[node.inputs[1]].shape, np.uint8)


def _quantised(node: Node, edit: Editor) -> np.ndarray:
    value, scale, zero = _operands(node, edit)
    return np.clip(np.rint(value / scale) + zero.astype(np.float64), *LIMITS[zero.dtype.name]).astype(zero.dtype)
