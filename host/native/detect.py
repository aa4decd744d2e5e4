"""From a detector's int8 head tensors to its detections, natively or by `spec.detection`, alike to the bit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.detection.decode import Int8, Labels, candidates
from cnna.spec.detection.heads import Heads
from cnna.spec.detection.suppression import kept

MOST_CANDIDATES = 4096  # that suppression begins with, the surest ones


class Found(NamedTuple):
    """Detections in the model's picture, the surest first: boxes float32 [n, 4], scores float32 [n], classes int64 [n]."""

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]


class Settings(NamedTuple):
    """What counts. least: score; overlap: of boxes of one class; most: detections."""

    least: float
    overlap: float
    labels: Labels
    most: int


def detections(heads: Heads, tensors: Sequence[Int8], settings: Settings) -> Found:
    """The detections of one picture. tensors: int8 [C, H, W] of each head, dense."""
    made = candidates(heads, tensors, settings.least, settings.labels, MOST_CANDIDATES)
    stay = np.zeros(len(made.classes), bool)
    for number in np.unique(made.classes):
        mine = np.flatnonzero(made.classes == number)
        stay[mine[kept(made.boxes[mine], settings.overlap)]] = True
    index = np.flatnonzero(stay)[: settings.most]
    return Found(made.boxes[index], made.scores[index], made.classes[index])


def suppressed(boxes: NDArray[Any], overlap: float) -> NDArray[np.int64]:
    """The boxes to keep, by number, of boxes [N, 4] of one class, the surest first."""
    return kept(boxes, overlap)
