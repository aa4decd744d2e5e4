"""Tick numbers for the axes of the pictures of `cnna report` and `cnna explore`: round, with separators, never overlapping.

An axis is matplotlib's, after its limits are known; matplotlib itself is imported only where a picture is drawn.
"""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any

NUMBER = "{x:,.15g}"
STEPS = 5  # the most ticks on an axis: with more, numbers in the millions would touch


def linear(axis: Any) -> None:
    """Sets a few round numbers on a linear axis."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(STEPS, integer=True))
    axis.set_major_formatter(StrMethodFormatter(NUMBER))


def logarithmic(axis: Any) -> None:
    """Sets powers of ten on a logarithmic axis.

    Where there are few powers, it adds 2 and 5 times each; where there are many, it leaves some out. If even that gives too few
    numbers, it sets other round numbers. The limits of the axis stay.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for multiples, every in (((1, 2, 5), 1), *(((1,), every) for every in range(1, 10))):
        places = [place for n in powers if n % every == 0 for m in multiples if low <= (place := m * 10.0**n) <= high]
        if len(places) <= STEPS:
            break
    axis.set_major_locator(FixedLocator(places) if len(places) > 1 else MaxNLocator(STEPS))
    axis.set_major_formatter(StrMethodFormatter(NUMBER))
    axis.set_minor_formatter(NullFormatter())


def from_zero(axes: Any, values: Sequence[int]) -> None:
    """Makes x logarithmic from the least value above zero on, and leaves room for zero before it. No value may be negative."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    least, most = min((value for value in values if value), default=1), max(*values, 1)
    axes.set_xscale("symlog", linthresh=least)
    axes.set_xlim(-0.2 * least, 2 * most)
    powers = [10**n for n in range(ceil(log10(least)), ceil(log10(2 * most)))]
    axes.xaxis.set_major_locator(FixedLocator([0, *powers[:: -ceil(len(powers) / STEPS)]] if powers else [0, least]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter(NUMBER))
