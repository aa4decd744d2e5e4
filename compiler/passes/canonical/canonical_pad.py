"""Turns a Pad of rows and columns with a constant value into a typed Pad, unless `fuse_pad` or `slice_pad` can read it as it is.

Requires: folded constants (`fold_constants`).
Ensures: a Pad of rows and columns of one sample is typed if its value is not 0, a width is negative, it names its axes, or its map
has three axes.
Leaves alone: Pads of channels or samples, other modes (`canonical_pixels`), and widths or values that are computed.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx, Pad
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.passes.canonical.typed_operators import put_framed
from cnna.compiler.passes.fusion.fuse_pad import zero_pads

Widths = tuple[int, int, int, int]


def canonical_pad(graph: Graph) -> Graph:
    """Returns the graph with typed Pads."""
    edit = Editor(graph)
    for node in edit:
        found = _constant_pad(edit, node)
        plain = zero_pads(edit, node)
        if found is not None and any(found[0]) and (plain is None or min(plain) < 0):
            put_framed(edit, node, Pad(*found), node.inputs[:1])
    return edit.finish()


def _constant_pad(edit: Editor, node: Node) -> tuple[Widths, float] | None:
    """(widths, value) of a Pad of rows and columns of one sample; None for other nodes."""
    op = node.op
    if not isinstance(op, Onnx) or op.domain or op.kind != "Pad" or op.attributes.get("mode", "constant") != "constant":
        return None
    if node.inputs[0] in edit.constants or not edit.is_real(node):
        return None
    if not all(name in edit.constants for name in node.inputs[1:] if name):
        return None
    before, after = edit.shape(node.inputs[0]), edit.shape(node.output)
    if len(before) not in (3, 4) or len(after) != len(before) or before[0] != 1 or min(*before, *after) < 1:
        return None
    given, value, axes = (edit.constants[name].reshape(-1) if name else np.zeros(0) for name in (*node.inputs[1:], "", "")[:3])
    named = [int(axis) % len(before) for axis in axes] if axes.size else list(range(len(before)))
    if len(given) != 2 * len(named) or len(set(named)) < len(named):
        return None
    first, last = [0] * len(before), [0] * len(before)
    for axis, low, high in zip(named, given[: len(named)], given[len(named) :], strict=True):
        first[axis], last[axis] = int(low), int(high)
    kept = all(size + min(low, 0) + min(high, 0) > 0 for size, low, high in zip(before, first, last, strict=True))
    if any((*first[:2], *last[:2])) or not kept:
        return None
    widths = (0, first[2], 0, last[2]) if len(before) == 3 else (first[2], first[3], last[2], last[3])
    return widths, float(value[0]) if value.size else 0.0
