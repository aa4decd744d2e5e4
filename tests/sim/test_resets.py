"""A host that resets and starts the accelerator whenever it likes: every run that is begun must end, and be right.

The register map allows a start while a soft reset still waits for the bus, a reset in a reset, and clearing STATUS at any time.
"""

from itertools import product

import numpy as np
import pytest

from cnna.host.accelerator import Accelerator
from cnna.hw.config import preset
from cnna.hw.regmap import REGISTERS, offset

from ..host.hand_made import SHAPE, requantised_copy

START, BEGIN, RESET, BOTH = (
    ("CTRL", REGISTERS["CTRL"].pack(**dict.fromkeys(names, 1)))
    for names in (("start",), ("begin",), ("soft_reset",), ("start", "soft_reset"))
)
CLEAR = "STATUS", REGISTERS["STATUS"].pack(done=1)
AGAIN = (  # what the host does to a program that runs before it starts anew: writes of CTRL or STATUS
    (RESET,),
    (RESET, RESET),
    (BOTH,),  # the reset wins
    (RESET, START, RESET),
    (RESET, BEGIN, RESET),
    (RESET, BEGIN, CLEAR, RESET, START, RESET),
    (CLEAR, RESET, CLEAR),
)
GAPS = (0, 1, 5, 12, 30, 90)  # clocks between two of these writes
STEP_CLOCKS = 3  # from one moment of the first program's run to the next that is tried
PATIENCE_CLOCKS = 2_000


@pytest.mark.cosim
def test_a_reset_at_any_moment_and_a_start_at_any_moment_of_it(rtl):
    """What the stopped program leaves behind would end the next one, keep it from beginning (busy for ever), or change it."""
    device = rtl(preset("tiny"))
    device.release_all()
    accelerator = Accelerator(device, requantised_copy(batch=1))
    accelerator.run({"x": np.random.default_rng(0).integers(-128, 128, (1, *SHAPE), np.int8)})
    right, clocks = accelerator.load_outputs()["y"], accelerator.counters["cycles"]
    assert clocks > len(AGAIN) * STEP_CLOCKS, "the program is too short to be reset in each way at many moments"
    ways = list(product(AGAIN, GAPS))
    order = np.random.default_rng(1).permutation(len(ways))
    for number, moment in enumerate(range(0, clocks + 40, STEP_CLOCKS)):
        writes, gap = ways[order[number % len(ways)]]
        device.store(accelerator.address("output"), np.zeros(right.size, np.uint8))
        device.write(offset("CTRL"), START[1])
        device.run_clocks(moment)
        for name, value in (*writes, START):
            device.write(offset(name), value)
            device.run_clocks(gap)
        story = f"{moment} clocks after a start: {writes}, {gap} clocks apart, then a start"
        device.run_clocks(PATIENCE_CLOCKS)
        status = REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))
        assert status == {"busy": 0, "done": 1, "error": 0, "resetting": 0, "engines": 0}, story
        assert np.array_equal(accelerator.load_outputs()["y"], right), story
        assert device.read(offset("CYCLES")) == clocks, story
