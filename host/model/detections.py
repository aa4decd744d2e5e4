"""Turns the answers of detectors into boxes: decodes SSD and YOLO heads, suppresses doubles, measures overlap. Needs numpy alone.

Boxes are float32 [N, 4]: left, top, right, bottom. `ssd_boxes` or one of the `yolo` functions turns a detector's answer to one
picture into boxes, and `best` picks the detections from boxes and scores. `matches` compares two sets, such as int8 with float.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.native.detect import suppressed
from cnna.spec.detection.suppression import iou
from cnna.spec.errors import DataError

__all__ = [
    *("Boxes", "Detections", "best", "corners", "iou", "matches", "ssd_boxes", "ssd_priors", "suppress", "yolo_rows"),
    *("yolov5_rows", "yolox_rows"),
]

Boxes = NDArray[np.float32]
VARIANCES = (0.1, 0.2)  # of centres and of sizes, in SSD and its descendants


class Detections(NamedTuple):
    """The detections in one picture, the surest first: boxes [N, 4], scores [N], classes [N]."""

    boxes: Boxes
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]


def corners(centred: NDArray[Any]) -> Boxes:
    """Boxes [N, 4], from centres x, y and sizes w, h."""
    centre, half = centred[:, :2], centred[:, 2:4] / 2
    return np.concatenate([centre - half, centre + half], axis=1).astype(np.float32)


def suppress(boxes: NDArray[Any], scores: NDArray[Any], overlap: float = 0.5) -> NDArray[np.int64]:
    """Non-maximum suppression: indices of the boxes to keep, the surest first. None overlaps a surer one by more than `overlap`."""
    order = np.argsort(-scores, kind="stable")
    chosen: NDArray[np.int64] = order[suppressed(boxes[order], overlap)]
    return chosen


def best(boxes: NDArray[Any], scores: NDArray[Any], least: float = 0.5, overlap: float = 0.5, most: int = 200) -> Detections:
    """The detections among boxes [N, 4] with scores [N, classes]; doubles within a class are suppressed.

    `scores` must not have a class for the background. DataError: the numbers of scores and boxes differ.
    """
    if len(boxes) != len(scores) or scores.ndim != 2 or boxes.shape[1:] != (4,):
        raise DataError(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} must be [N, 4] and [N, classes]")
    found = []
    for number in range(scores.shape[1]):
        sure = np.flatnonzero(scores[:, number] >= least)
        kept = sure[suppress(boxes[sure], scores[sure, number], overlap)]
        found += [(scores[index, number], index, number) for index in kept]
    found.sort(key=lambda one: -one[0])
    index = np.array([one[1] for one in found[:most]], np.int64)
    values = np.array([one[0] for one in found[:most]], np.float32)
    return Detections(boxes[index].astype(np.float32), values, np.array([one[2] for one in found[:most]], np.int64))


def ssd_priors(picture: tuple[int, int], strides: Sequence[int], sizes: Sequence[Sequence[float]]) -> Boxes:
    """The boxes that an SSD's cells begin with: [N, 4], centre and size as shares of the picture (height, width).

    sizes: for each stride, the sides in pixels of the square boxes of each cell. Order: strides, rows, columns, sizes.
    """
    height, width = picture
    found = []
    for stride, edges in zip(strides, sizes, strict=True):
        rows, columns = -(-height // stride), -(-width // stride)
        y, x = np.mgrid[:rows, :columns].astype(np.float64) + 0.5
        for_each = [np.stack([x / columns, y / rows, x * 0 + edge / width, y * 0 + edge / height], axis=-1) for edge in edges]
        found.append(np.stack(for_each, axis=2).reshape(-1, 4))
    return np.concatenate(found).astype(np.float32)


def ssd_boxes(offsets: NDArray[Any], priors: NDArray[Any], variances: tuple[float, float] = VARIANCES) -> Boxes:
    """Boxes, in the priors' units, from an SSD's offsets [N, 4]: moves as shares of the prior's size, sizes as logarithms."""
    if offsets.shape != priors.shape:
        raise DataError(f"offsets {list(offsets.shape)} do not fit priors {list(priors.shape)}: other strides or sizes?")
    centre = priors[:, :2] + offsets[:, :2] * variances[0] * priors[:, 2:]
    return corners(np.concatenate([centre, priors[:, 2:] * np.exp(offsets[:, 2:] * variances[1])], axis=1))


