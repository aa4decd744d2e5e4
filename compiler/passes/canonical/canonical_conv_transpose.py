"""Turns a ConvTranspose with constant weights into one Conv for each phase of its stride, and interleaves their outputs.

Output row o sums weight k times input row i over all i and k with o = stride * i + k - pad. All rows o with the same remainder
modulo the stride are therefore one plain convolution. Its weights are every stride-th weight, in reverse order.

Requires: folded constants (`fold_constants`), and real weights with the scales of int8 weights beside them
(`dequantise_constants`).
Ensures: no ConvTranspose with constant weights, two spatial axes and equal strides is left. With stride 1 it is a single Conv.
Leaves alone: unequal strides, `auto_pad`, `output_shape`, and weights whose scales differ within an output channel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv, Interleave, Onnx, Pixels
from cnna.compiler.graph.ir import Graph, Node, Window
from cnna.spec.errors import ModelError


def canonical_conv_transpose(graph: Graph) -> Graph:
    """Returns the graph with these convolutions replaced. ModelError: a bias does not have one value per channel."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Onnx) and node.op.kind == "ConvTranspose" and not node.op.domain:
            found = _read(edit, node)
            if found is not None:
                _put(edit, node, *found)
    return edit.finish()


@dataclass(frozen=True)
class _Axis:
    """Rows (or columns) of one phase: the weight of each tap (-1: zero), and the padding before and after the map."""

    taps: tuple[int, ...]
    before: int
    after: int


def _axis(phase: int, stride: int, kernel: int, pad: int, size: int, count: int) -> _Axis:
    """One axis of a phase: `count` outputs, every stride-th one from number `phase` on.

    Where the padding would be negative, it is 0 and zero taps are added instead.
    """
    base, rest = divmod(phase + pad, stride)
    taps = list(range(rest, kernel, stride))[::-1]
    before = len(taps) - 1 - base
    taps = [-1] * max(-before, 0) + taps
    before = max(before, 0)
    after = count - 1 + len(taps) - size - before
    return _Axis((*taps, *[-1] * max(-after, 0)), before, max(after, 0))


def _read(edit: Editor, node: Node) -> tuple[NDArray[np.float32], str | None, int, tuple[int, int]] | None:
    """(weights, name of their scales, stride, pads), or None if the node is left alone.

    The weights are [cout, cin / groups, rows, columns] with the dilation filled in by zeros. The pads are (top, left).
    """
    x, w = node.inputs[:2]
    attributes, shape = node.op.attributes, edit.shape(x)
    if w not in edit.constants or any(name and name not in edit.constants for name in node.inputs[2:]):
        return None
    weights, groups = edit.constants[w], int(attributes.get("group", 1))
    known = len(shape) == len(edit.shape(node.output)) == weights.ndim == 4 and min(*shape, *edit.shape(node.output)) > 0
    if not known or len(weights) != shape[1] or len(weights) % groups or attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    strides, dilations = (tuple(attributes.get(key) or (1, 1)) for key in ("strides", "dilations"))
    pads = tuple(attributes.get("pads") or (0, 0, 0, 0))
    if attributes.get("output_shape") or len({*strides}) > 1 or min(*strides, *dilations) < 1 or min(pads) < 0:
        return None

    def turned(values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The layout of a Conv's weights."""
        parts = values.reshape(groups, len(values) // groups, *values.shape[1:]).transpose(0, 2, 1, 3, 4)
        return parts.reshape(-1, *parts.shape[2:])

    scale = None
    if w in edit.scales:
        scales = turned(np.broadcast_to(edit.scales[w], weights.shape)).reshape(weights.shape[1] * groups, -1)
        if (scales != scales[:, :1]).any():
            return None
        scale = edit.constant(f"{w}:scales", np.where(scales[:, 0] == 0, 1.0, scales[:, 0]))
    spread = np.zeros((*turned(weights).shape[:2], *((n - 1) * d + 1 for n, d in zip(weights.shape[2:], dilations, strict=True))))
    spread[:, :, :: dilations[0], :: dilations[1]] = turned(weights)
    return spread.astype(np.float32), scale, strides[0], (pads[0], pads[1])


def _put(edit: Editor, node: Node, weights: NDArray[np.float32], scale: str | None, stride: int, pads: tuple[int, int]) -> None:
    """Replaces the node. The phases may compute rows and columns beyond the node's output; a Pixels cuts them off."""
    x, groups, cout = node.inputs[0], int(node.op.attributes.get("group", 1)), len(weights)
    size, out = edit.shape(x)[2:], edit.shape(node.output)[2:]
    counts = (-(-out[0] // stride), -(-out[1] // stride))
    given = len(node.inputs) > 2 and node.inputs[2]
    if given and edit.shape(node.inputs[2]) != (cout,):
        wrong = list(edit.shape(node.inputs[2]))
        raise ModelError(
            f"node '{node.name}' (ConvTranspose): its bias has shape {wrong}; it must be [{cout}], one value per channel"
        )
    bias = node.inputs[2] if given else edit.constant(f"{node.name}:bias", np.zeros(cout, np.float32))
    whole = (1, cout, counts[0] * stride, counts[1] * stride)
    padded = np.pad(weights, ((0, 0), (0, 0), (0, 1), (0, 1)))  # tap -1 is a zero
    made: list[str] = []
    for phase in range(stride * stride):
        down, right = (
            _axis(place, stride, taps, pad, rows, count)
            for place, taps, pad, rows, count in zip(divmod(phase, stride), weights.shape[2:], pads, size, counts, strict=True)
        )
        name = edit.constant(f"{node.name}:weights{phase}", padded[:, :, list(down.taps)][:, :, :, list(right.taps)])
        window = Window((len(down.taps), len(right.taps)), pads=(down.before, right.before, down.after, right.after))
        op = Conv(window, groups, name, bias, scale)
        if stride == 1:
            edit.put(node.name, op, (x,), node.output)
            return
        made.append(edit.insert(f"{node.name}:{phase}", op, (x,), f"{node.output}:{phase}", (1, cout, *counts)))
    if whole[2:] == out:
        edit.put(node.name, Interleave(stride), tuple(made), node.output)
        return
    inner = edit.insert(node.name, Interleave(stride), tuple(made), f"{node.output}:whole", whole)
    edit.put(f"{node.name}:cut", Pixels(tuple(range(out[0])), tuple(range(out[1]))), (inner,), node.output)
