"""From a detector's int8 head tensors to its detections, natively or by `spec.detection`, alike to the bit."""

import ctypes
from collections.abc import Sequence
from ctypes import byref, pointer
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.library import CDetector, CGrid, CHead, CHeads, CNumber, CWanted
from cnna.host.native.tensors import address_of
from cnna.spec.detection.decode import Int8, Labels, candidates
from cnna.spec.detection.heads import KINDS, GridEntry, Heads
from cnna.spec.detection.suppression import kept

MOST_CANDIDATES = 4096  # that suppression begins with, the surest ones


class Found(NamedTuple):
    """Detections in the model's picture, the surest first: boxes float32 [n, 4], scores float32 [n], classes int64 [n]."""

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]


class Settings(NamedTuple):
    """What counts. least: score; overlap: of boxes of one class; most: detections."""

    least: float
    overlap: float
    labels: Labels
    most: int


class Decoder:
    """A detector's heads, ready to decode. Any thread may call it. c_heads: for the library, if it is there."""

    def __init__(self, heads: Heads, settings: Settings) -> None:
        self.heads, self.settings = heads, settings
        self._calls = library.native().calls
        if self._calls is not None:
            entry, shapes = heads.entry, heads.shapes
            self._channels = np.array([channels for channels, _, _ in shapes], np.int64)
            self._cells = np.array([rows * columns for _, rows, columns in shapes], np.int64)
            self._tables = np.ascontiguousarray(heads.tables)
            self._grids = described(entry["grids"])
            scores = (entry["form"] == "centre", KINDS.index(heads.scores))
            counts = (entry["labels"], *scores, len(shapes), len(self._tables), len(self._grids))
            places = (self._channels.ctypes.data, self._cells.ctypes.data, self._tables.ctypes.data)
            self.c_heads = CHeads(*counts, *places, self._grids, heads.edges)
            self._c_wanted = wanted(settings)
            self._call = partial(self._calls.cnna_detect, byref(self.c_heads))
            self._places: Any = CHead * len(shapes)

    def __call__(self, tensors: Sequence[Int8]) -> Found:
        """The detections of one picture. tensors: int8 [C, H, W] of each head."""
        if self._calls is None:
            return by_numpy(self.heads, tensors, self.settings)
        dense = [q if q.flags.c_contiguous else np.ascontiguousarray(q) for q in tensors]
        for q, shape in zip(dense, self.heads.shapes, strict=True):
            assert q.shape == shape, "tensors of other shapes than the heads"
            assert q.dtype == np.int8
        boxes = np.empty((self.settings.most, 4), np.float32)
        scores, classes = np.empty(self.settings.most, np.float32), np.empty(self.settings.most, np.int64)
        count = ctypes.c_int64()
        where = (address_of(boxes), address_of(scores), address_of(classes), byref(count))
        planes = self._places(*[(address_of(q), 1, cells) for q, cells in zip(dense, self._cells.tolist(), strict=True)])
        code = self._call(planes, byref(self._c_wanted), *where)
        library.check(code, "decoding a detector's heads")
        left = count.value
        return Found(boxes[:left].copy(), scores[:left].copy(), classes[:left].copy())

    def on_ports(self, names: Sequence[str]) -> CDetector | None:
        """For a job of the run loop, whose program has these output ports. None: the library is not there."""
        if self._calls is None:
            return None
        ports = [names.index(name) for name in self.heads.entry["heads"]]
        made = CDetector(pointer(self.c_heads), pointer(self._c_wanted), (ctypes.c_int64 * len(ports))(*ports))
        made.decoder = self  # whose arrays it points to
        return made


def wanted(settings: Settings) -> CWanted:
    """The settings for the library."""
    return CWanted(settings.least, settings.overlap, settings.labels == "best", MOST_CANDIDATES, settings.most)


def described(grids: Sequence[GridEntry]) -> ctypes.Array[CGrid]:
    """A manifest's grids for the library."""
    return (CGrid * len(grids))(*map(_grid, grids))


def _grid(entry: GridEntry) -> CGrid:
    numbers = [
        CNumber(*(one["head"], one["channel"], one["bins"], one["table"]), one["base"], one["down"], one["across"], one["factor"])
        for one in entry["box"]
    ]
    fields = ((ctypes.c_int64 * 3)(*entry["classes"]), (ctypes.c_int64 * 3)(*(entry["objectness"] or (-1, 0, 0))))
    return CGrid(*entry["size"], *entry["row"], *fields, (CNumber * 4)(*numbers))


def by_numpy(heads: Heads, tensors: Sequence[Int8], settings: Settings) -> Found:
    """As `Decoder`, without the library."""
    made = candidates(heads, tensors, settings.least, settings.labels, MOST_CANDIDATES)
    stay = np.zeros(len(made.classes), bool)
    for number in np.unique(made.classes):
        mine = np.flatnonzero(made.classes == number)
        stay[mine[kept(made.boxes[mine], settings.overlap)]] = True
    index = np.flatnonzero(stay)[: settings.most]
    return Found(made.boxes[index], made.scores[index], made.classes[index])


def suppressed(boxes: NDArray[Any], overlap: float) -> NDArray[np.int64]:
    """The numbers of the boxes to keep, of boxes [N, 4] of one class, the surest first."""
    calls = library.native().calls
    if calls is None or boxes.dtype != np.float32 or not overlap >= 0 or not np.isfinite(boxes).all():
        return kept(boxes, overlap)
    dense, found, left = np.ascontiguousarray(boxes), np.empty(len(boxes), np.int64), ctypes.c_size_t()
    code = calls.cnna_suppress(dense.ctypes.data, len(dense), overlap, found.ctypes.data, byref(left))
    library.check(code, "suppressing doubles")
    return found[: left.value].copy()
