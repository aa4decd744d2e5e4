"""The convolution engine with real feature memory and ring, against the emulator's `conv`; under Verilator."""

import numpy as np
import pytest

from cnna.hw.config import Config, preset
from cnna.sim import engines
from cnna.sim.commands import Command
from cnna.sim.enginebench import play
from cnna.sim.enginecases import Cases
from cnna.sim.machine import Machine

ODD = Config("odd", pix=4, ci=8, co=24, ports=3, regions=3, bank_words=512, ring_words=200, vector_ring_words=264)
CONFIGS = {"tiny": preset("tiny"), "odd": ODD}

pytestmark = pytest.mark.cosim


def golden(cases, features):
    """Feature memory after the emulator has run the commands."""
    machine = Machine(cases.config, np.zeros(16, np.uint8), 0)
    machine.features[:-1] = features
    machine.weights.append(cases.ring_words)
    for number, f in enumerate(cases.commands):
        engines.conv(machine, Command(number, number, "conv", f))
    return machine.features[:-1]


def check(cases, trace, features):
    """Every word of feature memory, and a unit pulse for every chunk."""
    np.testing.assert_array_equal(trace.features, golden(cases, features))
    assert trace.unit.sum() == sum(f.chunks for f in cases.commands)


@pytest.mark.parametrize("slow_ring", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_commands_equal_the_emulator(name, slow_ring, seed):
    """Back to back: padding, strides, partial groups and chunks, streams, residuals, waits on own units."""
    rng = np.random.default_rng([seed, slow_ring])
    cases = Cases(CONFIGS[name], "conv", rng)
    for _ in range(8):
        cases.conv()
    features = rng.integers(0, 256, (cases.config.feature_words, cases.config.ci), np.uint8)
    columns = (1 << cases.config.ports) - 1
    clocks = 3000 + 3 * cases.steps * (4 if slow_ring else 1)
    pace = np.where(rng.random(clocks) < 0.3, rng.integers(0, columns + 1, clocks), 0) if slow_ring else None
    trace = play(cases.config, "conv", cases.commands, cases.ring_words, features, clocks, pace)
    check(cases, trace, features)
    assert trace.started[-1] == len(cases.commands)
