"""The heads of a detector, as the compiler finds them and the manifest's `detector` stores them.

A grid has a box for each cell of a map. Its scores are tables of one integer each, or the softmax of some. Each number of its box
is a table of one integer, or the mean over some bins, plus a step for each row and column of cells.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from cnna.spec.checks.json_kinds import each, is_number, is_whole, maybe, plain
from cnna.spec.errors import ArtifactError

VALUES = 256  # of an int8
MOST_BINS = 256
FORMS = ("centre", "corners")  # of a box: x, y, width, height; or left, top, right, bottom
TABLES, SOFTMAX, PEAKS, AREAS = KINDS = ("tables", "softmax", "peaks", "areas")  # how scores come from integers

_NUMBER = plain(lambda value: is_number(value) and abs(value) <= 2.0**30)
_TRUTH = plain(lambda value: type(value) is bool)
_FIELD = each(plain(lambda value: is_whole(value, 0, 1 << 31)), 3)


class NumberEntry(TypedDict):
    """A number of a box: base + down * row + across * column + factor * value.

    The value is `table[q + 128]` of the integer q of a channel; with several bins, the mean number of a bin, where the bin of
    integer q weighs `table[most - q]`. base to factor: pixels of the model's picture.
    """

    head: int
    channel: int
    bins: int
    table: int
    base: Annotated[float, _NUMBER]
    down: Annotated[float, _NUMBER]
    across: Annotated[float, _NUMBER]
    factor: Annotated[float, _NUMBER]


class GridEntry(TypedDict):
    """The boxes of one map, or of one anchor in it.

    size: rows and columns of cells. row: of the model's output, for the first cell, and steps down and across. classes: head, first
    channel and table; objectness: head, channel and table. For SOFTMAX, the first channel is the background's, which is no class,
    and the integer q weighs `table[most - q]`.
    """

    size: Annotated[list[int], each(plain(lambda value: is_whole(value, 1, 1 << 20)), 2)]
    row: Annotated[list[int], _FIELD]
    classes: Annotated[list[int], _FIELD]
    objectness: Annotated[list[int] | None, maybe(_FIELD)]
    box: list[NumberEntry]


class RowsEntry(TypedDict):
    """How the model's own outputs come from heads: rows of a box, an objectness if there is one, and classes.

    outputs: one, or boxes and scores apart. turned: numbers come before rows. centred: rows have middles and sizes where the heads
    have corners. order, scale: of the numbers that the heads have, the place in a row, and by what they are divided.
    """

    outputs: list[str]
    turned: Annotated[bool, _TRUTH]
    centred: Annotated[bool, _TRUTH]
    order: Annotated[list[int], each(plain(lambda value: is_whole(value, 0, 4)), 4)]
    scale: Annotated[list[float], each(_NUMBER, 4)]


class ScoresEntry(TypedDict, total=False):
    """scores: how they come from integers, one of KINDS, TABLES by default. cut: whether boxes end at the picture's edges.

    rows: how the model's own outputs come from heads, where they can.

    PEAKS are TABLES, and count where none of the eight cells around has a greater one. With AREAS, cells that touch make one box
    together (`areas`); the steps of a box's first two numbers are then the size of a cell.
    """

    scores: Annotated[str, plain(lambda value: value in KINDS)]
    cut: Annotated[bool, _TRUTH]
    rows: RowsEntry


class DetectorEntry(ScoresEntry):
    """A detector in the manifest. heads: output ports of programs. picture: rows and columns. tables: float32 in base64."""

    family: str
    form: Annotated[str, plain(lambda value: value in FORMS)]
    picture: Annotated[list[int], each(plain(lambda value: is_whole(value, 1, 1 << 20)), 2)]
    labels: Annotated[int, plain(lambda value: is_whole(value, 1, 1 << 20))]
    heads: list[str]
    tables: list[str]
    grids: list[GridEntry]


@dataclass(frozen=True, eq=False)
class Heads:
    """A detector's heads, ready to decode. shapes: [C, H, W] of the head tensors; tables: float32 [tables, 256]."""

    entry: DetectorEntry
    shapes: tuple[tuple[int, int, int], ...]
    tables: NDArray[np.float32]

    @property
    def scores(self) -> str:
        """How scores come from integers: one of KINDS."""
        return self.entry.get("scores", TABLES)

    @property
    def edges(self) -> tuple[int, int]:
        """Columns and rows of the picture at whose edges boxes are cut; 0, 0: they are not."""
        rows, columns = self.entry["picture"]
        return (columns, rows) if self.entry.get("cut") else (0, 0)

    @property
    def boxes(self) -> int:
        """Boxes of a picture, before any is chosen."""
        return sum(grid["size"][0] * grid["size"][1] for grid in self.entry["grids"])

    def said(self) -> str:
        """The heads in a line."""
        return in_words(self.entry)


