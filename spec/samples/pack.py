"""Converts tensors to the form that the accelerator keeps in DDR, and back: quantisation and the layout of a manifest's ports.

A port (docs/artifact.md) says where row y of channel block b of image n begins. Channels beyond the last hold the zero point. A
folded input is packed as another picture: each of its pixels holds several pixels of the image, or the zero point outside of it.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import DataError
from cnna.spec.manifest import FoldEntry, Port

WHOLE_BYTES = ("int8", "uint8")  # types of a model's inputs and outputs that are the accelerator's bytes, as `from_whole` has them

Int8 = NDArray[np.int8]
Float = NDArray[np.float32]


def quantise(x: NDArray[Any], scale: float, zero: int, name: str = "x") -> Int8:
    """clamp(round_half_even(x / scale) + zero) as ONNX QuantizeLinear has it: float32 arithmetic; any shape.

    Infinity and overflows saturate. DataError: a NaN, which int8 cannot hold; the message calls x `name`.
    """
    with np.errstate(over="ignore"):
        steps = np.rint(np.asarray(x, np.float32) / np.float32(scale))
    if np.isnan(steps).any():
        raise DataError(f"tensor {name} holds NaN, for which int8 has no value")
    return np.clip(steps + np.float32(zero), -128, 127).astype(np.int8)


def lookup(x: NDArray[np.uint8], table: Int8) -> Int8:
    """int8 in the shape of x [N, C, ...], which may have any strides. table[c] is channel c's result for each of the 256 values."""
    q = np.empty(x.shape, np.int8)
    for channel, values in enumerate(table):
        np.take(values, x[:, channel], out=q[:, channel], mode="clip")  # clip is the quickest mode; no index is out of range
    return q


def dequantise(q: Int8, scale: float, zero: int) -> Float:
    """(q - zero) * scale in float32, as ONNX DequantizeLinear; any shape."""
    return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def from_whole(x: NDArray[Any]) -> Int8:
    """int8 for integers that are quantised already, of a type of WHOLE_BYTES: uint8 less 128, as its zero point is."""
    return (x ^ np.uint8(128)).view(np.int8) if x.dtype == np.uint8 else x


def to_whole(q: Int8, dtype: str) -> NDArray[Any]:
    """The inverse of `from_whole`."""
    return q.view(np.uint8) ^ np.uint8(128) if dtype == "uint8" else q


def pack(port: Port, x: Int8, ci: int) -> NDArray[np.uint8]:
    """int8 [N, C, H, W] as N * image_bytes bytes, from the port's offset on. Bytes that x does not fill hold the zero point."""
    memory = np.full(len(x) * port["image_bytes"], port["zero"], np.int8)
    fold = port.get("fold") or FoldEntry(shape=list(x.shape[1:]), step=[1, 1], span=[1, 1], before=[0, 0])
    channels, height, width = x.shape[1:]
    words = _words(port, memory, fold["shape"], ci)
    rows = [_shared(*axis, words.shape[2], height) for axis in _offsets(fold, 0)]
    columns = [_shared(*axis, words.shape[3], width) for axis in _offsets(fold, 1)]
    for place, ((to_y, from_y), (to_x, from_x)) in enumerate(product(rows, columns)):
        _fill(words[:, :, to_y, to_x], x[:, :, from_y, from_x], place * channels)
    return memory.view(np.uint8)


def unpack(port: Port, memory: bytes | NDArray[np.uint8], ci: int) -> Int8:
    """int8 [N, C, H, W] of all images that the bytes hold. The port must not be folded."""
    channels, height, width = port["shape"]
    words = _words(port, np.frombuffer(memory, np.int8), port["shape"], ci).transpose(0, 1, 4, 2, 3)
    return np.ascontiguousarray(words.reshape(len(words), -1, height, width)[:, :channels])


def _words(port: Port, memory: Int8, shape: Sequence[int], ci: int) -> Int8:
    """A view of the bytes of whole images: [image, block, row, column, channel in block]."""
    channels, height, width = shape
    images, blocks = len(memory) // port["image_bytes"], -(-channels // ci)
    strides = (port["image_bytes"], port["block_bytes"], port["row_bytes"], ci, 1)
    return np.ndarray((images, blocks, height, width, ci), np.int8, memory, strides=strides)  # ValueError: beyond the bytes


def _offsets(fold: FoldEntry, axis: int) -> Iterator[tuple[int, int]]:
    """(step, first) for each row (or column) that a folded pixel holds: folded pixel p holds row p * step + first."""
    for within in range(fold["span"][axis]):
        yield fold["step"][axis], within - fold["before"][axis]


def _shared(step: int, first: int, pixels: int, size: int) -> tuple[slice, slice]:
    """The folded pixels p for which p * step + first lies within 0..size-1, and these rows (or columns) of the image."""
    low = max(0, -(first // step))
    high = max(low, min(pixels, (size - 1 - first) // step + 1))
    start = low * step + first
    return slice(low, high), slice(start, max(start, (high - 1) * step + first + 1), step)


def _fill(words: Int8, x: Int8, start: int) -> None:
    """Copies the channels of x [N, C, h, w] to those of the words [N, blocks, h, w, ci], from channel `start` on."""
    ci, (channels, height, width) = words.shape[-1], x.shape[1:]
    # How many channels are copied at once: numpy is quick along a plane, or along the channels.
    count = 1 if height * width > ci else ci
    first = 0
    while first < channels:
        block, lane = divmod(start + first, ci)
        last = min(first + count, channels, first + ci - lane)
        words[:, block, :, :, lane : lane + last - first] = x[:, first:last].transpose(0, 2, 3, 1)
        first = last
