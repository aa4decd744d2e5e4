"""How a detector's own outputs come from its heads, where they are rows of boxes and scores: by the tables that were found."""

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.sources import BOX, Arrangement
from cnna.compiler.heads.tail import Int8, Tail
from cnna.compiler.heads.units import Units
from cnna.spec.detection.heads import TABLES, Heads, RowsEntry
from cnna.spec.detection.rows import model_rows

SEED, DRAWS = 4, 2
NEAR, SCORES_NEAR = 1e-5, 1e-6  # how far a number may be from the tail's, as a share of it; and a score
BOXES_NEAR = 1e-6  # of the greatest number of a box, by which any may be away


def with_rows(heads: Heads, tail: Tail, way: Arrangement, units: Units) -> Heads:
    """The heads with their entry's `rows`, if all of the model's outputs are such rows; else as they are.

    way, units: how the outputs were read as rows in pixels.
    """
    if heads.scores != TABLES or set(way.names) != set(tail.outputs) or len(way.names) != 1 + way.beside:
        return heads
    for centred in (False, True)[: 1 + (heads.entry["form"] == "corners")]:
        how: RowsEntry = {
            "outputs": [*way.names],
            "turned": way.turned,
            "centred": centred,
            "order": [*units.order],
            "scale": [*units.scale],
        }
        made = Heads({**heads.entry, "rows": how}, heads.shapes, heads.tables)
        if all(_alike(model_rows(made, tensors), way.rows(tail.run(tensors))) for tensors in _asked(tail)):
            return made
    return heads


def _asked(tail: Tail) -> list[list[Int8]]:
    """Heads of random integers, and of those at both ends."""
    rng = np.random.default_rng(SEED)
    return [*(tail.drawn(rng) for _ in range(DRAWS)), tail.filled(-128), tail.filled(127)]


def _alike(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> bool:
    if found.shape != wanted.shape or not np.isfinite(wanted).all():
        return False
    away = np.abs(found.astype(np.float64) - wanted)
    limit = NEAR * np.abs(wanted[:, :BOX]) + BOXES_NEAR * np.abs(wanted[:, :BOX]).max()
    return bool((away[:, :BOX] <= limit).all() and (away[:, BOX:] <= SCORES_NEAR).all())
