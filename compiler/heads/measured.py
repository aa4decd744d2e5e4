"""Measures what a number of a detector's rows is: a table of one integer, plus steps for rows and columns of cells."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.grids import Grid
from cnna.compiler.heads.tail import Int8, Tail, UnlikeError
from cnna.spec.detection.heads import VALUES

Array = NDArray[np.float64]
Rows = Callable[[list[Int8]], NDArray[np.float32]]  # the output's rows for heads
FLAT = 1e-6  # by which scores of one integer may differ
STRAIGHT = 1e-5  # of the picture's side, by which places may differ from a straight line
HALF = VALUES // 2


@dataclass(frozen=True, eq=False)
class Runs:
    """What the tail answers to heads that hold each integer somewhere, and to heads of one.

    shown: int64 [runs, rows], the integer of each row's cell in all channels. made: [runs, rows, numbers]. level: [rows, numbers].
    """

    shown: NDArray[np.int64]
    made: NDArray[np.float32]
    level: NDArray[np.float32]
    picture: tuple[int, int]


def runs_of(tail: Tail, grids: list[Grid], rows: Rows, picture: tuple[int, int]) -> Runs:
    """The tail's answers, as few of them as show each integer in each grid."""
    cells = min(grid.rows.size for grid in grids)
    shifts = [number * cells for number in range(-(-VALUES // cells))]
    boxes = sum(grid.rows.size for grid in grids)
    shown, made = np.zeros((len(shifts), boxes), np.int64), []
    for number, shift in enumerate(shifts):
        tensors = [_ramp(shape[1] * shape[2], shift).reshape(1, *shape[1:]).repeat(shape[0], 0) for shape in tail.shapes]
        made.append(rows([q.astype(np.int8) for q in tensors]))
        for grid in grids:
            shown[number, grid.rows.reshape(-1)] = _ramp(grid.rows.size, shift)
    return Runs(shown, np.stack(made), rows(tail.filled(0)), picture)


def _ramp(cells: int, shift: int) -> NDArray[np.int64]:
    return (np.arange(cells) + shift) % VALUES - HALF


def score_table(runs: Runs, grid: Grid, column: int) -> NDArray[np.float32]:
    """The score that each integer from -128 on stands for. UnlikeError: it is no score, or depends on the place."""
    table, spread = _table(runs, grid, column, np.zeros(grid.rows.size))
    if spread > FLAT:
        raise UnlikeError(f"a score depends on its place by {spread:.2g}, and not on one integer alone")
    low, high = float(table.min()), float(table.max())
    if low < 0 or high > 1 + FLAT or (np.diff(table) < -FLAT).any():
        raise UnlikeError(
            f"number {column} of a row should be a score that rises with its integer, within 0..1; it has {low:.3g}..{high:.3g}"
        )
    return np.maximum.accumulate(table).astype(np.float32)  # a library's sigmoid may fall by the last bit


@dataclass(frozen=True, eq=False)
class Place:
    """A number of a box: table[q + 128] + down * row + across * column."""

    table: NDArray[np.float32]
    down: float
    across: float


def place(runs: Runs, grid: Grid, column: int) -> Place:
    """A number of a box that follows one integer. UnlikeError: it is no sum of a table and steps."""
    level = runs.level[grid.rows, column].astype(np.float64)
    down, across, bent = straight(level)
    if bent > STRAIGHT * max(runs.picture):
        raise UnlikeError(f"number {column} of a row should move evenly from cell to cell; it is {bent:.2g} pixels beside that")
    steps = (down * np.arange(len(level))[:, None] + across * np.arange(level.shape[1])).reshape(-1)
    table, spread = _table(runs, grid, column, steps)
    if spread > STRAIGHT * max(runs.picture):
        raise UnlikeError(
            f"number {column} of a row should be a table of its integer plus steps from cell to cell; it is {spread:.2g} away"
        )
    return Place(table.astype(np.float32), down, across)


def straight(level: Array) -> tuple[float, float, float]:
    """Steps down and across of values [rows, columns], and how far they are from such a plane."""
    height, width = level.shape
    down = float(level[-1, 0] - level[0, 0]) / (height - 1) if height > 1 else 0.0
    across = float(level[0, -1] - level[0, 0]) / (width - 1) if width > 1 else 0.0
    plane = level[0, 0] + down * np.arange(height)[:, None] + across * np.arange(width)
    return down, across, float(np.abs(plane - level).max())


def _table(runs: Runs, grid: Grid, column: int, steps: Array) -> tuple[Array, float]:
    """The mean value of each integer, less its cell's step, and how much values of one integer differ."""
    rows = grid.rows.reshape(-1)
    q = (runs.shown[:, rows] + HALF).reshape(-1)
    values = (runs.made[:, rows, column].astype(np.float64) - steps).reshape(-1)
    first = np.zeros(VALUES)
    first[q[::-1]] = values[::-1]  # that of the first cell
    return first, float(np.abs(values - first[q]).max())
