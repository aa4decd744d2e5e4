"""An artifact on a device that others have used: what they left must not be taken for the end of its own run."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator, run_limit
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.errors import DataError, RunError
from cnna.spec.regmap import REGISTERS, offset

from ..hand_made import CONFIG, SHAPE, failing, requantised_copy

X = {"x": np.ones((2, *SHAPE), np.int8)}


@pytest.fixture
def device(monkeypatch):
    """An emulator, and for each write to CTRL since the list was emptied whether it was a soft reset."""
    made, resets = EmulatorDevice(CONFIG, 1 << 20), []
    write = made.write

    def noted(at, value):
        if at == offset("CTRL"):
            resets.append(bool(REGISTERS["CTRL"].unpack(value)["soft_reset"]))
        write(at, value)

    monkeypatch.setattr(made, "write", noted)
    return made, resets


@pytest.mark.parametrize("by_register", [False, True])
def test_a_run_clears_what_another_has_left(device, monkeypatch, by_register):
    """The error belongs to the device: whichever of two objects was stopped, the other would be told of it."""
    emulator, resets = device
    stopped, other = (Accelerator(emulator, requantised_copy().program) for _ in range(2))
    run = partial(Accelerator.run_by_register if by_register else Accelerator.run, other)
    answers = run(X)
    failing(monkeypatch, EmulatorDevice)
    stopped.forget_registers()
    with pytest.raises(RunError, match="read_response SLVERR"):
        stopped.run(X)
    resets.clear()
    other.forget_registers()
    assert np.array_equal(run(X)["y"], answers["y"])
    assert resets == [True, False]


def test_a_run_after_a_good_one_resets_nothing(device):
    """Neither a run after a good one may reset, nor one after refused inputs, which have started nothing."""
    emulator, resets = device
    accelerator = Accelerator(emulator, requantised_copy().program)
    accelerator.run(X)
    with pytest.raises(DataError, match="wants int8"):
        accelerator.run({})
    resets.clear()
    accelerator.run(X)
    assert resets == [False]


def test_a_program_is_bounded_by_what_was_allocated_for_it(device):
    """A damaged program could write another model's memory or run for ever; a sound one must not be stopped at its last byte."""
    emulator, _ = device
    artifact = requantised_copy().program
    accelerator = Accelerator(emulator, artifact)
    accelerator.run(X)
    writes = np.frombuffer(artifact.program, "<u4").reshape(-1, 2)
    neighbour = emulator.allocate(4096)
    others = emulator.data[: neighbour + 4096 - emulator.base]
    before = others.copy()
    outside = r"outside_segment \({} would have left its segment\) at program write"
    for name, value, message in (
        ("STORE_DDR", 16, outside.format("store")),
        ("STORE_DDR", neighbour - accelerator.address("output"), outside.format("store")),
        ("STORE_SEG", 1, outside.format("store")),
        ("LOAD_BLOCKS", 5, outside.format("load")),
        ("LOAD_DDR", 0xFFFF_FFF0, outside.format("load")),
        ("WEIGHT_BEATS", 3, outside.format("weight")),
        ("WEIGHT_REPEAT", 100_000, r"run_limit \(not at its end after 1\d\d,\d\d\d clocks\)"),
    ):
        changed = writes.copy()
        changed[changed[:, 0] == offset(name), 1] = value
        damaged = Accelerator(emulator, replace(artifact, program=changed.tobytes()))
        with pytest.raises(RunError, match=message):
            damaged.run(X)
    assert np.array_equal(others, before)
    accelerator.forget_registers()
    accelerator.run(X)


def test_a_program_that_the_host_sends_has_no_run_limit():
    """Its clocks are the host's: by MMIO from Python they are more than 20 times those of a program from memory."""
    device, artifact = EmulatorDevice(CONFIG), requantised_copy(batch=1).program
    accelerator, x = Accelerator(device, artifact), {"x": np.zeros((1, *SHAPE), np.int8)}
    for run, limit in ((accelerator.run_by_register, 0), (accelerator.run, run_limit(artifact, device.ddr))):
        run(x)
        assert device.read(offset("RUN_LIMIT")) == limit
