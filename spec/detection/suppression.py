"""Overlap of boxes, and which of them are doubles. host/native/detect.cpp does the same natively, equal to the bit in float32."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 64  # boxes that are compared with all others at once


def iou(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float32]:
    """Intersection over union of boxes [N, 4] and [M, 4], as [N, M]; 0 where neither box has an area."""
    shared = _shared(a, b, 0)
    shared *= _shared(a, b, 1)
    own, other = (np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (a, b))
    whole = own[:, None] + other[None]
    whole -= shared
    return np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0).astype(np.float32, copy=False)


def _shared(a: NDArray[Any], b: NDArray[Any], axis: int) -> NDArray[Any]:
    """The length that boxes share along an axis, [N, M]; one axis after the other is quicker than an array of both."""
    found: NDArray[Any] = np.minimum(a[:, axis + 2, None], b[None, :, axis + 2])
    found -= np.maximum(a[:, axis, None], b[None, :, axis])
    return np.maximum(found, 0, out=found)


def kept(boxes: NDArray[Any], overlap: float) -> NDArray[np.int64]:
    """Numbers of the boxes to keep, of boxes [N, 4], the surest first: none overlaps one before it that is kept by more."""
    rest, found = np.arange(len(boxes)), list[NDArray[np.int64]]()
    while len(rest):
        block, rest = rest[:BLOCK], rest[BLOCK:]
        double = ~(iou(boxes[block], boxes[block]) <= overlap)
        stays = np.ones(len(block), bool)
        for number in range(len(block)):
            if stays[number]:
                stays[number + 1 :] &= ~double[number, number + 1 :]
        found.append(block[stays])
        if len(rest):
            rest = rest[(iou(boxes[found[-1]], boxes[rest]) <= overlap).all(axis=0)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)
