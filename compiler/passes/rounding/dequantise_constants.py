"""Computes QuantizeLinear and DequantizeLinear of constants, and what depends on them alone. int8 weights become real values, with
their scales beside them.

A scale goes where its element goes: through a Transpose, Reshape, Concat or any other operator that only moves elements.

Requires: folded constants (`fold_constants`), checked scales (`check_scales`).
Ensures: no Q or DQ of a constant is left, and no node that `fold_constants` would have computed without them. For 8-bit weights,
the graph's `scales` hold theirs, so that a division gives the exact int8 weights again; its `wholes` save that division.
Leaves alone: blocked quantisation, a constant that is itself an output of the graph, a Q to short floats, and other domains.
"""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node, Whole
from cnna.compiler.graph.node_names import place
from cnna.compiler.passes.fold_constants import QUANTISED, computed, is_foldable
from cnna.spec.errors import ModelError

FLOAT_MAX, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
LIMITS = {  # of the types that a weight's whole number may have; numpy knows those of the short ones by name alone
    **{kind: (-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in (("int2", 2), ("int4", 4), ("int8", 8), ("int16", 16))},
    **{kind: (0, (1 << bits) - 1) for kind, bits in (("uint2", 2), ("uint4", 4), ("uint8", 8), ("uint16", 16))},
}
FLOAT = 1  # TensorProto.FLOAT
RELOCATES = (  # each element of the output is one of the first input's, whatever its value
    *("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Split", "Gather", "GatherElements"),
    *("GatherND", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Compress", "ReverseSequence"),
)


def dequantise_constants(graph: Graph) -> Graph:
    """Returns the graph with real constants.

    ModelError: a real value exceeds the range of float32; an operator cannot be computed.
    """
    edit = Editor(graph)
    made: set[str] = set()  # the constants that this pass has computed
    for node in edit:
        if not is_foldable(node, edit) or not all(name in edit.constants for name in node.inputs if name):
            continue
        if node.op.kind in QUANTISED:
            if node.op.attributes.get("block_size") or not _known(node, edit):
                continue
            _round(edit, node, graph)
        elif made.intersection(node.inputs):
            _compute(edit, node, graph)
        else:
            continue
        made.update(outputs_of(node))
        edit.remove(node)
    return edit.finish()


def _round(edit: Editor, node: Node, graph: Graph) -> None:
    """Adds what a Q or DQ makes of constants."""
    if node.op.kind == "QuantizeLinear":
        edit.constants[node.output] = _quantised(node, edit)
        return
    value, scale, zero = _operands(node, edit)
    short = value.dtype.name in LIMITS and value.dtype.itemsize == 1
    real = _short(value, scale, zero) if short else None
    if real is None:
        real = (np.asarray(value, np.float64) - np.asarray(zero, np.float64)) * np.asarray(scale, np.float64)
        if np.abs(real).max(initial=0) > FLOAT_MAX:
            what = f"the values of '{node.inputs[0]}' times their scale"
            raise ModelError(f"{place(node, graph)}: {what} exceed the range of float32; use a smaller scale")
    edit.constants[node.output] = real.astype(np.float32, copy=False) if short else real
    if short:
        edit.scales[node.output] = np.asarray(scale, np.float64)
        if (values := _whole(value, scale, zero)) is not None:
            edit.wholes[node.output] = Whole(edit.constants[node.output], values, edit.scales[node.output])


def _short(value: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray | None:
    """(value - zero) * scale of numbers of one byte, in float32 all along, which takes a quarter of float64's time.

    The product of 9 bits and a float32 is rounded once either way, so the result is the same. None: it may not be, or is too large.
    """
    exact = scale.dtype == np.float32 and bool(np.all(np.abs(scale) <= FLOAT_MAX / 512))
    if not exact:
        return None
    real = value.astype(np.float32)
    if zero.any():
        real -= zero.astype(np.float32)
    real *= scale
    return real


def _whole(value: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray | None:
    """value - zero in int8, if a division of the real values by the scales gives it again; else None."""
    if scale.dtype != np.float32 or not (scale >= TINY).all() or value.dtype.name not in ("int8", "uint8"):
        return None
    if value.dtype == np.int8 and not zero.any():
        return value
    values = value.astype(np.int16) - zero.astype(np.int16)
    return values.astype(np.int8) if values.min(initial=0) >= -128 and values.max(initial=0) <= 127 else None


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


def _known(node: Node, edit: Editor) -> bool:
    """Whether what a Q makes is a whole number."""
    return node.op.kind != "QuantizeLinear" or _zero(node, edit).dtype.name in LIMITS


def _compute(edit: Editor, node: Node[Onnx], graph: Graph) -> None:
    """Adds what any other operator makes of constants, with scales beside it if it only moves elements of those that have any."""
    moved = _moved_inputs(edit, node)
    values = {name: edit.constants[name] for name in node.inputs if name}
    if moved and all(name in edit.scales for name in moved):
        scales = {name: np.broadcast_to(edit.scales[name], edit.shape(name)) for name in moved}
        for name, found in zip(outputs_of(node), computed(_of_scales(node), values | scales, graph), strict=True):
            edit.scales[name] = _compact(found)
    elif not moved:  # double biases would be another type than the operator's other operands
        values = {name: value.astype(np.float32) if value.dtype == np.float64 else value for name, value in values.items()}
    for name, found in zip(outputs_of(node), computed(node, values, graph), strict=True):
        edit.constants[name] = found


def _moved_inputs(edit: Editor, node: Node[Onnx]) -> tuple[str, ...]:
    """The inputs whose elements are all that the outputs hold; none if the operator computes."""
    op = node.op
    if op.kind == "Concat":
        return tuple(node.inputs)
    if op.kind == "Cast" and op.attributes.get("to") == FLOAT:
        return tuple(node.inputs)
    return tuple(node.inputs[:1]) if op.kind in RELOCATES or (op.kind == "Pad" and _adds_zeros(edit, node)) else ()


def _adds_zeros(edit: Editor, node: Node) -> bool:
    """Whether a Pad surrounds weights with zeros, which are whole at any scale, or with elements that are there."""
    constant = node.op.attributes.get("mode", "constant") == "constant"
    value = edit.constants[node.inputs[2]] if constant and len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    return not value.any() and bool((edit.constants[node.inputs[1]] >= 0).all())


def _of_scales(node: Node[Onnx]) -> Node[Onnx]:
    """The node that moves the scales as `node` moves their elements; the zeros of a Pad get the scale beside them."""
    op = node.op
    if op.kind != "Pad" or op.attributes.get("mode", "constant") != "constant":
        return node
    axes = node.inputs[3:4]
    inputs = (*node.inputs[:2], "", *axes) if axes else node.inputs[:2]
    return replace(node, op=replace(op, attributes={**op.attributes, "mode": "edge"}), inputs=inputs)


def _compact(scales: np.ndarray) -> np.ndarray:
    """The scales with an axis of 1 wherever all along it are equal."""
    for axis in range(scales.ndim):
        if scales.shape[axis] and (scales == scales.take([0], axis)).all():
            scales = scales.take([0], axis)
    return np.ascontiguousarray(scales)
