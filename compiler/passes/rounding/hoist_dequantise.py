"""Moves a DequantizeLinear in front of operators that only move, select or limit int8 elements, so that they work on real values.

Requires: folded constants (`fold_constants`), checked scales (`check_scales`).
Ensures: DQ(op(q)) is op(DQ(q)), through whole chains of such operators. Nodes that read op(q) as int8 still can. Limits of integers
(Clip, Min, Max, Relu) become a Clip.
Leaves alone: a DQ with a scale for each channel, because the operator may move channels; Pads whose value or whose DQ's zero
point is computed; other domains.
"""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor, settled
from cnna.compiler.graph.float_ops import MOVERS, Onnx
from cnna.compiler.graph.ir import AnyNode, Graph, Node, Tensor
from cnna.compiler.passes.canonical.canonical_pixels import resize_pixels
from cnna.compiler.passes.rounding.integer_limits import bounds_of, real_limits, rounding_of


def hoist_dequantise(graph: Graph) -> Graph:
    """Returns the graph with each DequantizeLinear as close to the inputs as it can go."""
    return settled(graph, _raised)


def _raised(edit: Editor, node: AnyNode) -> bool:
    mover = _mover(edit, node)
    if mover is not None:
        _hoist(edit, mover, node)
    return mover is not None


def _mover(edit: Editor, node: Node) -> Node | None:
    """The operator in front of a DequantizeLinear, if the two may change places; None for other nodes."""
    if not isinstance(node.op, Onnx) or node.op.domain or node.op.kind != "DequantizeLinear":
        return None
    scale, mover = edit.constants.get(node.inputs[1]), edit.producer(node.inputs[0], Onnx)
    if mover is None or mover.op.domain or scale is None or scale.size != 1:
        return None
    if mover.op.kind not in MOVERS:
        return mover if bounds_of(edit, mover) is not None and rounding_of(edit, node) is not None else None
    if mover.op.kind == "Resize" and mover.op.attributes.get("mode", "nearest") != "nearest" and not _repeats(edit, mover):
        return None
    if mover.op.kind == "Gather" and mover.inputs[0] in edit.constants:
        return None
    if mover.op.kind == "Pad" and not all(name in edit.constants for name in (*mover.inputs[2:3], *node.inputs[2:3]) if name):
        return None
    return mover


def _repeats(edit: Editor, resize: Node) -> bool:
    """Whether a Resize that could interpolate between int8 elements only repeats those of axes of size 1."""
    before, after = edit.shape(resize.inputs[0]), edit.shape(resize.output)
    known = len(before) == len(after) and min((*before, *after), default=0) > 0
    return known and resize_pixels(edit, resize) is not None


def _hoist(edit: Editor, mover: Node, node: Node) -> None:
    """Moves `mover` behind a DequantizeLinear, which replaces `node` and all nodes equal to it."""
    equal = [reader for reader in edit.consumers(mover.output) if (reader.op, reader.inputs) == (node.op, node.inputs)]
    output = next((reader.output for reader in equal if reader.output in edit.outputs), node.output)
    for reader in equal:
        edit.remove(reader)
        if reader.output in edit.outputs and reader.output != output:
            edit.put(reader.name, Onnx("Identity"), (output,), reader.output)
        else:
            edit.redirect(reader.output, output)
    limits, real = bounds_of(edit, mover), []
    for name in mover.inputs if mover.op.kind == "Concat" else (limits[0] if limits else mover.inputs[0],):
        whole = edit.fresh(f"{name}:real")
        edit.tensors[whole] = Tensor(edit.shape(name))
        real.append(edit.put(f"{node.name}:{name}", node.op, (name, *node.inputs[1:]), whole))
    op, rest = mover.op, mover.inputs[len(real) :]
    rounding = rounding_of(edit, node)
    if limits and rounding:
        op, rest = real_limits(edit, mover, limits[1], *rounding)
    if op.kind == "Pad" and op.attributes.get("mode", "constant") == "constant":
        rest = (rest[0], _real_padding(edit, mover, node), *rest[2:])
    if edit.uses(mover.output):
        op = replace(op, more_outputs=())
    else:
        edit.remove(mover)
    edit.put(mover.name, op, (*real, *rest), output)


def _real_padding(edit: Editor, pad: Node, node: Node) -> str:
    """Adds the real value with which a Pad of int8 elements pads (0 by default), as the DequantizeLinear `node` computes it."""
    value, zero = (
        float(edit.constants[names[0]].reshape(-1)[0]) if any(names) else 0.0 for names in (pad.inputs[2:3], node.inputs[2:3])
    )
    scale = edit.constants[node.inputs[1]].astype(np.float32)
    return edit.constant(f"{pad.name}:value", ((value - zero) * scale).astype(np.float32).reshape(()))
