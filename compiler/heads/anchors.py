"""YOLOv3, YOLOv5 and YOLOX: each number of a row follows one integer, so that all of it is tables (docs/detectors.md).

YOLOX leaves moves and logarithms to its user in most exports; then the model's rows are its heads' own numbers.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.family import DISTANCES, Asked, Corners, Tables, as_they_are, from_centres, grid_entry, number_entry
from cnna.compiler.heads.grids import Grid, objectness_first
from cnna.compiler.heads.measured import Place, place
from cnna.compiler.heads.sources import BOX
from cnna.compiler.heads.tail import UnlikeError
from cnna.spec.detection.heads import DetectorEntry, GridEntry, NumberEntry
from cnna.spec.samples import pack

SCORES_END = 1.01  # where int8 of scores ends
BENT = 0.05  # of the logarithm's range, by which an exp may differ from a straight line: it has been rounded


def found(asked: Asked) -> tuple[DetectorEntry, Corners]:
    """The heads. UnlikeError: they are none of these."""
    for grid in asked.grids:
        if None in grid.columns:
            raise UnlikeError(
                f"each number of a row should follow one integer of a head, but number {grid.columns.index(None)} "
                "follows several, or none"
            )
    several = len({grid.rows.shape for grid in asked.grids}) < len(asked.grids)
    objectness = objectness_first(asked.tail, asked.grids)
    boxes = [[place(asked.runs, grid, column) for column in range(BOX)] for grid in asked.grids]
    raw = all(_raw(asked, grid, box) for grid, box in zip(asked.grids, boxes, strict=True))
    if raw and several:
        raise UnlikeError("the model's boxes are its heads' own numbers, and anchors are not in it: export it with its decode")
    if raw and all(one.table.min() >= 0 and one.table.max() <= SCORES_END for box in boxes for one in box):
        raise UnlikeError("the first four numbers of a row should be a box, and lie from 0 to 1 as scores do")
    if raw:
        boxes = [_decoded(asked, grid, box) for grid, box in zip(asked.grids, boxes, strict=True)]
    tables, grids = Tables(), list[GridEntry]()
    for grid, box in zip(asked.grids, boxes, strict=True):
        numbers = [_number(grid, column, one, tables) for column, one in enumerate(box)]
        grids.append({**grid_entry(asked, grid, tables, objectness, []), "box": numbers})
    sides = any(box[2].across for box in boxes)  # a right side moves from cell to cell, a width does not
    scores = asked.numbers - BOX
    one = DISTANCES if sides else "YOLOX"
    if several:
        one = "SSD" if scores > 1 and not objectness else "YOLOv3" if _is_exp(boxes[0][2].table) else "YOLOv5"
    entry: DetectorEntry = {
        "family": one,
        "form": "corners" if sides else "centre",
        "picture": [*asked.picture],
        "labels": scores - objectness,
        "heads": [port["name"] for port in asked.tail.heads],
        "tables": list(tables.texts),
        "grids": grids,
    }
    return entry, partial(_from_raw, asked) if raw else as_they_are if sides else from_centres


def _from_raw(asked: Asked, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Corners of a YOLOX's rows of moves and logarithms."""
    made = rows[:, :BOX].astype(np.float64)
    for grid in asked.grids:
        height, width = grid.rows.shape
        down, across = asked.stride(grid)
        y, x = np.mgrid[:height, :width]
        box = made[grid.rows]
        moved = [(box[..., 0] + x) * across, (box[..., 1] + y) * down, np.exp(box[..., 2]) * across, np.exp(box[..., 3]) * down]
        made[grid.rows] = np.stack(moved, axis=-1)
    return np.concatenate([made[:, :2] - made[:, 2:] / 2, made[:, :2] + made[:, 2:] / 2], axis=1)


def _number(grid: Grid, column: int, one: Place, tables: Tables) -> NumberEntry:
    channel = grid.columns[column]
    assert channel is not None
    return number_entry(channel, tables.number(one.table), one.down, one.across)


def _raw(asked: Asked, grid: Grid, box: list[Place]) -> bool:
    """Whether a box is the head's own numbers."""
    return all(np.array_equal(one.table, _own(asked, grid, column)) for column, one in enumerate(box))


def _own(asked: Asked, grid: Grid, column: int) -> NDArray[np.float32]:
    """The numbers of a head's integers, from -128 on."""
    channel = grid.columns[column]
    assert channel is not None
    port = asked.tail.heads[channel[0]]
    return pack.dequantise(np.arange(-128, 128).astype(np.int8), port["scale"], port["zero"])


def _decoded(asked: Asked, grid: Grid, box: list[Place]) -> list[Place]:
    """YOLOX's box from its head's numbers: moves in cells, and logarithms of sizes in cells."""
    down, across = asked.stride(grid)
    x, y, wide, high = (one.table for one in box)
    with np.errstate(over="ignore"):
        sizes = [np.exp(wide) * np.float32(across), np.exp(high) * np.float32(down)]
    if not np.isfinite(sizes).all():
        raise UnlikeError("the logarithms of its boxes' sizes are too large")
    return [
        Place(x * np.float32(across), 0.0, across),
        Place(y * np.float32(down), down, 0.0),
        *(Place(size.astype(np.float32), 0.0, 0.0) for size in sizes),
    ]


def _is_exp(table: NDArray[np.float32]) -> bool:
    """Whether a size is exp of its integer: a straight line of logarithms."""
    if (table <= 0).any():
        return False
    logs = np.log(table.astype(np.float64))
    line = np.linspace(logs[0], logs[-1], len(logs))
    return float(np.abs(logs - line).max()) <= BENT * max(float(np.ptp(logs)), 1e-9)
