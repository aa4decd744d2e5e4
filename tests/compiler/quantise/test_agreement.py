"""How often int8 networks answer as float: what each part of the quantiser brings must not be lost."""

import numpy as np
import pytest

from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.divergence import Divergence

from ..written import answers
from .depthwise import depthwise_network, pictures

SEEDS = (1, 3, 5)
CALIBRATION, TEST = pictures(60, seed=5), pictures(200, seed=6)


@pytest.fixture(scope="module")
def networks():
    """Each network with the classes that it answers in float."""
    models = [depthwise_network(seed) for seed in SEEDS]
    return [(model, answers(model, {"x": TEST})[0].argmax(axis=1)) for model in models]


def agreement(networks, **how) -> float:
    """The mean share of pictures that get the float network's class."""
    shares = []
    for model, classes in networks:
        result, _ = quantise(model, {"x": CALIBRATION}, **how)
        shares.append((answers(result, {"x": TEST})[0].argmax(axis=1) == classes).mean())
    return float(np.mean(shares))


def decibels(networks, **how) -> float:
    """Signal to noise of the outputs, in the mean over the networks."""
    found = []
    for model, _ in networks:
        one = Divergence("y")
        one.extend(answers(quantise(model, {"x": CALIBRATION}, **how)[0], {"x": TEST})[0], answers(model, {"x": TEST})[0])
        found.append(one.decibels)
    return float(np.mean(found))


def test_every_class_is_answered(networks):
    """A network that answers one class to everything would agree with any other like it."""
    assert all(len(set(classes)) > 7 for _, classes in networks)


def test_depthwise_networks_agree_with_float_thanks_to_bias_correction(networks):
    """90 % with it, 65 % without: a correction that is lost, or taken at the wrong means, costs a quarter of the answers."""
    assert agreement(networks) > 0.85
    assert agreement(networks, correct_bias=False) < 0.75


def test_effort_brings_outputs_nearer_to_float(networks):
    """18.0 dB without, 18.5 and 18.6 dB with effort 1 and 2: an effort that brings nothing is not worth its time."""
    none, biases, rounding = (decibels(networks, effort=effort) for effort in (0, 1, 2))
    assert biases > none + 0.3
    assert rounding > none + 0.4
