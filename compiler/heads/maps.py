"""CenterNet, CenterFace and DBNet: their outputs are maps, each of whose elements follows one integer of a head.

A centre's map has a score for each class and cell; two maps of two channels are its box's size and how far its middle is from the
cell. CenterFace has ten numbers of key points more, logarithms of sizes, and rows before columns. DBNet has one map: of text.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.family import Asked, Corners, Tables, from_centres, grid_entry, number_entry
from cnna.compiler.heads.grids import grids_of
from cnna.compiler.heads.measured import place, runs_of, score_table
from cnna.compiler.heads.sources import BOX, Source, sources
from cnna.compiler.heads.tail import Int8, Outputs, Tail, UnlikeError
from cnna.spec.detection.heads import AREAS, PEAKS, TABLES, DetectorEntry, GridEntry, NumberEntry

PAIR, KEY_POINTS = 2, 10  # channels of sizes and moves, and of CenterFace's five points
INSIDE = (-0.6, 1.6)  # where moves from a cell's corner or middle lie, in cells
SCORES_END = 1.01  # where scores end
LARGE = 2.0  # that some size reaches, or its logarithm
MIDDLE = 0.5  # of a cell, from which CenterFace counts

Numbers = Mapping[str, NDArray[np.int64]]


class Maps(NamedTuple):
    """Which output is what: its name, and the order of its channels. points: of CenterFace. logits: scores lack their sigmoid."""

    scores: str
    sizes: str
    moves: str
    points: str | None
    logits: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """The channels of x and y, in sizes and in moves."""
        return (1, 0) if self.points else (0, 1)

    @property
    def family(self) -> str:
        """Its name."""
        return "CenterFace" if self.points else "CenterNet"

    def rows(self, outputs: Outputs) -> NDArray[np.float32]:
        """Rows [cells, 4 + classes] of such outputs: moves x and y, width, height, scores."""
        across, down = self.order
        moves, sizes = outputs[self.moves][0], outputs[self.sizes][0]
        scores = outputs[self.scores][0]
        if self.logits and scores.dtype.kind == "f":
            scores = (1 / (1 + np.exp(-scores.astype(np.float64)))).astype(np.float32)
        parts = [moves[[across, down]], sizes[[across, down]], scores]
        whole = np.concatenate([part.reshape(len(part), -1) for part in parts])
        return np.ascontiguousarray(whole.T)


def are_maps(outputs: Outputs) -> bool:
    """Whether outputs may be the maps of a CenterNet or a DBNet: of one size, and of channels that these have."""
    sizes = {y.shape[2:] for y in outputs.values() if y.ndim == 4 and len(y) == 1}
    if len(sizes) != 1 or any(y.ndim != 4 for y in outputs.values()) or min(next(iter(sizes))) < 2:
        return False
    channels = [y.shape[1] for y in outputs.values()]
    return channels == [1] or (len(channels) > 1 and PAIR in channels)


def roles(outputs: Outputs, extremes: tuple[Outputs, Outputs]) -> Maps:
    """Which output is what. extremes: outputs for the least and the greatest integers. UnlikeError: they are of another model."""
    low, high = ({name: float(y.min()) for name, y in extremes[0].items()}, {n: float(y.max()) for n, y in extremes[1].items()})
    like_scores = [name for name in outputs if low[name] >= 0 and high[name] <= SCORES_END]
    pairs = [name for name in outputs if outputs[name].shape[1] == PAIR]
    by_channels = {outputs[name].shape[1]: name for name in outputs if name not in pairs}
    chosen, points = [name for name in outputs if name not in pairs], None
    if {*by_channels} == {1, KEY_POINTS} and len(chosen) == PAIR:
        chosen, points = [by_channels[1]], by_channels[KEY_POINTS]
    elif not chosen:  # two classes
        chosen = [name for name in pairs if name in like_scores][:1] or pairs[:1]
    pairs = [name for name in pairs if name not in chosen]
    if len(chosen) != 1 or len(pairs) != 2:
        shapes = ", ".join(str(list(y.shape)) for y in outputs.values())
        raise UnlikeError(f"maps of a CenterNet should be one of scores and two of 2 channels, sizes and moves, and are {shapes}")
    sizes, moves = pairs  # as its authors export it, unless values say otherwise
    inside = {name: INSIDE[0] <= low[name] and high[name] <= INSIDE[1] for name in pairs}
    if inside[sizes] and not inside[moves] and high[moves] > LARGE:
        sizes, moves = moves, sizes
    return Maps(chosen[0], sizes, moves, points, chosen[0] not in like_scores)


def found(tail: Tail, outputs: Outputs, numbers: Numbers, picture: tuple[int, int]) -> tuple[Asked, DetectorEntry, Corners]:
    """The heads, and what they were found by. UnlikeError: they are none of these."""
    lost = [name for name in outputs if name not in numbers]
    if lost:
        raise UnlikeError(f"the size of '{lost[0]}' depends on what is in the picture: it chooses by itself")
    if len(outputs) == 1:
        return _text(tail, next(iter(outputs)), numbers, picture)
    maps = roles(outputs, (tail.run(tail.filled(-128)), tail.run(tail.filled(127))))
    asked = _asked(tail, sources(tail, maps.rows(dict(numbers)).astype(np.int64)), maps.rows, picture)
    grid = asked.grids[0]
    if None in grid.columns:
        name = (maps.moves, maps.moves, maps.sizes, maps.sizes, maps.scores)[min(grid.columns.index(None), BOX)]
        raise UnlikeError(f"each element of '{name}' should follow one integer of a head, in the same cell")
    return asked, _centres(asked, maps), partial(_corners, asked, maps)


def _asked(tail: Tail, source: Source, rows: Callable[[Outputs], NDArray[np.float32]], picture: tuple[int, int]) -> Asked:
    """What is asked of a model with one map. UnlikeError: its scores come from several."""
    grids = grids_of(tail, source)
    if len(grids) != 1:
        raise UnlikeError("each of its maps should come from one head")

    def made(tensors: list[Int8]) -> NDArray[np.float32]:
        return rows(tail.run(tensors))

    return Asked(tail, grids, source, made, runs_of(tail, grids, made, picture), picture)


def _centres(asked: Asked, maps: Maps) -> DetectorEntry:
    grid, tables = asked.grids[0], Tables()
    down, across = asked.stride(grid)
    middle = MIDDLE if maps.points else 0.0
    steps = ((0.0, across, across), (down, 0.0, down), (0.0, 0.0, across), (0.0, 0.0, down))
    box: list[NumberEntry] = []
    for column, (to_down, to_across, size) in enumerate(steps):
        measured = place(asked.runs, grid, column)
        if abs(measured.down) > 0 or abs(measured.across) > 0:
            raise UnlikeError("moves and sizes should be the same in all cells")
        with np.errstate(over="ignore"):
            value = (
                measured.table + np.float32(middle) if column < PAIR else np.exp(measured.table) if maps.points else measured.table
            )
        if not np.isfinite(value * np.float32(size)).all():
            raise UnlikeError("the logarithms of its boxes' sizes are too large")
        channel = grid.columns[column]
        assert channel is not None
        box.append(number_entry(channel, tables.number(value * np.float32(size)), to_down, to_across))
    one: GridEntry = grid_entry(asked, grid, tables, False, box)
    return _entry(asked, (maps.family, TABLES if maps.points else PEAKS), asked.numbers - BOX, tables, one)


def _entry(asked: Asked, names: tuple[str, str], labels: int, tables: Tables, grid: GridEntry) -> DetectorEntry:
    return {
        "family": names[0],
        "scores": names[1],
        "form": "centre",
        "picture": [*asked.picture],
        "labels": labels,
        "heads": [port["name"] for port in asked.tail.heads],
        "tables": list(tables.texts),
        "grids": [grid],
    }


def _corners(asked: Asked, maps: Maps, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """The boxes of such rows, as a user of the model decodes them."""
    down, across = asked.stride(asked.grids[0])
    y, x = np.divmod(np.arange(len(rows)), asked.grids[0].rows.shape[1])
    made = rows[:, :BOX].astype(np.float64)
    middle = MIDDLE if maps.points else 0.0
    sizes = np.exp(made[:, 2:]) if maps.points else made[:, 2:]
    centre = np.stack([(made[:, 0] + x + middle) * across, (made[:, 1] + y + middle) * down], axis=1)
    return from_centres(np.concatenate([centre, sizes * np.array([across, down])], axis=1))


def _text(tail: Tail, name: str, numbers: Numbers, picture: tuple[int, int]) -> tuple[Asked, DetectorEntry, Corners]:
    """DBNet's map: how likely each cell is text."""
    source = sources(tail, numbers[name].reshape(-1, 1))
    asked = _asked(tail, source, lambda outputs: outputs[name].reshape(-1, 1), picture)
    grid, tables = asked.grids[0], Tables()
    down, across = asked.stride(grid)
    channel = grid.columns[0]
    if channel is None or down % 1 or across % 1:
        raise UnlikeError(f"'{name}' should be a map of the whole picture, each of whose cells follows one integer of a head")
    table = tables.number(score_table(asked.runs, grid, 0))
    steps = ((0.0, across), (down, 0.0), (0.0, 0.0), (0.0, 0.0))  # the first two have a cell's size
    box = [number_entry(channel, table, *step) for step in steps]
    one: GridEntry = {"size": [*grid.rows.shape], "row": grid.row, "classes": [*channel, table], "objectness": None, "box": box}
    return asked, _entry(asked, ("DBNet", AREAS), 1, tables, one), from_centres


def peaks(scores: NDArray[np.float32], size: Sequence[int]) -> NDArray[np.float32]:
    """Scores [cells, classes] where none of the eight cells around has a greater one; -1 elsewhere."""
    rows, columns = size
    wide = np.pad(scores.reshape(rows, columns, -1), ((1, 1), (1, 1), (0, 0)), constant_values=-1)
    most = np.max([wide[y : y + rows, x : x + columns] for y in range(3) for x in range(3)], axis=0).reshape(scores.shape)
    return np.where(scores >= most, scores, np.float32(-1))
