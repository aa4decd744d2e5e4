"""Learned rounding: on the grid, the nearest where nothing can be gained, much better where inputs belong together."""

import numpy as np

from cnna.compiler.quantise.gptq import LARGEST, learned, parts_of

TAPS, CHANNELS = 150, 6  # more taps than one block of columns


def _problem(groups: int, taps: int, alike: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, scales of 15 steps, and inputs that have much in common where `alike` is near 1."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(groups, CHANNELS, taps))
    common = rng.normal(size=(groups, taps, taps // 4)) @ rng.normal(size=(groups, taps // 4, 1000)) / np.sqrt(taps // 4)
    return weights, np.abs(weights).max(axis=2) / 7, alike * common + (1 - alike) * rng.normal(size=(groups, taps, 1000))


def _error(found: np.ndarray, weights: np.ndarray, x: np.ndarray) -> float:
    return float((((found - weights) @ x) ** 2).mean())


def test_errors_make_up_for_each_other():
    """Rounded to the nearest, each error stands alone. A wrong factor, order or block makes the outputs worse than that."""
    for groups, taps in ((1, TAPS), (3, 8)):
        weights, scales, x = _problem(groups, taps, alike=0.9)
        found = learned(weights, scales, x @ x.swapaxes(1, 2) / 1000)
        steps = found / scales[..., None]
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-6)
        assert np.abs(steps).max() < 127.5
        plain = np.rint(weights / scales[..., None]) * scales[..., None]
        assert _error(found, weights, x) < (0.25 if taps == TAPS else 0.8) * _error(plain, weights, x)


def test_unrelated_inputs_are_rounded_to_the_nearest():
    """There is nothing to make up for: any weight but the nearest would be worse. Inputs that are all 0 must do, too."""
    weights, scales, _ = _problem(2, 20, alike=0)
    plain = np.rint(weights / scales[..., None]) * scales[..., None]
    for hessian in (np.eye(20) * np.arange(1, 21), np.zeros((20, 20))):
        np.testing.assert_allclose(learned(weights, scales, np.stack([hessian] * 2)), plain, atol=1e-6)


def test_parts_cover_all_taps_once():
    """A tap in no part would stay 0; one in two would be rounded twice."""
    for taps in (1, LARGEST, LARGEST + 1, 4608, 25088):
        parts = parts_of(taps)
        assert [tap for part in parts for tap in range(taps)[part]] == list(range(taps))
        assert max(part.stop - part.start for part in parts) <= LARGEST
