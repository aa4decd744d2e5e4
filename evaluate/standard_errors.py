"""Standard errors: of a mean over samples, of a figure of the whole set, and of the difference of two models on the same samples.

The standard error of a share p of n samples is the binomial one, sqrt(p (1 - p) / n), which is what `mean` computes for values of 0
and 1. Models that answer the same samples are compared pair by pair: for right and wrong answers that is McNemar's
sqrt(b + c - (b - c)^2 / n) / n, where b and c are the samples that one model alone has right.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.tasks.task import Values, Whole

SEED = 0  # of drawn sets: the same records give the same figures


class Estimate(NamedTuple):
    """A figure, its standard error (None: none is known), and of how many samples it is."""

    value: float | None
    standard_error: float | None
    samples: int


def mean(values: Values) -> Estimate:
    """The mean of the values that there are. Its error is that of the samples, drawn from all that they stand for."""
    there = values[~np.isnan(values)]
    if not len(there):
        return Estimate(None, None, 0)
    return Estimate(float(there.mean()), float(there.std() / np.sqrt(len(there))), len(there))


def mean_difference(values: Values, base: Values) -> Estimate:
    """By how much the mean of `values` is above that of `base`, sample by sample."""
    return mean(values - base)


def whole(figure: Whole, count: int) -> Estimate:
    """A figure of the set as a whole; its error is the deviation of that figure over drawn sets (bootstrap)."""
    value = figure.of(np.arange(count))
    drawn = [figure.of(numbers) for numbers in _draws(count, figure.resamples)]
    return Estimate(_finite(value), _deviation(drawn), count)


def whole_difference(figure: Whole, base: Whole, count: int) -> Estimate:
    """By how much a figure is above another model's; both see the same drawn sets."""
    everything = np.arange(count)
    drawn = [figure.of(numbers) - base.of(numbers) for numbers in _draws(count, min(figure.resamples, base.resamples))]
    return Estimate(_finite(figure.of(everything) - base.of(everything)), _deviation(drawn), count)


def _draws(count: int, resamples: int) -> list[NDArray[np.int64]]:
    random = np.random.default_rng(SEED)
    return [random.integers(0, count, count) for _ in range(resamples)]


def _deviation(drawn: list[float]) -> float | None:
    there = [value for value in drawn if np.isfinite(value)]
    if len(there) < 2:
        return None
    return float(np.std(there, ddof=1)) if min(there) < max(there) else 0.0  # not the rounding of their mean


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
