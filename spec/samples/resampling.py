"""Scales pictures, uint8 [rows, columns, channels]: by triangles (bilinear) or by the mean of an area.

Both filters become wider where a picture becomes smaller, as Pillow's do, so that no pixel is left out; answers are within one unit
of Pillow's. Weights are whole numbers that add up to 2^14; between the two passes a value has 6 bits more than a byte.
host/native/resize.cpp does the same natively, equal to the bit.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Filter = Literal["bilinear", "area"]
FILTERS: tuple[Filter, ...] = ("bilinear", "area")
WEIGHT_BITS, EXTRA_BITS = 14, 6


class Weights(NamedTuple):
    """first: for each pixel of the answer the first pixel that it takes. taps: int64 [pixels, n], the weights from there on."""

    first: NDArray[np.int64]
    taps: NDArray[np.int64]


def weights(kind: Filter, size: int, wanted: int) -> Weights:
    """The weights with which `wanted` pixels are made of `size` pixels of a line."""
    scale = size / wanted
    wide = max(scale, 1.0)
    support = (0.5 if kind == "area" else 1.0) * wide
    count = min(size, int(np.ceil(support)) * 2 + 1)
    center = (np.arange(wanted) + 0.5) * scale
    low = np.maximum(0, (center - support + 0.5).astype(np.int64))
    high = np.minimum(size, (center + support + 0.5).astype(np.int64))
    first = np.minimum(low, size - count)
    pixels = first[:, None] + np.arange(count)
    heights = _height(kind, (pixels + 0.5 - center[:, None]) / wide)
    heights[(pixels < low[:, None]) | (pixels >= high[:, None])] = 0
    until = np.cumsum(heights, axis=1)  # one after the other, as a loop adds them
    # what all weights up to each have together is rounded, so that no rest is left over for one of them
    rounded = np.floor(until / until[:, -1:] * (1 << WEIGHT_BITS) + 0.5).astype(np.int64)
    taps = np.diff(rounded, axis=1, prepend=0)
    return Weights(first, taps)


def resize(picture: NDArray[np.uint8], size: tuple[int, int], kind: Filter = "bilinear") -> NDArray[np.uint8]:
    """The picture with so many rows and columns."""
    across, down = weights(kind, picture.shape[1], size[1]), weights(kind, picture.shape[0], size[0])
    lines = _pass(picture.astype(np.int64).transpose(1, 0, 2), across, WEIGHT_BITS - EXTRA_BITS).transpose(1, 0, 2)
    return _pass(lines, down, WEIGHT_BITS + EXTRA_BITS).astype(np.uint8)


def _pass(x: NDArray[Any], how: Weights, shift: int) -> NDArray[np.int64]:
    """Scales the first axis."""
    answer = np.full((len(how.first), *x.shape[1:]), 1 << (shift - 1), np.int64)
    for tap, values in enumerate(how.taps.T):
        answer += values[:, None, None] * x[how.first + tap]
    return answer >> shift


def _height(kind: Filter, distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The filter, where a pixel of the wider of the two pictures has the width 1."""
    if kind == "area":
        return ((distance > -0.5) & (distance <= 0.5)).astype(np.float64)
    return np.maximum(0.0, 1.0 - np.abs(distance))
