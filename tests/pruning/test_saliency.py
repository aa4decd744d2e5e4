"""The order in which channels go, beside what least squares leave without them; and which samples are held out."""

import numpy as np
import pytest
from onnx import helper

from cnna.pruning import saliency
from cnna.pruning.layers import Layer
from cnna.pruning.prune import evenly
from cnna.pruning.seen import HELD_OUT, Products

CHANNELS, OUTPUTS, PIXELS = 6, 4, 400


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def _layer(number: int, weights: np.ndarray) -> Layer:
    return Layer(number, helper.make_node("Conv", ["x", "w"], ["y"]), weights.astype(np.float32), None)


def _seen(layer: Layer, x: np.ndarray) -> Products:
    found = Products.empty(layer)
    found.add(x[None].astype(np.float32), (layer.rows[0] @ x)[None].astype(np.float32))
    return found


def _error(weights: np.ndarray, x: np.ndarray, gone: list[int]) -> float:
    """What the best other weights and bias leave, as a share of the outputs' power."""
    y, left = weights[:, :, 0, 0] @ x, np.delete(x, gone, axis=0)
    left = np.concatenate([left, np.ones((1, x.shape[1]))])
    rest = y.T - left.T @ np.linalg.lstsq(left.T, y.T, rcond=None)[0]
    return float(np.square(rest).sum() / np.square(y - y.mean(axis=1, keepdims=True)).sum())


def test_costs_are_what_least_squares_leave(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels would go by a figure that is not the error which they leave, the more so after some are gone."""
    monkeypatch.setattr(saliency, "DAMPING", 1e-9)
    x = rng.normal(size=(CHANNELS, CHANNELS)) @ rng.normal(size=(CHANNELS, PIXELS))
    layer = _layer(0, rng.normal(size=(OUTPUTS, CHANNELS, 1, 1)))
    roots = np.arange(CHANNELS)
    found = saliency.order(roots, saliency.readers_of(roots, [(layer, roots[None])], {0: _seen(layer, x)}))
    assert len(found) == CHANNELS - 1
    gone: list[int] = []
    for channel, error in found:
        others = {one: _error(layer.weights, x, [*gone, one]) for one in range(CHANNELS) if one not in gone}
        assert channel == min(others, key=lambda one: others[one])
        gone.append(channel)
        assert error == pytest.approx(_error(layer.weights, x, gone), rel=1e-3)


def test_layers_that_read_some_of_the_channels_count_for_these(rng: np.random.Generator) -> None:
    """Behind a Split, a layer would be charged for channels that it does not read, or the search would fail."""
    x = rng.normal(size=(CHANNELS, PIXELS))
    half = CHANNELS // 2
    first, second = (_layer(number, size * rng.normal(size=(OUTPUTS, half, 1, 1))) for number, size in enumerate((1.0, 2.0)))
    first.weights[:, 1:] = 0
    roots = np.arange(CHANNELS)
    layers = [(first, roots[None, :half]), (second, roots[None, half:])]
    found = saliency.order(roots, saliency.readers_of(roots, layers, {0: _seen(first, x[:half]), 1: _seen(second, x[half:])}))
    assert {channel for channel, _ in found[: half - 1]} == {1, 2}
    assert found[half - 2][1] == pytest.approx(0, abs=1e-9)


def test_no_tensor_loses_its_last_channel(rng: np.random.Generator) -> None:
    """Half of a Split would have no channels left, which no operator takes."""
    x = rng.normal(size=(CHANNELS, PIXELS))
    x[: CHANNELS // 2] *= 1e-3  # these cost next to nothing, so they would all go first
    roots, half = np.arange(CHANNELS), set(range(CHANNELS // 2))
    layer = _layer(0, rng.normal(size=(OUTPUTS, CHANNELS, 1, 1)))
    readers = saliency.readers_of(roots, [(layer, roots[None])], {0: _seen(layer, x)})
    gone = {root for root, _ in saliency.order(roots, readers, [half])[: CHANNELS // 2]}
    assert len(gone & half) == CHANNELS // 2 - 1
    assert len(saliency.order(roots, readers, [{one} for one in roots.tolist()])) == 0


@pytest.mark.parametrize(("samples", "count"), [(100, 100), (100, 24), (50, 24), (9, 5), (7, 24)])
def test_samples_that_are_held_out_stay_so(samples: int, count: int) -> None:
    """A network would be judged on samples that it was solved from."""
    feeds = [{"x": np.array(number)} for number in range(samples)]
    some = evenly(feeds, count)
    assert all((place % HELD_OUT == 0) == (int(one["x"]) % HELD_OUT == 0) for place, one in enumerate(some))
    assert len({int(one["x"]) for one in some}) == len(some)
    assert min(count, samples) - HELD_OUT < len(some) <= samples
