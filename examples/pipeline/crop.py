"""The piece between detector and classifier: cuts out what was found."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

CELL, CARD = 4, 16  # pixels
Floats = NDArray[np.float32]


def cards(pictures: Floats, corners: Floats) -> dict[str, NDArray[Any]]:
    """The cards of all pictures, in the order of pictures and then of lines; there may be none.

    pictures: [N, 1, H, W]. corners: [N, 1, H / 4, W / 4], positive where a card's upper left corner is.
    """
    found = np.argwhere(corners[:, 0] > 0.5)
    inside = [(n, y * CELL, x * CELL) for n, y, x in found.tolist() if _fits(y, pictures.shape[2]) and _fits(x, pictures.shape[3])]
    digits = np.zeros((len(inside), 1, CARD, CARD), np.float32)
    for place, (n, y, x) in enumerate(inside):
        digits[place] = pictures[n, :, y : y + CARD, x : x + CARD]
    table = np.array(inside, np.int64).reshape(-1, 3)
    return {"digits": digits, "number": table[:, 0], "place": table[:, 1:]}


def _fits(cell: int, size: int) -> bool:
    return cell * CELL + CARD <= size
