"""The grids of a detector: which rows of its output come from which map of the heads, as the sources of its scores show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.sources import NONE, Source
from cnna.compiler.heads.tail import Tail, UnlikeError

Channel = tuple[int, int]  # a head, and a channel of it


@dataclass(frozen=True, eq=False)
class Grid:
    """Boxes of one map for one anchor.

    rows: of the output, int64 [rows, columns]. columns: of each number the channel that it follows; None: it follows several.
    """

    rows: NDArray[np.int64]
    columns: tuple[Channel | None, ...]

    @property
    def row(self) -> list[int]:
        """The output's row of the first cell, and its steps down and across. UnlikeError: there are no steps."""
        first, (height, width) = int(self.rows[0, 0]), self.rows.shape
        down = int(self.rows[1, 0]) - first if height > 1 else 0
        across = int(self.rows[0, 1]) - first if width > 1 else 0
        regular = first + down * np.arange(height)[:, None] + across * np.arange(width)
        if down < 0 or across < 0 or not np.array_equal(regular, self.rows):
            raise UnlikeError("the rows of its output do not follow the cells of a map")
        return [first, down, across]


def grids_of(tail: Tail, source: Source) -> list[Grid]:
    """The grids, in the order of the output. source: of its rows, arrays [boxes, numbers].

    UnlikeError: scores do not come from one integer each, or not from each cell of a map once.
    """
    last = source.head.shape[1] - 1
    lost = np.argwhere(source.head[:, last] == NONE)
    if len(lost):
        what = f"number {last} of row {int(lost[0, 0])}"
        raise UnlikeError(
            f"each score should be a function of one integer of a head, but {what} of its output follows several, or none"
        )
    keys = source.head[:, last] * (1 << 32) + source.channel[:, last]
    found = []
    for key in dict.fromkeys(keys.tolist()):
        rows = np.flatnonzero(keys == key)
        _, height, width = tail.shapes[key >> 32]
        places = source.cell[rows, last]
        if len(rows) != height * width or len(np.unique(places)) != len(rows):
            name = tail.heads[key >> 32]["name"]
            cells = height * width
            raise UnlikeError(f"each cell of '{name}' should have one row of the output, but {cells} cells have {len(rows)}")
        ordered = rows[np.argsort(places)]
        found.append(Grid(ordered.reshape(height, width), tuple(_columns(source, ordered))))
    return found


def _columns(source: Source, rows: NDArray[np.int64]) -> list[Channel | None]:
    """The channel that each number of a grid's rows follows, from the same cell."""
    cells, found = np.arange(len(rows)), list[Channel | None]()
    for column in range(source.head.shape[1]):
        head, channel = source.head[rows, column], source.channel[rows, column]
        same = (head == head[0]).all() and (channel == channel[0]).all() and np.array_equal(source.cell[rows, column], cells)
        found.append((int(head[0]), int(channel[0])) if same and head[0] != NONE else None)
    return found


def classes_of(grid: Grid, first: int) -> list[int]:
    """Head and first channel of the classes, the numbers from `first` on. UnlikeError: their channels do not follow each other."""
    columns = grid.columns[first:]
    if columns and (start := columns[0]) and list(columns) == [(start[0], start[1] + number) for number in range(len(columns))]:
        return [*start]
    raise UnlikeError(f"scores of classes, from number {first} on, should come from channels of one head that follow each other")


def objectness_first(tail: Tail, grids: Sequence[Grid]) -> bool:
    """Whether number 4 of each row says how likely there is any object: it has a convolution of its own, or, with several anchors
    a cell, that of the boxes. Without objectness, as in an SSD of sigmoids, classes have a convolution beside that of the boxes.
    """
    shapes = [grid.rows.shape for grid in grids]
    if len(grids[0].columns) < 6:
        return False
    box, there, first = (column and tail.convolution(*column) for column in grids[0].columns[3:6])
    apart = there is not None and first is not None and there != first
    return apart or (len(set(shapes)) < len(shapes) and box == there)
