"""A host that resets and starts the accelerator at any moment: every run that begins must end, and be right.

The register map allows a start while a soft reset waits for the bus, a reset in a reset, and clearing STATUS at any time.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

from ...host.hand_made import SHAPE, requantised_copy

START, BEGIN, RESET, BOTH = (
    ("CTRL", REGISTERS["CTRL"].pack(**dict.fromkeys(names, 1)))
    for names in (("start",), ("begin",), ("soft_reset",), ("start", "soft_reset"))
)
CLEAR = "STATUS", REGISTERS["STATUS"].pack(done=1)
AGAIN = (  # what the host does to a running program before it starts anew: writes of CTRL or STATUS
    (RESET,),
    (RESET, RESET),
    (BOTH,),  # the reset wins
    (RESET, START, RESET),
    (RESET, BEGIN, RESET),
    (RESET, BEGIN, CLEAR, RESET, START, RESET),
    (CLEAR, RESET, CLEAR),
)
GAPS = (0, 1, 5, 12, 30, 90)  # clocks between two of these writes
STEP_CLOCKS = 3  # between one moment of the first program's run and the next one that is tried
PATIENCE_CLOCKS = 2_000
LIMIT_CLOCKS = 2_000  # for a program that takes a few hundred clocks


@pytest.mark.cosim
def test_a_reset_at_any_moment_and_a_start_at_any_moment_of_it(rtl):
    """What the stopped program leaves would end the next one, keep it from beginning (busy for ever), or change it."""
    device = rtl(preset("tiny"))
    device.release_all()
    accelerator = Accelerator(device, requantised_copy(batch=1).program)
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


@pytest.mark.cosim
def test_waiting_for_a_program_that_never_begins_ends(rtl):
    """Neither watchdog nor RUN_LIMIT counts before a program begins: a simulation would go on for ever."""
    device = rtl(preset("tiny"))
    device.release_all()
    accelerator = Accelerator(device, requantised_copy(batch=1).program)
    device.set_ddr(hang_after=3)
    try:
        for name, value in (START, RESET, START):
            device.write(offset(name), value)
            device.run_clocks(200)
        with pytest.raises(RunError, match=r"comes to no end: STATUS .*'busy': 1, .*'resetting': 1"):
            device.wait()
    finally:
        device.clear_faults()
    device.wait()
    assert accelerator.counters == {}
    accelerator.run({"x": np.zeros((1, *SHAPE), np.int8)})


@pytest.mark.cosim
def test_a_program_of_another_segment_or_without_an_end_is_stopped(rtl):
    """Its words would land in other memory, or it would run on while its beats go on; the next run must be right."""
    device, artifact = rtl(preset("tiny")), requantised_copy(batch=1).program
    device.release_all()
    x = {"x": np.random.default_rng(0).integers(-128, 128, (1, *SHAPE), np.int8)}
    accelerator = Accelerator(device, artifact)
    right = accelerator.run(x)["y"]
    writes = np.frombuffer(artifact.program, "<u4").reshape(-1, 2)
    for changes, message in (
        ({"STORE_DDR": 16}, "outside_segment .store"),
        ({"STORE_SEG": 1}, "outside_segment .store"),
        ({"LOAD_RUNS": 5000, "LOAD_DDR_RUN": 16}, "outside_segment .load"),
        ({"WEIGHT_DDR": 16}, "outside_segment .weight"),
        ({"STORE_RUNS": 60_000}, "run_limit .not at its end after 1"),
    ):
        changed = writes.copy()
        for name, value in changes.items():
            changed[changed[:, 0] == offset(name), 1] = value
        damaged = Accelerator(device, replace(artifact, program=changed.tobytes()))
        before = device.data[: accelerator.address("output") - device.base + right.size].copy()
        with pytest.raises(RunError, match=message):
            damaged.run(x)
        assert np.array_equal(device.data[: before.size], before), changes
        accelerator.forget_registers()
        assert np.array_equal(accelerator.run(x)["y"], right)


@pytest.mark.cosim
def test_a_run_takes_the_same_clocks_whenever_it_starts_and_run_limit_does_not_count_pauses(rtl):
    """Clocks would depend on register reads before the start, or RUN_LIMIT would stop a run that follows a longer pause."""
    device = rtl(preset("tiny"))
    device.release_all()
    accelerator = Accelerator(device, requantised_copy(batch=1).program)
    x = {"x": np.random.default_rng(0).integers(-128, 128, (1, *SHAPE), np.int8)}
    right = accelerator.run(x)["y"]
    clocks = set()
    for pause in (0, 1, 2, 3, LIMIT_CLOCKS + 1000):
        device.write(offset("RUN_LIMIT"), LIMIT_CLOCKS)
        device.run_clocks(pause)
        device.read(offset("STATUS"))
        device.write(offset("CTRL"), START[1])
        device.wait()
        status = REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))
        assert status == {"busy": 0, "done": 1, "error": 0, "resetting": 0, "engines": 0}, pause
        assert np.array_equal(accelerator.load_outputs()["y"], right), pause
        clocks.add(device.read(offset("CYCLES")))
    assert len(clocks) == 1
    assert max(clocks) < LIMIT_CLOCKS
