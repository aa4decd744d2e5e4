"""What the families share: a model that was asked, and entries for the manifest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.grids import Channel, Grid, classes_of
from cnna.compiler.heads.measured import Rows, Runs, score_table
from cnna.compiler.heads.sources import Source
from cnna.compiler.heads.tail import Tail
from cnna.spec.detection.heads import GridEntry, NumberEntry, table_text

DISTANCES = "YOLOv8"  # the family whose boxes are distances from a point to four sides
# The boxes of rows, float64 [boxes, 4] as left, top, right, bottom, as a user of the model's output decodes them.
Corners = Callable[[NDArray[Any]], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Asked:
    """A model whose grids are known. rows: the output's rows for heads. source: of these rows. picture: rows and columns."""

    tail: Tail
    grids: list[Grid]
    source: Source
    rows: Rows
    runs: Runs
    picture: tuple[int, int]

    @property
    def numbers(self) -> int:
        """Numbers of a row."""
        return self.source.head.shape[1]

    def stride(self, grid: Grid) -> tuple[float, float]:
        """Pixels of the picture for a cell, down and across."""
        height, width = grid.rows.shape
        return self.picture[0] / height, self.picture[1] / width


@dataclass
class Tables:
    """The tables of a manifest, each of which it holds once."""

    texts: dict[str, int] = field(default_factory=dict)

    def number(self, values: NDArray[np.float32]) -> int:
        """The number of a table."""
        return self.texts.setdefault(table_text(values), len(self.texts))


def grid_entry(asked: Asked, grid: Grid, tables: Tables, objectness: bool, box: list[NumberEntry]) -> GridEntry:
    """A grid for the manifest. UnlikeError: as of `classes_of` and `score_table`."""
    first = 5 if objectness else 4
    there = None
    if objectness:
        assert grid.columns[4] is not None
        there = [*grid.columns[4], tables.number(score_table(asked.runs, grid, 4))]
    classes = [*classes_of(grid, first), tables.number(score_table(asked.runs, grid, first))]
    return {"size": [*grid.rows.shape], "row": grid.row, "classes": classes, "objectness": there, "box": box}


def number_entry(
    channel: Channel, table: int, down: float, across: float, bins: int = 1, base: float = 0.0, factor: float = 1.0
) -> NumberEntry:
    """A number of a box for the manifest."""
    head, first = channel
    return {
        "head": head,
        "channel": first,
        "bins": bins,
        "table": table,
        "base": base,
        "down": down,
        "across": across,
        "factor": factor,
    }


def from_centres(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Corners of rows that are centre, width and height."""
    middle, half = rows[:, :2].astype(np.float64), rows[:, 2:4].astype(np.float64) / 2
    return np.concatenate([middle - half, middle + half], axis=1)


def as_they_are(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Corners of rows that are corners."""
    return rows[:, :4].astype(np.float64)
