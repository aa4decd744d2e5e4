"""The row window of the vector engine: which taps of a kernel row it takes in one step.

`VECTOR_WINDOW.apart` is 0, and a step takes one tap, or the number of taps from a pixel's source to the next pixel's. Then a step
takes tap t, t + apart and t + 2 * apart: what a lane reads for one of them, the lane before it reads for the next.
"""

from typing import TypeVar

import numpy as np

from cnna.spec.config import TAPS

APART_MOST = 2
Numbers = TypeVar("Numbers", int, "np.ndarray[tuple[int, ...], np.dtype[np.int64]]")


def row_steps(taps: int, apart: int) -> list[tuple[int, ...]]:
    """The taps of each step of a kernel row of so many taps, in the order of the steps."""
    if not apart:
        return [(tap,) for tap in range(taps)]
    reach = TAPS * apart
    firsts = [start + phase for start in range(0, taps, reach) for phase in range(min(apart, taps - start))]
    return [tuple(tap for tap in range(first, first + reach, apart) if tap < taps) for first in firsts]


def steps_in_row(taps: Numbers, apart: Numbers) -> Numbers:
    """How many steps `row_steps` has; also for arrays."""
    if isinstance(taps, int):
        return taps if not apart else taps // (TAPS * apart) * apart + min(taps % (TAPS * apart), apart)
    reach = np.maximum(TAPS * apart, 1)
    steps = taps // reach * apart + np.minimum(taps % reach, apart)
    return np.where(apart == 0, taps, steps)
