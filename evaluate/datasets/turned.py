"""Annotations of pictures that EXIF turns by a quarter: they may be of the picture as it is stored, or as it is shown.

Pictures are read as they are shown. The height and width that COCO's annotations give an image, or that a mask has, say of which
they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples.picture_modes import quarter_turn, size_of


@dataclass(frozen=True)
class Turn:
    """From the pixels of a stored picture to those of the one that is shown. size: rows and columns of that; None: they are one.

    from_right, from_bottom: a column, or a row, counts from the other side.
    """

    size: tuple[int, int] | None = None
    from_right: bool = False
    from_bottom: bool = False

    def point(self, x: float, y: float) -> tuple[float, float]:
        """A point's column and row."""
        if self.size is None:
            return x, y
        rows, columns = self.size
        return columns - y if self.from_right else y, rows - x if self.from_bottom else x

    def box(self, box: Sequence[float]) -> list[float]:
        """A box's left, top, width and height."""
        left, top, width, height = box
        (a, b), (c, d) = self.point(left, top), self.point(left + width, top + height)
        return list(box) if self.size is None else [min(a, c), min(b, d), height, width]

    def points(self, points: Sequence[float]) -> list[float]:
        """COCO's list of keypoints: x, y and whether it is known, for each; those that are not known stay."""
        found = []
        for at in range(0, len(points), 3):
            x, y, known = points[at : at + 3]
            found += [*(self.point(x, y) if known > 0 else (x, y)), known]
        return found


SAME = Turn()
SIDES = {5: (False, False), 6: (True, False), 7: (True, True), 8: (False, True)}  # EXIF's orientation: from_right, from_bottom


def turn_of(file: Path, image: Mapping[str, Any]) -> Turn:
    """How the annotations of an image turn with its picture. image: COCO's entry."""
    shown = size_of(file) if (orientation := quarter_turn(file)) else None
    if shown is None or (image.get("width"), image.get("height")) != shown or shown[0] == shown[1]:
        return SAME
    return Turn(shown, *SIDES[orientation])


def turned_mask(file: Path, mask: NDArray[Any]) -> NDArray[Any]:
    """A picture's mask [H, W] of any size as the picture is shown: turned if its sides are as those of the stored picture."""
    shown = size_of(file) if (orientation := quarter_turn(file)) else None
    if shown is None or shown[0] == shown[1] or mask.shape[0] * shown[0] != mask.shape[1] * shown[1]:
        return mask
    from_right, from_bottom = SIDES[orientation]
    return np.ascontiguousarray(mask.T[:: -1 if from_bottom else 1, :: -1 if from_right else 1])
