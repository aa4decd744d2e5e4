"""Chooses the range that int8 covers from a tensor's statistics: min-max, percentile, least squared error."""

from collections.abc import Callable

import numpy as np

from cnna.compiler.graph.ir import Quant
from cnna.compiler.quantise.calibrate import Statistics

PERCENTILE = 99.999  # 99.99 cuts the scores of what is rare: a face detector then finds 9 % of its faces
SHRINKS = np.linspace(0.2, 1.0, 81)  # shares of the full range that are tried for the least squared error

Range = tuple[float, float]


def minmax(statistics: Statistics) -> Range:
    """The range of all values that were seen."""
    return statistics.low, statistics.high


def percentile(statistics: Statistics, percent: float = PERCENTILE) -> Range:
    """The range without the outer (100 - percent) % of the values at each end. An end that lies at 0 stays."""
    low, high = minmax(statistics)
    total = statistics.histogram.sum()
    if not total:
        return low, high
    edges = np.linspace(low, high, len(statistics.histogram) + 1)
    share = np.cumsum(statistics.histogram) / total
    first = int(np.searchsorted(share, 1 - percent / 100, side="right"))
    last = int(np.searchsorted(share, percent / 100, side="left"))
    return (min(float(edges[first]), 0.0) if low < 0 else low), (max(float(edges[last + 1]), 0.0) if high > 0 else high)


def squared_error(statistics: Statistics) -> Range:
    """The shrunk range whose int8 values have the least squared error."""
    low, high = minmax(statistics)
    if not statistics.histogram.sum():
        return low, high
    edges = np.linspace(low, high, len(statistics.histogram) + 1)
    centres = (edges[1:] + edges[:-1]) / 2

    def error(shrink: float) -> float:
        quant = quant_of((low * shrink, high * shrink))
        whole = np.clip(np.rint(centres / quant.scale) + quant.zero, -128, 127)
        return float((statistics.histogram * (centres - quant.scale * (whole - quant.zero)) ** 2).sum())

    best = min(SHRINKS[::-1], key=error)  # the widest of those with an equal error
    return low * float(best), high * float(best)


METHODS: dict[str, Callable[[Statistics], Range]] = {"minmax": minmax, "percentile": percentile, "mse": squared_error}


def quant_of(limits: Range) -> Quant:
    """256 values across the range, one of them exactly 0; the scale is a float32, as ONNX stores it."""
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    scale = float(np.float32((high - low) / 255))
    if not scale > np.finfo(np.float32).tiny:
        return Quant(1.0, 0)  # the tensor is 0 everywhere
    return Quant(scale, int(np.clip(round(-128 - low / scale), -128, 127)))
