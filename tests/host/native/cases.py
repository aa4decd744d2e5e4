"""Drawn inputs of the native library's functions, with what numpy makes of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.manifest import Port
from cnna.spec.samples import pack

LAYOUTS = ("nchw", "nhwc", "bgr", "odd address", "every second column")
KINDS = ("uint8", "int8", "float32")


@dataclass(frozen=True, eq=False)
class PackCase:
    """Samples for a port, and the bytes that `spec.samples.pack` makes of them. images: may be more than there are samples."""

    port: Port
    ci: int
    table: NDArray[np.int8]
    x: NDArray[Any]
    images: int

    @property
    def wanted(self) -> NDArray[np.uint8]:
        """The bytes."""
        if self.x.dtype == np.uint8:
            q = pack.lookup(self.x, self.table)
        else:
            q = self.x if self.x.dtype == np.int8 else pack.quantise(self.x, self.port["scale"], self.port["zero"])
        return pack.pack(self.port, q[np.minimum(np.arange(self.images), len(q) - 1)], self.ci)


def pack_cases(count: int, seed: int) -> Iterator[PackCase]:
    """Ports of every kind: folded and not, with and without gaps, with channels below and above a word."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        ci = int(rng.choice([1, 2, 3, 4, 8, 12, 16, 32]))
        channels = int(rng.choice([1, 2, 3, 3, 3, 4, 5, 16, 17, 33]))
        height, width = (int(size) for size in rng.integers(1, 40, 2))
        port = drawn_port(rng, ci, (channels, height, width))
        table = rng.integers(-128, 128, (channels, 256), np.int8)
        if rng.random() < 0.5:
            table = _lines(rng, channels)
        if rng.random() < 0.3:
            table[:] = table[0]
        samples = int(rng.integers(1, 3))
        x = _laid_out(_drawn(rng, (samples, channels, height, width), port["scale"]), str(rng.choice(LAYOUTS)))
        yield PackCase(port, ci, table, x, samples + int(rng.integers(0, 2)))


def _lines(rng: np.random.Generator, channels: int) -> NDArray[np.int8]:
    """Tables as scaled pictures have them: straight lines. In a third of the draws one value of one channel is off by one."""
    slopes, offsets = rng.uniform(0.85, 1.1, (channels, 1)), rng.uniform(-20, 20, (channels, 1))
    lines = np.rint((np.arange(256) - 128) * slopes + offsets)
    if rng.random() < 0.3:
        lines[rng.integers(channels), rng.integers(256)] += 1
    return np.clip(lines, -128, 127).astype(np.int8)


def drawn_port(rng: np.random.Generator, ci: int, shape: tuple[int, ...], folds: float = 0.6) -> Port:
    """A port for pictures of a shape. folds: how likely it is folded."""
    channels, height, width = shape
    fold: Any = None
    inside = list(shape)
    if rng.random() < folds:
        span, step, before = rng.integers(1, 5, 2), rng.integers(1, 4, 2), rng.integers(-2, 4, 2)
        inside = [channels * int(span.prod()), int(rng.integers(1, height + 3)), int(rng.integers(1, width + 3))]
        fold = {"shape": inside, "step": step.tolist(), "span": span.tolist(), "before": before.tolist()}
    row = inside[2] * ci + int(rng.choice([0, 0, 5, 16]))
    block = row * inside[1] + int(rng.choice([0, 0, 7]))
    made: Any = {"name": "x", "shape": list(shape), "fold": fold, "zero": int(rng.integers(-128, 128))}
    made |= {"scale": float(np.float32(rng.uniform(0.001, 2))), "row_bytes": row, "block_bytes": block}
    made["image_bytes"] = -(-inside[0] // ci) * block + int(rng.choice([0, 3]))
    port: Port = made
    return port


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> NDArray[Any]:
    kind = str(rng.choice(KINDS))
    if kind != "float32":
        return rng.integers(0, 256, shape, np.uint8).view(kind)
    x = rng.normal(0, 100 * scale, shape).astype(np.float32)
    x.flat[::7] = (np.round(x.flat[::7] / scale) + 0.5) * np.float32(scale)  # ties
    x.flat[::31] = rng.choice(np.array([np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0], np.float32))
    return x


def _laid_out(x: NDArray[Any], layout: str) -> NDArray[Any]:
    """The same samples, with other strides."""
    last = x.transpose(0, 2, 3, 1)
    if layout == "nhwc":
        return np.ascontiguousarray(last).transpose(0, 3, 1, 2)
    if layout == "bgr":
        return np.ascontiguousarray(last[..., ::-1])[..., ::-1].transpose(0, 3, 1, 2)
    if layout == "odd address":
        return misplaced(x)
    return np.repeat(x, 2, axis=3)[..., ::2] if layout == LAYOUTS[-1] else x


def misplaced(x: NDArray[Any]) -> NDArray[Any]:
    """The same values, dense, at an address that no number of theirs is aligned to."""
    view = np.zeros(x.nbytes + 8, np.uint8)[3 : 3 + x.nbytes].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def score_rows(count: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Rows of scores, some with equal values, infinity or NaN."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 1200)))
        x = rng.normal(0, rng.choice([0.1, 1, 10, 60]), shape).astype(np.float32)
        if number % 3 == 0:
            x = np.round(x)
        if number % 9 == 0:
            x.flat[int(rng.integers(x.size))] = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32))
        yield x


def pictures(count: int, seed: int) -> Iterator[tuple[NDArray[np.uint8], tuple[int, int]]]:
    """Pictures, and sizes to scale them to."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows, columns, *size = (int(value) for value in rng.integers(1, 120, 4))
        if number % 5 == 0:  # several stretches of a row
            columns, size[1] = columns * int(rng.integers(1, 12)), size[1] * int(rng.integers(1, 6))
        shape = (rows, columns, int(rng.choice([1, 3, 3, 4, 2, 6])))
        values = rng.integers(0, 256, shape, np.uint8) if number % 2 else rng.choice(np.array([0, 255], np.uint8), shape)
        yield values, (size[0], size[1])
