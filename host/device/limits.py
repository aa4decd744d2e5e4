"""Checks the numbers that a caller sets: a senseless one is refused at once, in one line, instead of causing a hang later."""

import math
from typing import Any

from cnna.spec.errors import DataError

FOREVER_SECONDS = 1e6  # longer than any wait; the operating system allows more


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number within low..high, numpy's too. DataError: it is not; names it and the limits."""
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise DataError(f"{name} is {value!r}: it must be a whole number within {low}..{high}")
    return number


def seconds(name: str, value: Any, zero: bool = False) -> float:
    """A time to wait in seconds, above 0; with `zero`, 0 is allowed. DataError: it is not one; names it and the limits."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= FOREVER_SECONDS or (number == 0 and not zero):
        raise DataError(f"{name} is {value!r}: it must be {'from' if zero else 'above'} 0 to {FOREVER_SECONDS:,.0f} seconds")
    return number
