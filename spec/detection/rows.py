"""All rows of a detector's own output, from int8 head tensors by tables. host/native/detect_rows.cpp does it natively, alike."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cnna.spec.detection.decode import Int8, number_at
from cnna.spec.detection.heads import Heads

BOX = 4  # numbers of a box
Floats = NDArray[np.float32]


def model_rows(heads: Heads, tensors: Sequence[Int8]) -> Floats:
    """Float32 [boxes, numbers] of one picture: a box, an objectness if there is one, and classes. Needs the entry's `rows`."""
    how, labels = heads.entry["rows"], heads.entry["labels"]
    first = BOX + any(grid["objectness"] is not None for grid in heads.entry["grids"])
    made = np.empty((heads.boxes, first + labels), np.float32)
    for grid in heads.entry["grids"]:
        cells = np.divmod(np.arange(grid["size"][0] * grid["size"][1]), grid["size"][1])
        rows = grid["row"][0] + grid["row"][1] * cells[0] + grid["row"][2] * cells[1]
        box = [number_at(heads, one, tensors, cells) for one in grid["box"]]
        if how["centred"]:
            box = [*((box[axis] + box[axis + 2]) * np.float32(0.5) for axis in (0, 1)), box[2] - box[0], box[3] - box[1]]
        for place, scale, value in zip(how["order"], how["scale"], box, strict=True):
            made[rows, place] = value / np.float32(scale)
        fields = [(grid["objectness"], 1, BOX)] if grid["objectness"] is not None else []
        for (head, channel, table), count, column in (*fields, (grid["classes"], labels, first)):
            q = tensors[head][channel : channel + count].reshape(count, -1)
            made[rows, column : column + count] = heads.tables[table][q.astype(np.int16) + 128].T
    return made


def outputs_of_rows(heads: Heads, rows: Floats, shapes: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    """The model's outputs. shapes: of each."""
    how = heads.entry["rows"]
    parts = [rows] if len(how["outputs"]) == 1 else [rows[:, :BOX], rows[:, BOX:]]
    return {
        name: np.ascontiguousarray(part.T if how["turned"] else part).reshape(shapes[name])
        for name, part in zip(how["outputs"], parts, strict=True)
    }
