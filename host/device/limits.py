"""Numbers that a caller sets, checked where they come in: one that makes no sense is refused in a line, not met later as a hang."""

import math
from typing import Any

from cnna.spec.errors import DataError

FOREVER_SECONDS = 1e6  # more than any wait: the operating system's own limits are above


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
    """A time to wait, above 0 or, with `zero`, from it on. DataError: it is none; names it and the limits."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= FOREVER_SECONDS or (number == 0 and not zero):
        raise DataError(f"{name} is {value!r}: it must be {'from' if zero else 'above'} 0 to {FOREVER_SECONDS:,.0f} seconds")
    return number
