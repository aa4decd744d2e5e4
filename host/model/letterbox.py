"""Pictures of any size in a detector's input, whole and with their own proportions, and boxes back in the picture's pixels."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.detections import Boxes
from cnna.host.native.pictures import resize
from cnna.host.samples.picture_modes import upright
from cnna.spec.errors import DataError

NOUGHT = np.float32(0)
GREY = 114  # of what a picture leaves free, as detectors are trained with

Picture = NDArray[np.uint8]


class Placed(NamedTuple):
    """Where a picture lies in the input. size: rows and columns of the picture; scaled: of what it was scaled to."""

    size: tuple[int, int]
    scaled: tuple[int, int]
    top: int
    left: int

    def back(self, boxes: Boxes) -> Boxes:
        """Boxes of the input as boxes of the picture, cut at its edges."""
        if self.scaled == self.size and not (self.top or self.left):
            return self._cut(boxes)
        scales = np.array([self.scaled[1] / self.size[1], self.scaled[0] / self.size[0]] * 2, np.float32)
        return self._cut((boxes - np.array([self.left, self.top] * 2, np.float32)) / scales)

    def _cut(self, boxes: Boxes) -> Boxes:
        limits = np.array([self.size[1], self.size[0]] * 2, np.float32)
        whole: Boxes = np.minimum(np.maximum(boxes, NOUGHT), limits)
        return whole


def read(picture: Any, channels: int) -> Picture:
    """A picture, uint8 [rows, columns, channels], from such an array or from a file, in RGB or grey. DataError: it is none."""
    if isinstance(picture, (str, os.PathLike)):
        path = Path(picture)
        if not os.path.isfile(path):
            raise DataError(f"{path}: {'a folder, not a picture' if path.is_dir() else 'no such file'}")
        pixels = np.asarray(upright(path, channels), np.uint8)
        return pixels if channels > 1 else pixels[..., None]
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8:
        kind = picture.dtype if isinstance(picture, np.ndarray) else type(picture).__name__
        raise DataError(f"a picture is a file, or uint8 [rows, columns, {channels}], not {kind}")
    if picture.ndim == 2 and channels == 1:
        picture = picture[..., None]
    if picture.ndim != 3 or picture.shape[2] != channels or not picture.size:
        raise DataError(f"a picture is uint8 [rows, columns, {channels}], not {list(picture.shape)}")
    return picture


def placed(size: tuple[int, int], room: tuple[int, int], corner: bool) -> Placed:
    """Where a picture of some rows and columns goes: as large as it fits, in the middle, or at the top and left if `corner`."""
    ratio = min(room[0] / size[0], room[1] / size[1])
    scaled = tuple(max(1, min(whole, round(one * ratio))) for one, whole in zip(size, room, strict=True))
    top, left = (0, 0) if corner else ((room[0] - scaled[0]) // 2, (room[1] - scaled[1]) // 2)
    return Placed(size, (scaled[0], scaled[1]), top, left)


def put(picture: Picture, into: Picture, corner: bool) -> Placed:
    """Writes a picture into the input's pixels, uint8 [rows, columns, channels], and says where it lies."""
    room = (into.shape[0], into.shape[1])
    found = placed((picture.shape[0], picture.shape[1]), room, corner)
    if found.scaled != room:
        into[...] = GREY
    scaled = picture if found.scaled == found.size else resize(picture, found.scaled)
    into[found.top : found.top + found.scaled[0], found.left : found.left + found.scaled[1]] = scaled
    return found
