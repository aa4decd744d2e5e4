"""Checks the numbers that a caller sets: a senseless one is refused at once, in one line, instead of causing a hang later."""

import math
from typing import Any

from cnna.spec.errors import DataError
from cnna.spec.names import in_short

FOREVER_SECONDS = 1e6  # longer than any wait; the operating system allows more


def whole(name: str, value: Any, low: int, high: int) -> int:
    """The value as a whole number within low..high; numpy's are allowed.

    DataError: it is not; the message names it and the limits.
    """
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise DataError(f"{name} is {in_short(value)}: it must be a whole number within {low}..{high}")
    return number


def seconds(name: str, value: Any, zero: bool = False) -> float:
    """The value as seconds to wait, above 0, or from 0 with `zero`. DataError: it is not; the message names it and the limits."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= FOREVER_SECONDS or (number == 0 and not zero):
        raise DataError(
            f"{name} is {in_short(value)}: it must be {'from' if zero else 'above'} 0 to {FOREVER_SECONDS:,.0f} seconds"
        )
    return number
