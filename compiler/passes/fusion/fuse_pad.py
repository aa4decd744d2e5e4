"""Folds an explicit Pad into the window of each node that reads it, or turns a Pad with zeros into a copy with padding.

Requires: typed convolutions and pools, limits already folded (`fuse_clip`), Pads of channels already gone (`slice_pad`).
Ensures: no ONNX Pad of rows and columns with constant zeros is left. Conv always takes such a Pad. AveragePool takes it and
counts the padding. MaxPool takes any value that its input never falls below. For other readers, a depthwise Conv with weight 1
copies the map and pads it with zeros.
Leaves alone: Pads of other axes or with negative widths, and typed Pads that no reader takes.
"""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import CLIPPED, AveragePool, Conv, MaxPool, Onnx, Pad
from cnna.compiler.graph.ir import Graph, Node, Window

FLOAT_MIN = float(np.finfo(np.float32).min)  # neither this value nor -inf changes a maximum


def fuse_pad(graph: Graph) -> Graph:
    """Returns the graph without these Pads."""
    edit = Editor(graph)
    for node in edit:
        pad = node.op if isinstance(node.op, Pad) else _zeros_around(edit, node)
        if pad is None or min(pad.widths) < 0:
            continue
        for reader in edit.consumers(node.output):
            merged = _merged(edit, node, reader, pad)
            if merged is not None:
                edit.put(reader.name, merged, node.inputs[:1], reader.output)
        if not isinstance(node.op, Pad):  # for the other readers; `finish` drops the copy if there are none
            copy_window(edit, node, Window(pads=pad.widths))
    return edit.finish()


def _zeros_around(edit: Editor, node: Node) -> Pad | None:
    """The typed Pad that equals an ONNX Pad of rows and columns with zeros; None for other nodes."""
    pads = zero_pads(edit, node)
    if pads is None or any(pads[:2]) or any(pads[4:6]):
        return None
    return Pad((pads[2], pads[3], pads[6], pads[7]), 0.0)


def zero_pads(edit: Editor, node: Node) -> tuple[int, ...] | None:
    """The widths of an ONNX Pad of four known axes with constant zeros: all begins, then all ends. None for other nodes."""
    op = node.op
    if not isinstance(op, Onnx) or op.domain or op.kind != "Pad" or op.attributes.get("mode", "constant") != "constant":
        return None
    widths, value, axes = (*node.inputs[1:], "", "")[:3]
    known = widths in edit.constants and (not value or value in edit.constants)
    shape = edit.shape(node.inputs[0])
    if not known or axes or len(shape) != 4 or min(shape) < 1 or not edit.is_real(node):
        return None
    if value and np.any(edit.constants[value]):
        return None
    return tuple(int(pad) for pad in edit.constants[widths])


def copy_window(edit: Editor, node: Node, window: Window) -> None:
    """Replaces a node that only pads or strides by a depthwise convolution with weight 1."""
    channels = edit.shape(node.inputs[0])[1]
    weights = edit.constant(f"{node.name}:ones", np.ones((channels, 1, 1, 1), np.float32))
    bias = edit.constant(f"{node.name}:zeros", np.zeros(channels, np.float32))
    edit.put(node.name, Conv(window, channels, weights, bias, unit_scale(edit, node, channels)), node.inputs[:1], node.output)


def unit_scale(edit: Editor, node: Node, channels: int) -> str:
    """Adds a weight scale of 1 for each channel. With it, weights 0 and 1 are the same number in int8."""
    return edit.constant(f"{node.name}:unit", np.ones(channels))


def _merged(edit: Editor, node: Node, reader: Node, pad: Pad) -> Conv | AveragePool | MaxPool | None:
    """The operator of a Pad's reader with the Pad's widths added to its window. None: this would change the result."""
    op = reader.op
    if not isinstance(op, Conv | AveragePool | MaxPool):
        return None
    old, added = op.window.pads, pad.widths
    window = replace(op.window, pads=(old[0] + added[0], old[1] + added[1], old[2] + added[2], old[3] + added[3]))
    if isinstance(op, MaxPool):
        source = edit.producer(node.inputs[0], CLIPPED)
        least = pad.value <= FLOAT_MIN or (source is not None and source.op.low >= pad.value)
        none_outside = all(pad < taps for pad, taps in zip(window.pads, op.window.kernel * 2, strict=True))
        return replace(op, window=window) if least and none_outside else None
    if pad.value:
        return None
    if isinstance(op, AveragePool):
        return replace(op, window=window, include_pad=True) if op.include_pad or not any(old) else None
    return replace(op, window=window)