def in_words(entry: DetectorEntry) -> str:
    """What a manifest says of heads, in a line."""
    grids = [grid["size"] for grid in entry["grids"]]
    sizes = list(dict.fromkeys(f"{rows}x{columns}" for rows, columns in grids))
    each_cell = len(grids) // len(sizes)
    what = "cells of text" if entry.get("scores") == AREAS else "boxes"
    boxes = f"{sum(rows * columns for rows, columns in grids):,} {what} on maps of {', '.join(sizes)}"
    return f"{entry['family']}: {boxes}{f', {each_cell} a cell' if each_cell > 1 else ''}, {entry['labels']} classes"


def heads_of(entry: DetectorEntry, shapes: Sequence[Sequence[int]], name: str) -> Heads:
    """The heads that an entry describes. shapes: those of its head tensors. ArtifactError: it points beyond them."""

    def need(true: bool, what: str) -> None:
        if not true:
            raise ArtifactError(f"{name}: the manifest's detector has {what}; compile it again")

    try:
        tables = np.array([np.frombuffer(base64.b64decode(text, validate=True), "<f4") for text in entry["tables"]], np.float32)
    except ValueError:
        raise ArtifactError(f"{name}: the manifest's detector has a damaged table; compile it again") from None
    need(tables.ndim == 2 and tables.shape[1] == VALUES and bool(np.isfinite(tables).all()), "a damaged table")
    need(bool(entry["grids"]) and len(shapes) == len(entry["heads"]), "no grids")
    rows, counted = np.zeros(sum(g["size"][0] * g["size"][1] for g in entry["grids"]), bool), 0
    softmax = entry.get("scores") == SOFTMAX
    for grid in entry["grids"]:
        reads = [(*grid["classes"], entry["labels"] + softmax), *([(*grid["objectness"], 1)] if grid["objectness"] else [])]
        reads += [(one["head"], one["channel"], one["table"], (1, one["bins"])[one["bins"] > 1]) for one in grid["box"]]
        need(len(grid["box"]) == 4 and all(1 <= one["bins"] <= MOST_BINS for one in grid["box"]), "no proper box")
        for head, channel, table, count in reads:
            inside = head < len(shapes) and table < len(tables) and channel + count <= shapes[head][0]
            need(inside and list(shapes[head][1:]) == grid["size"], "a head that the programs do not have")
        first, down, across = grid["row"]
        places = first + down * np.arange(grid["size"][0])[:, None] + across * np.arange(grid["size"][1])
        need(int(places.max()) < len(rows), "rows that the model does not have")
        rows[places] = True
        counted += places.size
    need(bool(rows.all()) and counted == len(rows), "rows twice")
    how = entry.get("rows")
    good = how is None or (sorted(how["order"]) == [0, 1, 2, 3] and all(how["scale"]) and len(how["outputs"]) in (1, 2))
    need(good, "no proper rows")
    return Heads(entry, tuple((int(c), int(h), int(w)) for c, h, w in shapes), tables)


def table_text(values: NDArray[Any]) -> str:
    """A table of 256 numbers for the manifest."""
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()
