"""Tensors as the accelerator keeps them in DDR, and back: quantisation and the layout of a manifest's ports.

A port (docs/artifact.md) says where image n, channel block b, row y begins; channels beyond the last are the zero point.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Port = Mapping[str, Any]
Int8 = NDArray[np.int8]
Float = NDArray[np.float32]


def quantise(x: NDArray[Any], scale: float, zero: int) -> Int8:
    """clamp(round_half_even(x / scale) + zero) as ONNX QuantizeLinear has it: float32 arithmetic; any shape."""
    steps = np.rint(np.asarray(x, np.float32) / np.float32(scale))
    return np.clip(steps + np.float32(zero), -128, 127).astype(np.int8)


def dequantise(q: Int8, scale: float, zero: int) -> Float:
    """(q - zero) * scale in float32, as ONNX DequantizeLinear; any shape."""
    return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def pack(port: Port, x: Int8, ci: int) -> NDArray[np.uint8]:
    """int8 [N, C, H, W] as the bytes of the port from its offset on, N * image_bytes of them; gaps are 0."""
    images, channels, height, width = x.shape
    memory = np.zeros(images * port["image_bytes"], np.uint8)
    blocks = -(-channels // ci)
    full = np.full((images, blocks * ci, height, width), port["zero"], np.int8)
    full[:, :channels] = x
    words = full.reshape(images, blocks, ci, height, width).transpose(0, 1, 3, 4, 2)
    memory[_bytes_of(port, words.shape)] = np.ascontiguousarray(words).view(np.uint8)
    return memory


def unpack(port: Port, memory: bytes | NDArray[np.uint8], ci: int) -> Int8:
    """int8 [N, C, H, W] from the bytes of a port, as many images as they hold."""
    raw = np.frombuffer(memory, np.uint8)
    channels, height, width = port["shape"]
    shape = (len(raw) // port["image_bytes"], -(-channels // ci), height, width, ci)
    words = raw[_bytes_of(port, shape)].view(np.int8).transpose(0, 1, 4, 2, 3)
    return np.ascontiguousarray(words.reshape(shape[0], -1, height, width)[:, :channels])


def _bytes_of(port: Port, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Byte of each element of [image, block, row, column, channel in block]."""
    image, block, row, column, channel = np.ogrid[tuple(slice(size) for size in shape)]
    row_start = image * port["image_bytes"] + block * port["block_bytes"] + row * port["row_bytes"]
    found: NDArray[np.int64] = row_start + column * shape[-1] + channel
    return found
