"""In which order and unit a model's rows have boxes: x or y first, in pixels or in shares of the picture.

A box's place moves from cell to cell. The number that moves across is x, and by how much it moves is its unit. Where nothing moves,
as of a head's own numbers, nothing is known, and rows are taken as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.grids import Grid
from cnna.compiler.heads.measured import straight
from cnna.compiler.heads.sources import BOX, Source
from cnna.compiler.heads.tail import UnlikeError

X_FIRST, Y_FIRST = (0, 1, 2, 3), (1, 0, 3, 2)
STILL = 1e-4  # shares of the picture, below which places do not move
LIKE = (0.7, 1.4)  # how much of the picture the cells of a map cover, such as 1.07 where the last ones lie partly outside


@dataclass(frozen=True)
class Units:
    """order: of a box's numbers, so that x is first. scale: of each after that, to pixels of the model's picture."""

    order: tuple[int, ...] = X_FIRST
    scale: tuple[float, ...] = (1.0,) * BOX

    @property
    def plain(self) -> bool:
        """Whether rows are as they should be."""
        return self == Units()

    def rows(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows in pixels, x first."""
        if self.plain:
            return rows
        made = rows.copy()
        made[:, :BOX] = rows[:, self.order] * np.array(self.scale, np.float32)
        return made

    def source(self, source: Source) -> Source:
        """Where the numbers of such rows come from."""
        order = [*self.order, *range(BOX, source.head.shape[1])]
        return Source(*(one[:, order] for one in source))


def units_of(grids: Sequence[Grid], level: NDArray[np.float32], picture: tuple[int, int]) -> Units:
    """The order and unit. level: rows of heads of one integer. UnlikeError: places move neither by pixels nor by shares."""
    grid = max(grids, key=lambda one: min(one.rows.shape))  # whose cells cover the picture best
    height, width = grid.rows.shape
    moves = [straight(level[grid.rows, column].astype(np.float64)) for column in (0, 1)]
    across, down = ([abs(move[axis]) * size for move in moves] for axis, size in ((1, width), (0, height)))
    moved = max(*across, *down)
    if moved < STILL:
        return Units()
    y_first = across[1] + down[0] > across[0] + down[1]
    order = Y_FIRST if y_first else X_FIRST
    wide, high = across[order[0]], down[order[1]]
    if not y_first and max(across[1], down[0]) > STILL * moved + STILL:
        raise UnlikeError(
            "the first two numbers of a row should be x and y, and each move with columns or with rows of cells alone"
        )
    sides = float(picture[1]), float(picture[0])
    known = [axis for axis, count in enumerate((width, height)) if count > 1]
    for scale in ((1.0, 1.0), sides):
        covered = [(wide, high)[axis] * scale[axis] / sides[axis] for axis in known]
        if all(LIKE[0] <= share <= LIKE[1] for share in covered):
            return Units(order, scale * 2)
    raise UnlikeError(
        f"its boxes move by {wide / width:.3g} across and {high / height:.3g} down from cell to cell, which is neither pixels nor "
        "shares of the picture"
    )
