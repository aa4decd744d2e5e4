"""Reads the window of an ONNX Conv or pool: `auto_pad`, defaults, and one spatial axis as two."""

from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Window


def window_of(op: Onnx, kernel: tuple[int, ...], size: tuple[int, ...]) -> Window:
    """Of a map of `size` (one or two axes); one axis counts as columns of a map with one row."""
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
