"""Areas of a map, as of text: cells that pass and touch each other, by an edge or a corner, are one.

Each row's cells become runs, and runs that touch one of the row before become one area. host/native/detect_areas.cpp does the same
natively, equal to the bit. Such maps are trained shrunk, so boxes grow again, as those who published them (DBNet) have it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CELL_SCORE = 0.3  # from which on a cell belongs to an area
GROWTH = 1.5  # of an area divided by its edge: how far a box grows on each side
LEAST_SIDE = 3  # in cells, of the shorter side, from the middle of the first cell to that of the last

Ints = NDArray[np.int64]


class Areas(NamedTuple):
    """boxes: float64 [n, 4], left, top, right, bottom, in cells. scores: float32, the means of cells. cells: the first of each."""

    boxes: NDArray[np.float64]
    scores: NDArray[np.float32]
    cells: Ints


def found(scores: NDArray[np.float32]) -> Areas:
    """The areas of a map [rows, columns], in the order of their first cells."""
    columns = scores.shape[1]
    row, begin, end = _runs(scores >= np.float32(CELL_SCORE))
    first = _joined(row, begin, end, columns)
    heads, area = np.unique(first, return_inverse=True)
    low, high = np.full((2, len(heads)), 1 << 30), np.full((2, len(heads)), -1)
    for axis, (least, most) in enumerate(((begin, end - 1), (row, row))):
        np.minimum.at(low[axis], area, least)
        np.maximum.at(high[axis], area, most)
    every = np.repeat(area, end - begin)
    cells = np.bincount(every, minlength=len(heads))
    values = scores[scores >= np.float32(CELL_SCORE)].astype(np.float64)  # in the order of runs
    mean = np.bincount(every, values, len(heads)) / np.maximum(cells, 1)
    wide, tall = high - low
    large = np.minimum(wide, tall) >= LEAST_SIDE
    grown = (GROWTH * (wide * tall) / np.maximum(2 * (wide + tall), 1))[large]
    boxes = np.stack([low[0][large] - grown, low[1][large] - grown, high[0][large] + grown, high[1][large] + grown], axis=1)
    return Areas(boxes, mean[large].astype(np.float32), (row * columns + begin)[heads][large])


def _runs(true: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Row, first column and the column behind of each run."""
    steps = np.diff(np.pad(true, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, begin = np.nonzero(steps > 0)
    return row, begin, np.nonzero(steps < 0)[1]


def _joined(row: Ints, begin: Ints, end: Ints, columns: int) -> Ints:
    """For each run, the first run of its area."""
    span = columns + 2
    low = np.searchsorted(row * span + end, (row + 1) * span + begin)
    high = np.searchsorted(row * span + begin, (row + 1) * span + end, side="right")
    count = np.maximum(high - low, 0)
    upper = np.repeat(np.arange(len(row)), count)
    lower = np.arange(len(upper)) - np.repeat(np.cumsum(count) - count - low, count)
    first = np.arange(len(row))
    while True:  # the least number spreads over what touches, and to where that points
        before = first.copy()
        least = np.minimum(first[upper], first[lower])
        for side in (upper, lower):
            np.minimum.at(first, side, least)
            np.minimum.at(first, before[side], least)
        first = first[first]
        if np.array_equal(first, before):
            return first
