"""Turns a Slice with steps, and a Pad of channels behind it (ResNet's option A shortcut), into a Conv with weights 0 and 1.

Requires: folded constants (`fold_constants`). It must run before `fuse_pad`, which handles only rows and columns.
Ensures: a Slice with steps over rows and columns from pixel 0 is a depthwise 1x1 Conv with stride. A Pad of channels with zeros
is a 1x1 Conv, which includes such a Slice before it. Weight scales are 1, so both are exact in int8.
Leaves alone: Slices that begin elsewhere or drop channels, and Pads of rows and columns or with other values.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv, Onnx
from cnna.compiler.graph.ir import Graph, Node, Window
from cnna.compiler.passes.fusion.fuse_pad import copy_window, unit_scale, zero_pads


def slice_pad(graph: Graph) -> Graph:
    """Returns the graph with those copies as convolutions."""
    edit = Editor(graph)
    for node in edit:
        pads = zero_pads(edit, node)
        if pads is not None and min(pads) >= 0 and not any(pads[2:4]) and not any(pads[6:8]) and not pads[0] and not pads[4]:
            before = edit.sole(node.inputs[0], Onnx)
            steps = corner_steps(edit, before) if before else None
            source, stride = (before.inputs[0], steps) if before and steps else (node.inputs[0], (1, 1))
            _pad_channels(edit, node, source, stride, pads[1])
    for node in edit:
        steps = corner_steps(edit, node)
        if steps:
            copy_window(edit, node, Window(stride=steps))
    return edit.finish()


def _pad_channels(edit: Editor, node: Node, source: str, steps: tuple[int, int], first: int) -> None:
    cin, cout = edit.shape(source)[1], edit.shape(node.output)[1]
    weights = np.zeros((cout, cin, 1, 1), np.float32)
    weights[first + np.arange(cin), np.arange(cin)] = 1
    names = edit.constant(f"{node.name}:select", weights), edit.constant(f"{node.name}:zeros", np.zeros(cout, np.float32))
    edit.put(node.name, Conv(Window(stride=steps), 1, *names, unit_scale(edit, node, cout)), (source,), node.output)


def corner_steps(edit: Editor, node: Node) -> tuple[int, int] | None:
    """The steps (rows, columns) of a Slice that keeps pixel (0, 0) and every channel; None for other nodes."""
    if not isinstance(node.op, Onnx) or node.op.kind != "Slice" or node.op.domain or not edit.is_real(node):
        return None
    before, after = edit.shape(node.inputs[0]), edit.shape(node.output)
    if len(before) != 4 or min(before) < 1 or not all(name in edit.constants for name in node.inputs[1:] if name):
        return None
    first, _, third, fourth = (*node.inputs[1:], "", "")[:4]
    starts = edit.constants[first].tolist()
    axes = edit.constants[third].tolist() if third else range(len(starts))
    steps = edit.constants[fourth].tolist() if fourth else [1] * len(starts)
    step = [1] * len(before)
    for axis, size in zip(axes, steps, strict=True):
        step[axis] = size
    if any(starts) or min(steps) < 1 or after != (*before[:2], *(-(-before[axis] // step[axis]) for axis in (2, 3))):
        return None
    return step[2], step[3]
