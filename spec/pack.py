"""Tensors as the accelerator keeps them in DDR, and back: quantisation and the layout of a manifest's ports.

A port (docs/artifact.md) says where image n, channel block b, row y begins; channels beyond the last are the zero point. A folded
input is packed as another picture: each of its pixels holds several of the image's, and the zero point where there are none.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import DataError
from cnna.spec.manifest import Fold, Port

Int8 = NDArray[np.int8]
Float = NDArray[np.float32]


def quantise(x: NDArray[Any], scale: float, zero: int, name: str = "x") -> Int8:
    """clamp(round_half_even(x / scale) + zero) as ONNX QuantizeLinear has it: float32 arithmetic; any shape.

    Infinity, and what overflows on the way, saturates. DataError: NaN, which no int8 stands for; `name` is what it calls x.
    """
    with np.errstate(over="ignore"):
        steps = np.rint(np.asarray(x, np.float32) / np.float32(scale))
    if np.isnan(steps).any():
        raise DataError(f"tensor {name} holds NaN, for which int8 has no value")
    return np.clip(steps + np.float32(zero), -128, 127).astype(np.int8)


def lookup(x: NDArray[np.uint8], table: Int8) -> Int8:
    """int8 of x's shape [N, C, ...] (a view of any strides): table[c] has channel c's value for each of the 256."""
    q = np.empty(x.shape, np.int8)
    for channel, values in enumerate(table):
        np.take(values, x[:, channel], out=q[:, channel], mode="clip")  # clip: no test of each index, and none is out of range
    return q


def dequantise(q: Int8, scale: float, zero: int) -> Float:
    """(q - zero) * scale in float32, as ONNX DequantizeLinear; any shape."""
    return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def pack(port: Port, x: Int8, ci: int) -> NDArray[np.uint8]:
    """int8 [N, C, H, W] as the bytes of the port from its offset on, N * image_bytes of them; what x leaves is the zero point."""
    memory = np.full(len(x) * port["image_bytes"], port["zero"], np.int8)
    fold = port.get("fold") or Fold(shape=list(x.shape[1:]), step=[1, 1], span=[1, 1], before=[0, 0])
    channels, height, width = x.shape[1:]
    words = _words(port, memory, fold["shape"], ci)
    rows = [_shared(*axis, words.shape[2], height) for axis in _offsets(fold, 0)]
    columns = [_shared(*axis, words.shape[3], width) for axis in _offsets(fold, 1)]
    for place, ((to_y, from_y), (to_x, from_x)) in enumerate(product(rows, columns)):
        _fill(words[:, :, to_y, to_x], x[:, :, from_y, from_x], place * channels)
    return memory.view(np.uint8)


def unpack(port: Port, memory: bytes | NDArray[np.uint8], ci: int) -> Int8:
    """int8 [N, C, H, W] from the bytes of a port that is not folded, as many images as they hold."""
    channels, height, width = port["shape"]
    words = _words(port, np.frombuffer(memory, np.int8), port["shape"], ci).transpose(0, 1, 4, 2, 3)
    return np.ascontiguousarray(words.reshape(len(words), -1, height, width)[:, :channels])


def _words(port: Port, memory: Int8, shape: Sequence[int], ci: int) -> Int8:
    """A view of the port's bytes: [image, block, row, column, channel in block] of whole images."""
    channels, height, width = shape
    images, blocks = len(memory) // port["image_bytes"], -(-channels // ci)
    strides = (port["image_bytes"], port["block_bytes"], port["row_bytes"], ci, 1)
    return np.ndarray((images, blocks, height, width, ci), np.int8, memory, strides=strides)  # ValueError: beyond the bytes


def _offsets(fold: Fold, axis: int) -> Iterator[tuple[int, int]]:
    """(step, first) of each row, or column, that a folded pixel holds: pixel p holds p * step + first."""
    for within in range(fold["span"][axis]):
        yield fold["step"][axis], within - fold["before"][axis]


def _shared(step: int, first: int, pixels: int, size: int) -> tuple[slice, slice]:
    """Folded pixels whose p * step + first lies within 0..size-1, and what lies there."""
    low = max(0, -(first // step))
    high = max(low, min(pixels, (size - 1 - first) // step + 1))
    start = low * step + first
    return slice(low, high), slice(start, max(start, (high - 1) * step + first + 1), step)


def _fill(words: Int8, x: Int8, start: int) -> None:
    """Channels of x [N, C, h, w] into those of the words [N, blocks, h, w, ci] from `start` on."""
    ci, (channels, height, width) = words.shape[-1], x.shape[1:]
    count = 1 if height * width > ci else ci  # channels at once: numpy is quick along a plane, or along the channels
    first = 0
    while first < channels:
        block, lane = divmod(start + first, ci)
        last = min(first + count, channels, first + ci - lane)
        words[:, block, :, :, lane : lane + last - first] = x[:, first:last].transpose(0, 2, 3, 1)
        first = last
