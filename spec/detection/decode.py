"""Finds candidates on the integers of head tensors, and decodes them alone, in numpy.

host/native/detect.cpp does the same natively, equal to the bit.

A score passes if its float32 value is at least the threshold. Which integers that are, is known before any tensor is read.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.detection.heads import VALUES, GridEntry, Heads, NumberEntry

Labels = Literal["all", "best"]
LABELS: tuple[Labels, ...] = ("all", "best")
NEVER = 128  # a least integer that none reaches

Int8 = NDArray[np.int8]
Cells = tuple[NDArray[np.int64], NDArray[np.int64]]  # rows and columns


class Candidates(NamedTuple):
    """Boxes whose score passes, the surest first; of equal ones that of the lowest class, then of the lowest row of the output.

    boxes: float32 [n, 4], left, top, right, bottom in the model's picture. rows: of the model's output.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]
    rows: NDArray[np.int64]


class _Passed(NamedTuple):
    """What passes in one grid."""

    grid: int
    cells: NDArray[np.int64]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]


def candidates(heads: Heads, tensors: Sequence[Int8], least: float, labels: Labels, most: int) -> Candidates:
    """The `most` surest candidates of one picture. tensors: int8 [C, H, W] of each head. labels: a candidate for each class that
    passes, or for the best class alone.
    """
    found = [_passed(heads, number, tensors, least, labels) for number in range(len(heads.entry["grids"]))]
    scores, classes = (np.concatenate([getattr(one, key) for one in found]) for key in ("scores", "classes"))
    grids = np.concatenate([np.full(len(one.cells), one.grid) for one in found])
    cells = np.concatenate([one.cells for one in found])
    rows = np.concatenate([_rows(heads.entry["grids"][one.grid], one.cells) for one in found])
    order = np.lexsort((rows, classes, -scores))[:most]
    boxes = np.zeros((len(order), 4), np.float32)
    for number in np.unique(grids[order]):
        mine = grids[order] == number
        boxes[mine] = boxes_at(heads, int(number), tensors, cells[order][mine])
    return Candidates(boxes, scores[order], classes[order], rows[order])


def _passed(heads: Heads, number: int, tensors: Sequence[Int8], least: float, labels: Labels) -> _Passed:
    grid = heads.entry["grids"][number]
    head, channel, table = grid["classes"]
    q = tensors[head][channel : channel + heads.entry["labels"]].reshape(heads.entry["labels"], -1)
    limits = least_integers(heads, grid, least)
    limit, sure = np.int16(limits[0]), np.ones(1, np.float32)
    if grid["objectness"]:
        there = tensors[grid["objectness"][0]][grid["objectness"][1]].reshape(-1)
        limit = limits[there.astype(np.int16) + 128]
        sure = heads.tables[grid["objectness"][2]][there.astype(np.int16) + 128]
    if labels == "all":
        classes, cells = np.nonzero(q >= limit)
        scores = heads.tables[table][q[classes, cells].astype(np.int16) + 128]
    else:
        cells = np.flatnonzero(q.max(axis=0) >= limit)
        every = heads.tables[table][q[:, cells].astype(np.int16) + 128]
        every = every * sure[cells] if grid["objectness"] else every
        classes = every.argmax(axis=0)
        return _Passed(number, cells, every[classes, np.arange(len(cells))], classes)
    return _Passed(number, cells, scores * sure[cells] if grid["objectness"] else scores, classes)


def least_integers(heads: Heads, grid: GridEntry, least: float) -> NDArray[np.int16]:
    """The least integer of a class with which a score passes, for each integer of the objectness from -128 on; or one alone."""
    objectness = grid["objectness"]
    return _least(
        heads.tables[grid["classes"][2]].tobytes(), heads.tables[objectness[2]].tobytes() if objectness else b"", float(least)
    )


@lru_cache(256)
def _least(classes: bytes, objectness: bytes, least: float) -> NDArray[np.int16]:
    scores = np.frombuffer(classes, np.float32)[None]
    if objectness:
        scores = scores * np.frombuffer(objectness, np.float32)[:, None]
    return ((scores < np.float32(least)).sum(axis=1) - (VALUES - NEVER)).astype(np.int16)


def _rows(grid: GridEntry, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    first, down, across = grid["row"]
    row, column = np.divmod(cells, grid["size"][1])
    rows: NDArray[np.int64] = first + down * row + across * column
    return rows


def boxes_at(heads: Heads, number: int, tensors: Sequence[Int8], cells: NDArray[np.int64]) -> NDArray[np.float32]:
    """Boxes float32 [n, 4] of some cells of a grid, left, top, right, bottom."""
    grid = heads.entry["grids"][number]
    row, column = np.divmod(cells, grid["size"][1])
    a, b, c, d = (_number(heads, one, tensors, (row, column)) for one in grid["box"])
    if heads.entry["form"] == "centre":
        c, d = c * np.float32(0.5), d * np.float32(0.5)
        a, b, c, d = a - c, b - d, a + c, b + d
    return np.stack([a, b, c, d], axis=1)


def _number(heads: Heads, one: NumberEntry, tensors: Sequence[Int8], cells: Cells) -> NDArray[np.float32]:
    table, (row, column) = heads.tables[one["table"]], cells
    q = tensors[one["head"]][one["channel"] : one["channel"] + one["bins"], row, column].astype(np.int16)
    value = table[q[0] + 128] if one["bins"] == 1 else _mean(table, q)
    place = np.float32(one["base"]) + np.float32(one["down"]) * row.astype(np.float32)
    place = place + np.float32(one["across"]) * column.astype(np.float32)
    number: NDArray[np.float32] = place + np.float32(one["factor"]) * value
    return number


def _mean(table: NDArray[np.float32], q: NDArray[np.int16]) -> NDArray[np.float32]:
    """The mean number of a bin, for integers [bins, n]; added bin by bin, as a loop does."""
    weights = table[q.max(axis=0) - q]
    whole, moment = weights[0].copy(), np.zeros_like(weights[0])
    for number in range(1, len(weights)):
        whole += weights[number]
        moment += np.float32(number) * weights[number]
    mean: NDArray[np.float32] = moment / whole
    return mean
