"""Finds candidates on the integers of head tensors, and decodes them alone, in numpy.

host/native/detect_scan.cpp and detect.cpp do the same natively, equal to the bit.

A score passes if its float32 value is at least the threshold. Which integers that are, is known before any tensor is read.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.detection import areas
from cnna.spec.detection.heads import AREAS, PEAKS, SOFTMAX, VALUES, GridEntry, Heads, NumberEntry

Labels = Literal["all", "best"]
LABELS: tuple[Labels, ...] = ("all", "best")
NEVER = 128  # a least integer that none reaches
LOST = 1e-6  # by which rounding may raise a softmax

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
    if heads.scores == AREAS:
        return _areas(heads, tensors, least, most)
    passed = _passed_softmax if heads.scores == SOFTMAX else _passed
    found = [passed(heads, number, tensors, least, labels) for number in range(len(heads.entry["grids"]))]
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
    if heads.scores == PEAKS:
        return _passed_peaks(number, q.reshape(-1, *grid["size"]), heads.tables[table], limits[0], labels)
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


def _passed_peaks(number: int, q: Int8, table: NDArray[np.float32], limit: np.int16, labels: Labels) -> _Passed:
    """What passes where none of the eight cells around has a greater score. q: int8 [classes, rows, columns]."""
    rows, columns = q.shape[1:]
    wide = np.pad(q, ((0, 0), (1, 1), (1, 1)), constant_values=-128)
    most = np.max([wide[:, y : y + rows, x : x + columns] for y in range(3) for x in range(3)], axis=0)
    scores = table[q.astype(np.int16) + 128]
    true = (q >= limit) & (scores >= table[most.astype(np.int16) + 128])
    flat, scores = true.reshape(len(q), -1), scores.reshape(len(q), -1)
    if labels == "all":
        classes, cells = np.nonzero(flat)
    else:
        cells = np.flatnonzero(flat.any(axis=0))
        classes = np.where(flat, scores, np.float32(-1))[:, cells].argmax(axis=0)
    return _Passed(number, cells, scores[classes, cells], classes)


def _passed_softmax(heads: Heads, number: int, tensors: Sequence[Int8], least: float, labels: Labels) -> _Passed:
    """What passes of softmaxes. By integers first: how far the greatest class is above the background."""
    head, channel, table = heads.entry["grids"][number]["classes"]
    weights, count = heads.tables[table], heads.entry["labels"] + 1
    q = tensors[head][channel : channel + count].reshape(count, -1)
    above = q[1:].max(axis=0).astype(np.int16) - q[0]
    cells = np.flatnonzero(above >= least_distance(weights, least))
    near = q[:, cells].astype(np.int16)
    parts = weights[near.max(axis=0) - near].astype(np.float64)
    whole = parts[0].copy()
    for one in parts[1:]:
        whole += one
    scores = (parts[1:] / whole).astype(np.float32)
    if labels == "all":
        classes, places = np.nonzero(scores >= np.float32(least))
    else:
        places = np.flatnonzero(scores.max(axis=0) >= np.float32(least))
        classes = scores[:, places].argmax(axis=0)
    return _Passed(number, cells[places], scores[classes, places], classes)


def least_distance(weights: NDArray[np.float32], least: float) -> int:
    """The least distance of a class's integer from the background's with which its softmax may count, whatever the others are."""
    wanted, distance = float(np.float32(least)) - LOST, VALUES
    while distance > 1 - VALUES:
        weight = float(weights[abs(distance - 1)])
        if not (weight if distance < 1 else 1.0) / (1.0 + weight) >= wanted:
            break
        distance -= 1
    return distance


def _areas(heads: Heads, tensors: Sequence[Int8], least: float, most: int) -> Candidates:
    """The surest areas of a map whose cells pass."""
    grid = heads.entry["grids"][0]
    head, channel, table = grid["classes"]
    found = areas.found(heads.tables[table][tensors[head][channel].astype(np.int16) + 128])
    true = found.scores >= np.float32(least)
    boxes, scores, rows = found.boxes[true], found.scores[true], found.cells[true]
    boxes = (boxes * np.array([grid["box"][0]["across"], grid["box"][1]["down"]] * 2)).astype(np.float32)
    order = np.lexsort((rows, -scores))[:most]
    return Candidates(boxes[order], scores[order], np.zeros(len(order), np.int64), rows[order])


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
    a, b, c, d = (number_at(heads, one, tensors, (row, column)) for one in grid["box"])
    if heads.entry["form"] == "centre":
        c, d = c * np.float32(0.5), d * np.float32(0.5)
        a, b, c, d = a - c, b - d, a + c, b + d
    boxes = np.stack([a, b, c, d], axis=1)
    if any(heads.edges):
        boxes = np.minimum(np.where(boxes > 0, boxes, np.float32(0)), np.array(heads.edges * 2, np.float32))
    return boxes


def number_at(heads: Heads, one: NumberEntry, tensors: Sequence[Int8], cells: Cells) -> NDArray[np.float32]:
    """A number of the boxes in some cells, given by row and column."""
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
