"""Hand-written register programs for the emulator's tests: a builder of writes, and how words lie in memory."""

import numpy as np

from cnna.spec.config import Config
from cnna.spec.regmap import REGISTERS, command_writes


class Program:
    """Collects register writes. `go(engine, **members)` adds one command, with members named as in `regmap.command_fields`."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []

    def write(self, name: str, value: int) -> None:
        self.writes.append((REGISTERS[name].offset, value & 0xFFFFFFFF))

    def go(self, engine: str, **members: int) -> None:
        self.writes += command_writes(engine, members)

    def bytes(self) -> bytes:
        return np.array(self.writes, "<u4").tobytes()


def to_words(config: Config, x: np.ndarray, zero: int) -> np.ndarray:
    """int8 [images, C, H, W] as words int8 [images, blocks, H * W, ci]: channels beyond the last are `zero`."""
    images, channels, height, width = x.shape
    blocks = -(-channels // config.ci)
    full = np.full((images, blocks * config.ci, height, width), zero, np.int8)
    full[:, :channels] = x
    return full.reshape(images, blocks, config.ci, height * width).transpose(0, 1, 3, 2)


def from_words(words: np.ndarray, channels: int, height: int, width: int) -> np.ndarray:
    """The inverse of `to_words`: words [images, blocks, H * W, ci] to [images, channels, H, W]."""
    images, blocks, _, ci = words.shape
    return words.transpose(0, 1, 3, 2).reshape(images, blocks * ci, height, width)[:, :channels]


def pack_params(offset: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> bytes:
    """Requantiser parameters as ring bytes, 8 for each channel."""
    word = (np.asarray(offset, np.int64) & 0xFFFFFFFF) | (np.asarray(factor, np.int64) & 0x3FFFFFF) << 32
    return (word.astype(np.uint64) | np.asarray(shift, np.uint64) << np.uint64(58)).tobytes()


def stripes(config: Config, ring_words: bytes) -> bytes:
    """A weight stream as it lies in DDR: port 0's stripe of all ring words, then port 1's, ..."""
    words = np.frombuffer(ring_words, np.uint8).reshape(-1, config.ports, config.stripe_bytes)
    return np.ascontiguousarray(words.transpose(1, 0, 2)).tobytes()
