"""Faces from the answers of Ultra-Light-Fast-Generic-Face-Detector (320x240), and how well two networks' faces agree.

The model returns scores [n, 4420, 2], and offsets [n, 4420, 4] from anchors. Anchors stand at the centres of cells of 8, 16, 32 and
64 pixels, each with two or three sizes. Boxes are (left, top, right, bottom) as shares of the picture.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 320, 240
STRIDES = (8, 16, 32, 64)
SIZES = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))  # pixels, of each stride's anchors
CENTRE_VARIANCE, SIZE_VARIANCE = 0.1, 0.2
SCORE, OVERLAP, SAME = 0.7, 0.3, 0.5  # thresholds: a face; two boxes of one face; the same face in two networks' answers

Boxes = NDArray[np.float64]


def anchors() -> Boxes:
    """The anchors, [4420, 4]: centre x, centre y, width, height."""
    found = []
    for stride, sizes in zip(STRIDES, SIZES, strict=True):
        columns, rows = -(-WIDTH // stride), -(-HEIGHT // stride)
        for row in range(rows):
            for column in range(columns):
                centre = ((column + 0.5) * stride / WIDTH, (row + 0.5) * stride / HEIGHT)
                found += [(*centre, size / WIDTH, size / HEIGHT) for size in sizes]
    return np.clip(np.array(found), 0, 1)


def faces(scores: NDArray[Any], offsets: NDArray[Any]) -> Boxes:
    """The faces in one picture, best first: [k, 4]."""
    places = anchors()
    centre = offsets[:, :2] * CENTRE_VARIANCE * places[:, 2:] + places[:, :2]
    size = np.exp(offsets[:, 2:] * SIZE_VARIANCE) * places[:, 2:]
    boxes = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    order = [index for index in np.argsort(-scores[:, 1], kind="stable") if scores[index, 1] > SCORE]
    kept: list[int] = []
    for index in order:
        if not kept or overlap(boxes[index], boxes[kept]).max() <= OVERLAP:
            kept.append(index)
    return boxes[kept].reshape(-1, 4)


def overlap(box: Boxes, boxes: Boxes) -> NDArray[np.float64]:
    """Intersection over union of one box with each of [k, 4]."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    return common / (np.prod(box[2:] - box[:2]) + np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) - common)


def recall(found: dict[str, NDArray[Any]], wanted: dict[str, NDArray[Any]]) -> tuple[int, int]:
    """(faces of `wanted` that `found` has too, faces of `wanted`) over all pictures; each face found counts once."""
    common = total = 0
    for index in range(len(wanted["scores"])):
        ours, theirs = (faces(answer["scores"][index], answer["boxes"][index]) for answer in (found, wanted))
        total += len(theirs)
        free = list(range(len(ours)))
        for box in theirs:
            if free and (shares := overlap(box, ours[free])).max() > SAME:
                free.pop(int(shares.argmax()))
                common += 1
    return common, total
