"""SSD: boxes are moves and logarithms of sizes from a prior box of each cell, and scores a softmax with a background, or sigmoids.

A score of a softmax follows all of its row's integers. But the logarithms of two scores differ by the difference of two integers,
times the scale. So drawn integers show, draw by draw, from which channels and which cell a row comes. Corners mix a move with a
size; their middle and their distance do not.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.family import Asked, Corners, Tables, from_centres, grid_entry, number_entry
from cnna.compiler.heads.grids import Grid, classes_of, grids_of
from cnna.compiler.heads.measured import place, runs_of
from cnna.compiler.heads.sources import BOX, HIGH, LOW, NONE, Source, by_bit, sources
from cnna.compiler.heads.tail import Int8, Tail, UnlikeError
from cnna.compiler.heads.units import units_of
from cnna.spec.detection.heads import SOFTMAX, TABLES, VALUES, DetectorEntry, GridEntry

Floats = NDArray[np.float64]
Rows = Callable[[list[Int8]], NDArray[np.float32]]  # the output's rows for heads

SEED, DRAWS = 3, 8
SPAN = 8.0  # of drawn logarithms, so that no score of a softmax vanishes
WHOLE = 1e-4  # by which the sum of a softmax may differ from 1
NEAR = 1e-3  # of a number's change by which it may miss one of its two values: corners have been rounded


def is_softmax(tail: Tail, rows: Rows) -> bool:
    """Whether the scores of each row sum to 1."""
    scores = rows(_drawn(tail, np.random.default_rng(SEED)))[:, BOX:]
    return scores.shape[1] > 1 and bool((scores >= 0).all()) and float(np.abs(scores.sum(axis=1) - 1).max()) < WHOLE


def found(tail: Tail, rows: Rows, numbers: NDArray[np.int64], picture: tuple[int, int]) -> tuple[Asked, DetectorEntry, Corners]:
    """The heads. numbers: as `traced`, of rows. UnlikeError: they are none of an SSD."""
    softmax = is_softmax(tail, rows)
    centred, boxes = _box_sources(tail, rows)
    scores = _softmax_sources(tail, rows) if softmax else Source(*(one[:, BOX:] for one in sources(tail, numbers)))
    source = Source(*(np.concatenate(pair, axis=1) for pair in zip(boxes, scores, strict=True)))

    def middles(tensors: list[Int8]) -> NDArray[np.float32]:
        whole = rows(tensors).copy()
        whole[:, :BOX] = centred(whole)[:, :BOX]
        return whole

    units = units_of(grids_of(tail, source), middles(tail.filled(0)), picture)
    source = units.source(source)

    def made(tensors: list[Int8]) -> NDArray[np.float32]:
        return units.rows(middles(tensors))

    grids = grids_of(tail, source)
    asked = Asked(tail, grids, source, made, runs_of(tail, grids, made, picture), picture)
    tables = Tables()
    entry: DetectorEntry = {
        "family": "SSD",
        "scores": SOFTMAX if softmax else TABLES,
        "form": "centre",
        "picture": [*picture],
        "labels": asked.numbers - BOX - softmax,
        "heads": [port["name"] for port in tail.heads],
        "tables": [],
        "grids": [_grid(asked, grid, softmax, tables) for grid in grids],
    }
    entry["tables"] = list(tables.texts)
    return asked, entry, from_centres


def _grid(asked: Asked, grid: Grid, softmax: bool, tables: Tables) -> GridEntry:
    box = []
    for column in range(BOX):
        channel = grid.columns[column]
        if channel is None:
            raise UnlikeError("each middle and each size of its boxes should follow one integer of the row's own cell")
        one = place(asked.runs, grid, column)
        box.append(number_entry(channel, tables.number(one.table), one.down, one.across))
    if grid.rows.size > 1 and not any(one["down"] or one["across"] for one in box):
        raise UnlikeError("its boxes are the same in all cells, since its priors are not in it: export it with its decode")
    if not softmax:
        return grid_entry(asked, grid, tables, False, box)
    head, first = classes_of(grid, BOX)
    weights = np.exp(-np.arange(VALUES) * asked.tail.heads[head]["scale"]).astype(np.float32)
    return {
        "size": [*grid.rows.shape],
        "row": grid.row,
        "classes": [head, first, tables.number(weights)],
        "objectness": None,
        "box": box,
    }


def _drawn(tail: Tail, rng: np.random.Generator) -> list[Int8]:
    """Heads of integers that are as far apart as a softmax can show."""
    most = [int(np.clip(SPAN / port["scale"], 1, 127)) for port in tail.heads]
    return [rng.integers(-high, high + 1, shape).astype(np.int8) for high, shape in zip(most, tail.shapes, strict=True)]


def _softmax_sources(tail: Tail, rows: Rows) -> Source:
    """Where the scores of each row come from: of which head, from which channel on, and of which cell."""
    rng = np.random.default_rng(SEED)
    draws = [_drawn(tail, rng) for _ in range(DRAWS)]
    scores = np.stack([rows(tensors)[:, BOX:] for tensors in draws]).astype(np.float64)
    apart = np.log(np.maximum(scores[..., 1], 1e-30)) - np.log(np.maximum(scores[..., 0], 1e-30))
    mixed = rng.integers(1, 1 << 62, DRAWS) | 1
    boxes, classes = scores.shape[1:]
    head, first, cell = (np.full(boxes, NONE, np.int64) for _ in range(3))
    for number, (port, (channels, height, width)) in enumerate(zip(tail.heads, tail.shapes, strict=True)):
        if channels < classes:
            continue
        flat = np.stack([tensors[number].reshape(channels, -1) for tensors in draws]).astype(np.int64)
        steps = np.diff(flat, axis=1)[:, : channels - classes + 1]
        known = np.tensordot(mixed, steps, 1).reshape(-1)  # a number for each first channel and each cell
        order = np.argsort(known)
        asked = mixed @ np.rint(apart / port["scale"]).astype(np.int64)
        places = order[np.searchsorted(known[order], asked).clip(max=known.size - 1)]
        true = known[places] == asked
        head[true], (first[true], cell[true]) = number, np.divmod(places[true], height * width)
    lost = np.flatnonzero(head == NONE)
    if len(lost):
        raise UnlikeError(
            f"scores of row {int(lost[0])} should be the softmax of a head's channels that follow each other; if Q and DQ stand "
            "before it, quantise it with --detector auto"
        )
    first, across = first[:, None] + np.arange(classes), (1, classes)
    return Source(np.tile(head[:, None], across), first, np.tile(cell[:, None], across))


def _box_sources(tail: Tail, rows: Rows) -> tuple[Callable[[NDArray[np.float32]], NDArray[np.float32]], Source]:
    """How rows become middles and sizes, and which integer each of these follows."""
    count = sum(int(np.prod(shape)) for shape in tail.shapes)
    low, high = (rows(tail.filled(value))[:, :BOX] for value in (LOW, HIGH))
    by_bits = [rows(by_bit(tail, bit))[:, :BOX] for bit in range(max(1, (count - 1).bit_length()))]
    for centred in (_as_they_are, _middles):
        ends = centred(low).astype(np.float64), centred(high).astype(np.float64)
        near = NEAR * np.abs(ends[1] - ends[0])
        follows, numbers = near > 0, np.zeros(low.shape, np.int64)
        for bit, made in enumerate(by_bits):
            one = np.abs(centred(made) - ends[1]) <= near
            follows &= one | (np.abs(centred(made) - ends[0]) <= near)
            numbers |= one.astype(np.int64) << bit
        if (follows & (numbers < count)).all():
            return centred, sources(tail, numbers)
    raise UnlikeError("each middle and each size of its boxes should follow one integer of a head")


def _as_they_are(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows[:, :BOX]


def _middles(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Middles and sizes of corners."""
    low, high = rows[:, :2], rows[:, 2:BOX]
    return np.concatenate([(low + high) / 2, high - low], axis=1)
