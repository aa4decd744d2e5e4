"""Helpers of the passes that write typed operators: windows, scales of int8 weights, and the change to four axes.

Typed operators read and write [1, C, H, W]. If the model's tensors have fewer or more axes, `put_framed` puts an operator between
two Reshapes. `window_of` reads the attributes of a Conv or pool. `weight_scales` keeps the scales with which weights become int8
again.
"""

from collections.abc import Callable
from math import prod

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import FloatOperator, Onnx, Reshape
from cnna.compiler.graph.ir import Node, Whole, Window


def window_of(op: Onnx, kernel: tuple[int, ...], size: tuple[int, ...]) -> Window:
    """The window of a Conv or pool over a map of `size`, with `auto_pad` and defaults as numbers.

    One spatial axis counts as the columns of a map with one row.
    """
    axes = len(kernel)
    strides = tuple(op.attributes.get("strides") or (1,) * axes)
    dilations = tuple(op.attributes.get("dilations") or (1,) * axes)
    pads = tuple(op.attributes.get("pads") or (0,) * (2 * axes))
    mode = op.attributes.get("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = (0,) * (2 * axes)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        first, last = [], []
        for taps, stride, dilation, length in zip(kernel, strides, dilations, size, strict=True):
            total = max(0, (-(-length // stride) - 1) * stride + (taps - 1) * dilation + 1 - length)
            smaller, greater = total // 2, total - total // 2
            first.append(smaller if mode == "SAME_UPPER" else greater)
            last.append(total - first[-1])
        pads = (*first, *last)
    if axes == 1:
        return Window((1, kernel[0]), (1, strides[0]), (1, dilations[0]), (0, pads[0], 0, pads[1]))
    return Window(
        (kernel[0], kernel[1]), (strides[0], strides[1]), (dilations[0], dilations[1]), (pads[0], pads[1], pads[2], pads[3])
    )


def four_axes(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The shape with four axes: [1, C, 1, 1] for [1, C], and [1, C, 1, L] for [1, C, L].

    Of more than four axes, those from the third to the last but one become the rows.
    """
    return shape[0], shape[1], prod(shape[2:-1]), prod(shape[2:][-1:])


def put_framed(
    edit: Editor, node: Node, op: FloatOperator, inputs: tuple[str, ...], framed_output: tuple[int, ...] | None = None
) -> None:
    """Replaces `node` by `op`, with Reshapes around it if the tensors do not have four axes.

    framed_output: the shape that `op` writes; by default, that of the node's output with four axes.
    """
    output = framed_output or four_axes(edit.shape(node.output))
    framed = []
    for name in inputs:
        shape = edit.shape(name)
        if len(shape) != 4:
            name = edit.insert(f"{node.name}:framed", Reshape(four_axes(shape)), (name,), f"{name}:4d", four_axes(shape))
        framed.append(name)
    if edit.shape(node.output) == output:
        edit.put(node.name, op, tuple(framed), node.output)
        return
    inner = edit.insert(node.name, op, tuple(framed), f"{node.output}:4d", output)
    edit.put(f"{node.name}:unframed", Reshape(edit.shape(node.output)), (inner,), node.output)


def keep_whole(edit: Editor, weights: str, moved: str, move: Callable[[np.ndarray], np.ndarray]) -> None:
    """Notes the whole numbers of a constant, `moved`, that holds the elements of `weights` as `move` gives them."""
    known = edit.wholes.get(weights)
    if known is not None and known.real is edit.constants[weights]:
        edit.wholes[moved] = Whole(edit.constants[moved], move(known.values), move(known.scale))


def weight_scales(edit: Editor, weights: str, shape: tuple[int, ...], axis: int, factor: float = 1.0) -> str | None:
    """The name of a new constant: `factor` times the scale of each output channel of int8 weights.

    None for float weights, and where scales differ within an output channel, of which the accelerator has one sum. shape: that of
    the weights. axis: the axis of their output channels.
    """
    if weights not in edit.scales:
        return None
    scales = edit.scales[weights]
    scales = scales.reshape((1,) * (len(shape) - scales.ndim) + scales.shape)
    channels = np.moveaxis(scales, axis, 0).reshape(scales.shape[axis], -1)
    if (channels != channels[:, :1]).any():
        return None
    channel = np.broadcast_to(channels[:, 0], shape[axis])
    scale = np.where(channel == 0, 1.0, channel)  # the weights of such a channel are 0 at any scale
    return edit.constant(f"{weights}:scales", scale * factor)
