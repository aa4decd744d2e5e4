"""The vector engine with real feature memory and ring, against the emulator's `vector`; under Verilator."""

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
    machine.vector_ring.append(cases.ring_words)
    for number, f in enumerate(cases.commands):
        engines.vector(machine, Command(number, number, "vector", f))
    return machine.features[:-1]


@pytest.mark.parametrize("slow_ring", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_commands_equal_the_emulator(name, slow_ring, seed):
    """Back to back: every operation, uniform parameters or not, padding, strides, partial groups and units, own waits."""
    rng = np.random.default_rng([seed, slow_ring])
    cases = Cases(CONFIGS[name], "vector", rng)
    for number in range(14):
        cases.vector(op=number % 4)
    features = rng.integers(0, 256, (cases.config.feature_words, cases.config.ci), np.uint8)
    clocks = 3000 + 2 * cases.steps + (12 * len(cases.ring_words) if slow_ring else 0)
    pace = (rng.random(clocks) < 0.1).astype(np.uint8) if slow_ring else None
    trace = play(cases.config, "vector", cases.commands, cases.ring_words, features, clocks, pace)
    np.testing.assert_array_equal(trace.features, golden(cases, features))
    assert trace.unit.sum() == cases.units