def yolo_rows(rows: NDArray[Any], objectness: bool) -> tuple[Boxes, NDArray[np.float32]]:
    """Boxes and scores [N, classes] from decoded rows [N, 4 + classes]: centre and size in pixels, then scores.

    objectness: a fifth number says how likely there is any object, as in YOLOv5 and YOLOX. YOLOv8 has none; its answer
    [4 + classes, N] must be transposed first.
    """
    scores = rows[:, 5:] * rows[:, 4:5] if objectness else rows[:, 4:]
    return corners(rows[:, :4]), scores.astype(np.float32)


def yolox_rows(rows: NDArray[Any], picture: tuple[int, int], strides: Sequence[int]) -> NDArray[np.float32]:
    """Decodes the rows of a YOLOX that was exported without decoding: moves in cells of each stride, sizes as their logarithms."""
    cells = [(picture[0] // stride, picture[1] // stride, stride) for stride in strides]
    places = [_places(height, width).reshape(-1, 2) for height, width, _ in cells]
    stride = np.concatenate([np.full((height * width, 1), step, np.float32) for height, width, step in cells])
    place = np.concatenate(places)
    if len(place) != len(rows):
        raise DataError(
            f"{len(rows)} rows do not fit a picture of {list(picture)} at strides {list(strides)}: that has {len(place)}"
        )
    centre, size = (rows[:, :2] + place) * stride, np.exp(rows[:, 2:4]) * stride
    return np.concatenate([centre, size, rows[:, 4:]], axis=1).astype(np.float32)


def yolov5_rows(head: NDArray[Any], anchors: Sequence[tuple[float, float]], stride: int) -> NDArray[np.float32]:
    """Decodes one raw head of a YOLOv5, [anchors * (5 + classes), H, W], into rows. anchors: width and height in pixels."""
    channels, height, width = head.shape
    if channels % len(anchors):
        raise DataError(f"a head of {channels} channels has no {len(anchors)} anchors")
    y = 1 / (1 + np.exp(-head.astype(np.float32).reshape(len(anchors), -1, height, width).transpose(0, 2, 3, 1)))
    place = _places(height, width)
    centre = (y[..., :2] * 2 - 0.5 + place) * stride
    size = (y[..., 2:4] * 2) ** 2 * np.array(anchors, np.float32)[:, None, None]
    rows: NDArray[np.float32] = np.concatenate([centre, size, y[..., 4:]], axis=-1).reshape(-1, y.shape[-1]).astype(np.float32)
    return rows


def matches(found: Detections, wanted: Detections, overlap: float = 0.5) -> list[tuple[int, int, float]]:
    """Pairs of detections of one class that overlap by at least `overlap`, and by how much. Each is in one pair at most."""
    overlaps = iou(found.boxes, wanted.boxes) * (found.classes[:, None] == wanted.classes[None])
    pairs: list[tuple[int, int, float]] = []
    for place in np.argsort(-overlaps, axis=None, kind="stable"):
        a, b = divmod(int(place), max(len(wanted.boxes), 1))
        if overlaps[a, b] < overlap:
            break
        if a not in {pair[0] for pair in pairs} and b not in {pair[1] for pair in pairs}:
            pairs.append((a, b, float(overlaps[a, b])))
    return pairs


def _places(height: int, width: int) -> NDArray[np.float32]:
    """Column and row of each cell: [height, width, 2]."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([columns, rows], axis=-1).astype(np.float32)
