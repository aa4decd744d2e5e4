"""The choice of widths, beside all that could be chosen; and the estimate of clocks, which learns from what was compiled."""

from itertools import product

import numpy as np
import pytest
from onnx import ModelProto

from cnna.pruning.clocks import Clocks, Estimate, Steps
from cnna.pruning.follow import follow
from cnna.pruning.layers import layers_of
from cnna.pruning.values import network
from cnna.pruning.widths import Choices, Widths, cheapest
from cnna.spec.config import preset
from tests.pruning.small import model, sample

SIZES = (32, 24, 16, 8)
LIMIT = 1.1  # of the least damage that any widths do


def _random(seed: int) -> Choices:
    """Five families: the clocks of two that follow each other are a product, and damage grows the quicker the more are gone."""
    rng = np.random.default_rng(seed)
    names, price, harm = "abcde", rng.uniform(1, 10, 5), rng.uniform(0.1, 1, 5)

    def clocks(widths: Widths) -> float:
        left = [widths.get(name, SIZES[0]) / SIZES[0] for name in names]
        return float(sum(price[i] * left[i] * left[i - 1] for i in range(5)))

    def damage(name: str, width: int) -> float:
        return float(harm[names.index(name)] * (1 - width / SIZES[0]) ** 2)

    return Choices(dict.fromkeys(names, SIZES), clocks, damage)


@pytest.mark.parametrize("seed", range(6))
def test_no_other_widths_are_much_cheaper(seed: int) -> None:
    """A network would lose more than it need for the clocks that it saves."""
    choices = _random(seed)
    target = 0.7 * choices.clocks({})
    found = cheapest(choices, target)
    assert choices.clocks(found) <= target
    others = (dict(zip("abcde", widths, strict=True)) for widths in product(SIZES, repeat=5))
    assert choices.total(found) <= LIMIT * min(choices.total(one) for one in others if choices.clocks(one) <= target)


def test_many_small_steps_are_taken_for_a_great_one_that_costs_more() -> None:
    """The last step would be one that saves enough by itself, though others would do with less damage."""
    saved, harm = {"big": 9.0, "a": 3.0, "b": 3.0, "c": 3.0, "d": 5.0}, {"big": 2.2, "a": 0.5, "b": 0.5, "c": 1.0, "d": 0.4}

    def clocks(widths: Widths) -> float:
        return 100 - sum(saved[name] for name, width in widths.items() if width == 1)

    choices = Choices(dict.fromkeys(saved, (2, 1)), clocks, lambda name, _: harm[name])
    assert cheapest(choices, 100 - 14) == {"d": 1, "a": 1, "b": 1, "c": 1}


def test_where_nothing_is_enough_all_that_saves_goes() -> None:
    """A user would get the whole network, where half of what was asked for can be had."""
    choices = Choices({"a": (4, 2), "b": (4, 2)}, lambda widths: 10.0 - 2 * (widths.get("a") == 2), lambda *_: 0.1)
    assert cheapest(choices, 5) == {"a": 2}


def _two_layers() -> ModelProto:
    nodes = "a = Conv (x, w1) r = Relu (a) y = Conv (r, w2)"
    return model(nodes, {"w1": (64, 8, 1, 1), "w2": (8, 64, 1, 1)}, "float[1,8,4,4] x", "float[1,8,4,4] y")


def test_the_estimate_learns_what_layers_take() -> None:
    """Widths would be chosen for clocks that the compiler has already said cannot be saved."""
    made, config = _two_layers(), preset("zcu102")
    found = follow(network(made, "net", {"x": sample((1, 8, 4, 4))}))
    roots = tuple(found.coupled.roots(found.of("r")[1]).tolist())
    estimate = Estimate(Steps(found, layers_of(found), config), {"f": (roots[:-1], 64)})
    estimate.learn({}, Clocks(1000, {0: 200, 2: 400}))
    assert estimate({}) == 1000
    assert estimate({"f": 64 - config.ci + 1}) == pytest.approx(1000), "no layer takes fewer blocks"
    assert estimate({"f": 32}) == pytest.approx(1000 - 100 - 200)
    estimate.learn({"f": 32}, Clocks(950, {0: 200, 2: 350}))
    assert estimate({"f": 32}) == 950
    assert estimate({"f": 31}) == pytest.approx(950), "a layer of as many blocks takes what it took"
    assert estimate({"f": 16}) == pytest.approx(950 - 175)
