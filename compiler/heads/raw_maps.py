"""YOLOv3 and YOLOv5 whose outputs are the raw maps of their last convolutions, as Darknet's converters leave them.

A map has, for each of three anchors, four numbers of a box, the objectness, and the classes. Anchors are not in such a model, so
the user says which family it is, and its published anchors for COCO are taken.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.family import Tables, number_entry
from cnna.compiler.heads.sources import BOX, NONE, sources
from cnna.compiler.heads.tail import Outputs, Tail, UnlikeError
from cnna.spec.detection.heads import DetectorEntry, GridEntry, NumberEntry
from cnna.spec.samples import pack

Floats = NDArray[np.float64]
Anchors = tuple[tuple[int, int], ...]

ANCHORS_A_CELL, OBJECTNESS = 3, 1
SCORES_END = 1.01  # where int8 of scores ends
COCO: dict[int, Anchors] = {  # by stride: width and height of three boxes, of YOLOv3 and of YOLOv5 alike
    8: ((10, 13), (16, 30), (33, 23)),
    16: ((30, 61), (62, 45), (59, 119)),
    32: ((116, 90), (156, 198), (373, 326)),
}


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


# By family: its name, the place of a centre in its cell, and the size as shares of the anchor's, of a head's numbers.
FAMILIES: dict[str, tuple[str, Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "yolov3": ("YOLOv3", _sigmoid, np.exp),
    "yolov5": ("YOLOv5", lambda x: 2 * _sigmoid(x) - 0.5, lambda x: (2 * _sigmoid(x)) ** 2),
}


def are_raw(outputs: Outputs) -> bool:
    """Whether outputs are such maps: [1, 3 * (5 + classes), rows, columns]."""
    channels = {y.shape[1] for y in outputs.values() if y.ndim == 4 and len(y) == 1}
    least = ANCHORS_A_CELL * (BOX + OBJECTNESS + 1)
    whole = len(channels) == 1 and all(y.ndim == 4 for y in outputs.values())
    return whole and min(channels) >= least and not min(channels) % ANCHORS_A_CELL


def found(
    tail: Tail, outputs: Outputs, numbers: Mapping[str, NDArray[np.int64]], picture: tuple[int, int], family: str
) -> DetectorEntry:
    """The heads. UnlikeError: outputs are not the heads' own numbers, or of other strides."""
    tables, grids, first = Tables(), list[GridEntry](), 0
    labels = next(iter(outputs.values())).shape[1] // ANCHORS_A_CELL - BOX - OBJECTNESS
    for name, y in outputs.items():
        head = _head_of(tail, name, numbers[name])
        stride = picture[0] / y.shape[2]
        if stride not in COCO or picture[1] / y.shape[3] != stride:
            raise UnlikeError(f"maps of strides 8, 16 and 32 have anchors; '{name}' has a stride of {stride:g}")
        for number, anchor in enumerate(COCO[int(stride)]):
            grids.append(_grid(tail, head, number, (anchor, stride, labels, first), family, tables))
            first += y.shape[2] * y.shape[3]
    return {
        "family": FAMILIES[family][0],
        "form": "centre",
        "picture": [*picture],
        "labels": labels,
        "heads": [port["name"] for port in tail.heads],
        "tables": list(tables.texts),
        "grids": grids,
    }


def _head_of(tail: Tail, name: str, numbers: NDArray[np.int64]) -> int:
    """The head that an output is, number by number."""
    source = sources(tail, numbers[0])
    head = int(source.head.flat[0])
    channels, rows, columns = numbers.shape[1:]
    places = np.arange(channels)[:, None, None], np.arange(rows * columns).reshape(rows, columns)
    if head == NONE or tail.shapes[head] != (channels, rows, columns) or (source.head != head).any():
        raise UnlikeError(f"'{name}' should be a map of the last convolution as it is")
    value = pack.dequantise(np.array([-128, 127], np.int8), tail.heads[head]["scale"], tail.heads[head]["zero"])
    if value.min() >= 0 and value.max() <= SCORES_END:
        raise UnlikeError(f"'{name}' should be a map of the last convolution as it is, and lies from 0 to 1 as behind a sigmoid")
    if (source.channel != places[0]).any() or (source.cell != places[1]).any():
        raise UnlikeError(f"'{name}' has the channels or cells of a map in another order")
    return head


def _grid(
    tail: Tail, head: int, number: int, of: tuple[tuple[int, int], float, int, int], family: str, tables: Tables
) -> GridEntry:
    """The boxes of an anchor. of: the anchor, the stride, the classes, and the first row."""
    (wide, high), stride, labels, first = of
    port, channel = tail.heads[head], number * (BOX + OBJECTNESS + labels)
    value = pack.dequantise(np.arange(-128, 128).astype(np.int8), port["scale"], port["zero"]).astype(np.float64)
    _, place, size = FAMILIES[family]
    score = tables.number(_sigmoid(value).astype(np.float32))
    with np.errstate(over="ignore"):
        made = (place(value) * stride, place(value) * stride, size(value) * wide, size(value) * high)
    if not all(np.isfinite(one.astype(np.float32)).all() for one in made):
        raise UnlikeError("the logarithms of its boxes' sizes are too large")
    steps = ((0.0, stride), (stride, 0.0), (0.0, 0.0), (0.0, 0.0))
    box: list[NumberEntry] = [
        number_entry((head, channel + column), tables.number(one.astype(np.float32)), *steps[column])
        for column, one in enumerate(made)
    ]
    rows, columns = port["shape"][1:]
    scores = channel + BOX
    return {
        "size": [rows, columns],
        "row": [first, columns, 1],
        "classes": [head, scores + OBJECTNESS, score],
        "objectness": [head, scores, score],
        "box": box,
    }
