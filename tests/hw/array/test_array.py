"""The array against numpy: random groups with gaps, and cascades at their extremes."""

import functools

import numpy as np
import pytest

from cnna.hw.array.fast_array import array_of
from cnna.spec.config import Config, preset

from ...configurations import ODD
from ...rigs import bench
from ...rigs.block import make_block

pytestmark = pytest.mark.cosim

CONFIGS = (
    preset("tiny"),
    ODD,
    Config("deep", pix=2, ci=16, co=16, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256),
)
FAST = (
    preset("tinyx2"),
    Config("wide", pix=4, ci=8, co=48, ports=3, regions=4, bank_words=512, ring_words=200, vector_ring_words=264, depth=2),
    Config("deepx2", pix=2, ci=16, co=32, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256, depth=2),
)


def _run(config: Config, steps: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """`o_valid` [clocks] and `sums` [clocks, pix, co], `latency` clocks taken off. steps: words [clocks, pix, ci],
    weights [clocks, co, ci], valid, first, last [clocks]; with depth 2, words [clocks, pix, 2 ci], weights [clocks, 2, co, ci]."""
    block = make_block(array_of, config)
    array = block.component
    clocks = len(steps["valid"])
    late = {
        name: np.concatenate([values, np.zeros((array.latency, *values.shape[1:]), values.dtype)]) for name, values in steps.items()
    }
    late |= {name: late[name].view(np.uint8) for name in ("words", "weights")}
    found = bench.run(block, late)
    sums = bench.integers(found["sums"], 32, signed=True)[array.latency :]
    return bench.integers(found["o_valid"], 8)[array.latency :, 0], sums.reshape(clocks, config.pix, config.co)


def _products(steps: dict[str, np.ndarray]) -> np.ndarray:
    """[clocks, pix, co]"""
    weights = steps["weights"].astype(np.int64)
    weights = weights[:, None] if weights.ndim == 3 else weights  # clocks, depth, co, ci
    words = steps["words"].astype(np.int64).reshape(len(weights), -1, weights.shape[1], weights.shape[3])
    return np.einsum("tpdi,tdki->tpk", words, weights)


def _bytes(rng: np.random.Generator, low: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random int8 from `low` on; in some clocks, and in some places of the others, the ends of their range."""
    ends = rng.choice([low, 127], shape)
    share = rng.choice([0, 0.3, 1], (shape[0], 1, 1))
    return np.where(rng.random(shape) < share, ends, rng.integers(low, 128, shape)).astype(np.int8)


@pytest.mark.parametrize("config", [*CONFIGS, *FAST], ids=lambda config: config.name)
def test_groups_equal_numpy(config: Config) -> None:
    """A sum would take a wrong product, or a step of another group or of a gap; or it would change before the next sum."""
    rng, clocks = np.random.default_rng(2), 1500
    valid = rng.random(clocks) < rng.choice([0.5, 1.0], clocks // 50).repeat(50)
    last = rng.random(clocks) < rng.choice([0.1, 0.6, 1.0], clocks // 50).repeat(50)
    first, open_group = rng.random(clocks) < 0.5, False  # gaps keep this noise
    for clock in np.flatnonzero(valid):
        first[clock], open_group = not open_group, not last[clock]
    steps = {
        "valid": valid,
        "first": first,
        "last": last,
        "words": _bytes(rng, -128, (clocks, config.pix, config.depth * config.ci)),
        "weights": _bytes(rng, -127, (clocks, config.depth * config.co, config.ci)),
    }
    if config.depth == 2:
        steps["weights"] = steps["weights"].reshape(clocks, 2, config.co, config.ci)
    o_valid, sums = _run(config, steps)
    np.testing.assert_array_equal(o_valid, valid & last)
    accumulator, held = np.zeros((2, config.pix, config.co), np.int64)
    for clock, products in enumerate(_products(steps)):
        if valid[clock]:
            accumulator = products + (0 if first[clock] else accumulator)
            held = accumulator if last[clock] else held
        np.testing.assert_array_equal(sums[clock], held, err_msg=f"clock {clock}")


@functools.cache
def _extremes(config: Config, weight: int) -> tuple[np.ndarray, np.ndarray]:
    """Found and true sums [clocks, pix, co] of steps whose inputs and weights are all extreme, in every combination of input,
    even and odd channels' weights; then again with `weight` in the place of one of a cascade's -128 weights."""
    ends = np.array([(x, even, odd) for x in (-128, 127) for even in (-128, 127) for odd in (-128, 127)], np.int8)
    words = np.broadcast_to(ends[:, 0, None, None], (len(ends), config.pix, config.ci))
    weights = np.tile(ends[:, 1:, None], (1, config.co // 2, config.ci))
    once = weights.copy()
    once[:, :, :: config.cascade][weights[:, :, :: config.cascade] == -128] = weight
    steps = {"words": np.concatenate([words, words]), "weights": np.concatenate([weights, once])}
    one = np.ones(2 * len(ends), bool)
    _, found = _run(config, {**steps, "valid": one, "first": one, "last": one})
    return found, _products(steps)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_cascade_at_its_extremes(config: Config) -> None:
    """The two lanes of a DSP would disturb each other in another case than the one that `Array` states, where only that lane is
    wrong.
    """
    found, true = _extremes(config, -127)
    wrong = (found != true).any(axis=(1, 2))
    all_least = (np.arange(len(found)) < 2) & (config.cascade == 8)  # x and even channels' weights all -128
    np.testing.assert_array_equal(wrong, all_least)
    lanes, cascades = 1 << 18, config.ci // 8  # the low lane wraps, and carries into the high one
    np.testing.assert_array_equal((found - true)[all_least][..., 0::2], -lanes * cascades)
    np.testing.assert_array_equal((found - true)[all_least][..., 1::2], cascades)


@pytest.mark.parametrize("config", FAST, ids=lambda config: config.name)
def test_both_halves_at_their_extremes(config: Config) -> None:
    """A lane of 19 bits would not hold two blocks' products, or a weight of -128 would count wrongly where none is refused.

    Every combination of extreme inputs of both blocks and of even and odd channels' weights. -128 is refused in an odd channel
    beside a negative weight below it, and in an even channel where all 16 products of two cascades may be of -128.
    """
    ends = [-128, -127, 127]
    every = np.array(np.meshgrid(*(ends[:: 1 + (which < 2)] for which in range(6)), indexing="ij"), np.int64).reshape(6, -1).T
    x, even, odd = every[:, :2], every[:, 2:4], every[:, 4:]
    bad = ((odd == -128) & (even < 0)).any(1)
    bad |= ((x == -128) & (even == -128)).all(1) & (config.cascade == 8)
    x, even, odd = (values[~bad].astype(np.int8) for values in (x, even, odd))
    count = len(x)
    words = np.broadcast_to(np.repeat(x, config.ci, axis=1)[:, None], (count, config.pix, 2 * config.ci))
    weights = np.tile(np.stack([even, odd], 2)[..., None], (1, 1, config.co // 2, config.ci))
    steps = {"words": np.ascontiguousarray(words), "weights": np.ascontiguousarray(weights)}
    one = np.ones(count, bool)
    _, found = _run(config, {**steps, "valid": one, "first": one, "last": one})
    np.testing.assert_array_equal(found, _products(steps))
