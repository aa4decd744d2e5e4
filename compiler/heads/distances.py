"""YOLOv8, 11 and 12: a box is four distances from a cell's point to its sides; each is a number, or the mean over bins.

The four numbers of a row mix the distances. So the tail is asked with one distance changed at a time, and the corners that follow
from its rows must each move with one distance.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.family import DISTANCES, Asked, Corners, Tables, as_they_are, from_centres, grid_entry, number_entry
from cnna.compiler.heads.grids import Channel, Grid
from cnna.compiler.heads.measured import STRAIGHT, place, straight
from cnna.compiler.heads.sources import BOX
from cnna.compiler.heads.tail import Int8, UnlikeError
from cnna.spec.detection.heads import MOST_BINS, VALUES, DetectorEntry, NumberEntry


def found(asked: Asked) -> tuple[DetectorEntry, Corners]:
    """The heads. UnlikeError: they are none of these."""
    boxes = [_box_channels(asked, grid) for grid in asked.grids]
    lengths = {count for _, count in boxes}
    if len(lengths) > 1 or not lengths <= {BOX * bins for bins in range(1, MOST_BINS)}:
        raise UnlikeError(
            f"each cell should have four distances of some bins; its heads have {sorted(lengths)} channels beside the scores"
        )
    bins, tables, first = lengths.pop() // BOX, Tables(), [channel for channel, _ in boxes]
    far = _far(asked, first, bins)
    corners = from_centres if _is_centre(asked, far) else as_they_are
    grids = [
        grid_entry(asked, grid, tables, False, _numbers(asked, grid, head, bins, [corners(rows) for rows in far], tables))
        for grid, head in zip(asked.grids, first, strict=True)
    ]
    if bins == 1:
        for grid, one in zip(asked.grids, grids, strict=True):
            _put_tables(asked, grid, one["box"], corners, tables)
    entry: DetectorEntry = {
        "family": DISTANCES,
        "form": "corners",
        "picture": [*asked.picture],
        "labels": asked.numbers - BOX,
        "heads": [port["name"] for port in asked.tail.heads],
        "tables": list(tables.texts),
        "grids": grids,
    }
    return entry, corners


def _box_channels(asked: Asked, grid: Grid) -> tuple[Channel, int]:
    """The first channel of a grid's distances, and how many there are: those of the maps of its size that are no scores."""
    shapes, used = asked.tail.shapes, {column for one in asked.grids for column in one.columns[BOX:] if column}
    for head, (channels, *size) in enumerate(shapes):
        free = [channel for channel in range(channels) if (head, channel) not in used]
        if tuple(size) == grid.rows.shape and free:
            if free != list(range(free[0], free[0] + len(free))):
                raise UnlikeError("the channels of its boxes do not follow each other")
            return (head, free[0]), len(free)
    raise UnlikeError(f"no map of {grid.rows.shape[0]}x{grid.rows.shape[1]} cells is left for the distances of its boxes")


def _far(asked: Asked, first: list[Channel], bins: int) -> list[NDArray[np.float64]]:
    """The output's rows with all distances level, and with each of the four at its last bin."""
    answers = []
    for side in (None, *range(BOX)):
        tensors: list[Int8] = asked.tail.filled(0)
        if side is not None:
            for head, channel in first:
                tensors[head][channel + side * bins : channel + (side + 1) * bins] = -128
                tensors[head][channel + (side + 1) * bins - 1] = 127
        answers.append(asked.rows(tensors)[:, :BOX].astype(np.float64))
    return answers


def _is_centre(asked: Asked, far: list[NDArray[np.float64]]) -> bool:
    """Whether rows are centres and sizes: a distance then moves two numbers of a row."""
    moved = [(np.abs(one - far[0]) > STRAIGHT * max(asked.picture)).any(axis=0).sum() for one in far[1:]]
    return max(moved) > 1


def _numbers(
    asked: Asked, grid: Grid, first: Channel, bins: int, corners: list[NDArray[np.float64]], tables: Tables
) -> list[NumberEntry]:
    """The corners of a grid's boxes. UnlikeError: a corner moves with several distances, or not evenly from cell to cell.

    corners: of all rows, with all distances level, and with each of the four at its last bin.
    """
    weights = np.exp(-np.arange(VALUES) * asked.tail.heads[first[0]]["scale"])
    table = tables.number(weights.astype(np.float32)) if bins > 1 else 0
    level, most = (bins - 1) / 2, _mean(bins, float(weights[-1])) if bins > 1 else 1.0
    least, found = STRAIGHT * max(asked.picture), list[NumberEntry]()
    for corner in range(BOX):
        at = corners[0][grid.rows, corner]
        moves = [(one[grid.rows, corner] - at) / (most - level) for one in corners[1:]]
        own = [side for side, move in enumerate(moves) if np.abs(move).max() > least]
        down, across, bent = straight(at)
        if len(own) != 1 or bent > least or np.ptp(moves[own[0]]) > least:
            raise UnlikeError("each side of a box should move with one distance, and evenly from cell to cell")
        factor = float(moves[own[0]].mean())
        channel, base = (first[0], first[1] + own[0] * bins), float(at[0, 0]) - factor * level
        found.append(number_entry(channel, table, down, across, bins, base, factor))
    return found


def _put_tables(asked: Asked, grid: Grid, box: list[NumberEntry], corners: Corners, tables: Tables) -> None:
    """Gives numbers of one integer each their tables: corners as they are where all four distances have one integer."""
    made = np.stack([corners(rows) for rows in asked.runs.made]).astype(np.float32)
    runs = replace(asked.runs, made=made, level=corners(asked.runs.level).astype(np.float32))
    for corner, one in enumerate(box):
        measured = place(runs, grid, corner)
        one |= {"table": tables.number(measured.table), "base": 0.0, "factor": 1.0}


def _mean(bins: int, small: float) -> float:
    """The mean bin where the last one weighs 1 and each other `small`."""
    return (bins - 1 + small * (bins - 1) * (bins - 2) / 2) / (1 + small * (bins - 1))
