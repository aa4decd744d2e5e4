"""Ranges from statistics: each method is compared with its definition."""

import numpy as np
import pytest

from cnna.compiler.quantise.calibrate import Statistics
from cnna.compiler.quantise.ranges import PERCENTILE, SHRINKS, minmax, percentile, quant_of, squared_error


def statistics_of(values: np.ndarray) -> Statistics:
    statistics = Statistics()
    samples = values.reshape(10, 1, 2, -1, 5)
    for sample in samples:
        statistics.extend(sample)
    for sample in samples:
        statistics.count(sample)
    return statistics


@pytest.fixture(scope="module")
def heavy() -> np.ndarray:
    """Values with far outliers on both sides."""
    values = np.random.default_rng(1).standard_t(2, 100_000)
    values[:2] = 500, -300
    return values


def test_minmax_is_all(heavy):
    assert minmax(statistics_of(heavy)) == (heavy.min(), heavy.max())


def test_percentile_cuts_the_share_it_says(heavy):
    low, high = percentile(statistics_of(heavy))
    step = np.ptp(heavy) / len(statistics_of(heavy).histogram)
    assert abs(low - np.percentile(heavy, 100 - PERCENTILE)) <= step
    assert abs(high - np.percentile(heavy, PERCENTILE)) <= step


def test_percentile_keeps_what_is_rare():
    """A detector's scores of the few places where something is, one in 20,000, are its answers; cut, they are lost."""
    values = np.random.default_rng(4).normal(size=1_000_000)
    values[::20_000] = np.linspace(10, 12, 50)
    assert percentile(statistics_of(values))[1] > 11.5


def test_percentile_keeps_an_end_at_zero():
    """ReLU's range begins at 0; a cut there would lose the zero."""
    low, _ = percentile(statistics_of(np.maximum(np.random.default_rng(2).normal(size=10_000), 0)))
    assert low == 0


def test_squared_error_finds_the_best_shrink(heavy):
    """Another shrink would have a smaller error on the values themselves, beyond what the histogram's bins blur."""

    def error(limits):
        quant = quant_of(limits)
        whole = np.clip(np.rint(heavy / quant.scale) + quant.zero, -128, 127)
        return np.mean((heavy - quant.scale * (whole - quant.zero)) ** 2)

    chosen = error(squared_error(statistics_of(heavy)))
    assert chosen <= 1.02 * min(error((heavy.min() * s, heavy.max() * s)) for s in SHRINKS)
    assert chosen < 0.9 * error(minmax(statistics_of(heavy)))


@pytest.mark.parametrize("limits", [(-1.0, 3.0), (0.0, 6.0), (-5.0, 0.0), (2.0, 3.0), (-3.0, -2.0), (0.0, 1e-3)])
def test_quant_holds_zero_and_both_ends(limits):
    """0 must be exact, and both ends within a step."""
    quant = quant_of(limits)
    assert -128 <= quant.zero <= 127
    assert quant.scale == np.float32(quant.scale)
    assert quant.scale * (-128 - quant.zero) <= limits[0] + quant.scale
    assert quant.scale * (127 - quant.zero) >= limits[1] - quant.scale


def test_nothing_but_zeros_has_a_scale():
    assert quant_of((0.0, 0.0)).scale > 0


def test_means_are_per_channel():
    values = np.random.default_rng(3).normal(size=(4, 1, 3, 5, 6))
    statistics = Statistics()
    for sample in values:
        statistics.extend(sample)
    np.testing.assert_allclose(statistics.means, values.mean(axis=(0, 1, 3, 4)))
