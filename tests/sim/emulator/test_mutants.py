"""Damaged programs: whatever a changed register program does, it stays in its segments and ends."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.checks.program import checked
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.errors import RunError
from cnna.spec.program.commands import UnsoundError
from cnna.spec.regmap import BOUNDED, ENGINES, REGISTERS, SEGMENTS, offset

from ...agreement import Case
from ...host.hand_made import SHAPE, requantised_copy

TINY = preset("tiny")
WATCHDOG_CLOCKS = 20_000
LATE_CLOCKS = 10  # a run may go on for so many clocks after RUN_LIMIT
MEMORY_BYTES, OTHERS_BYTES = 4 << 20, 1 << 16
ENGINES_REGISTERS = [register.offset for register in REGISTERS.values() if register.block in ENGINES]
BOUNDED_REGISTERS = [register.offset for register in REGISTERS.values() if register.block in BOUNDED]
WORDS = (0, 1, 16, 4096, 1 << 20, 0xFFFF_FFF0)


@cache
def programs():
    """Artifacts and their inputs: one written by hand, two that the compiler made."""
    cases = [Case(TINY, "network", number) for number in (7, 3)]
    found = [(case.piece, case.inputs) for case in cases]
    return [(requantised_copy(1).program, {"x": np.ones((1, *SHAPE), np.int8)}), *found]


def mutant(program, rng):
    """The program with one to three writes changed, most of them to engines that reach into DDR."""
    writes = np.frombuffer(program, "<u4").reshape(-1, 2).astype(np.int64)
    for _ in range(rng.integers(1, 4)):
        bounded = np.flatnonzero(np.isin(writes[:, 0], BOUNDED_REGISTERS))
        at = int(rng.choice(bounded) if rng.random() < 0.7 else rng.integers(len(writes) - 1))
        how = rng.integers(6)
        if how == 0:
            writes[at, 0] = rng.choice(ENGINES_REGISTERS)
        elif how == 1:
            writes = np.delete(writes, at, 0)
        else:
            value = int(writes[at, 1])
            other = (value ^ 1 << int(rng.integers(32)), value + BEAT_BYTES * int(rng.integers(-64, 65)), 2 * value)
            writes[at, 1] = (*other, int(rng.choice(WORDS)))[how - 2] % (1 << 32)
    return writes.astype("<u4").tobytes()


def is_sound(number):
    """Whether the check of files takes a mutant."""
    artifact, _ = programs()[number % len(programs())]
    rng = np.random.default_rng(number)
    rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    try:
        checked(mutant(artifact.program, rng), TINY, artifact.manifest["segments"])
    except UnsoundError:
        return False
    return True


def outcome(device, number):
    """How a mutant's run ended. AssertionError: it changed a byte that is not its own, or went on for too long."""
    rng = np.random.default_rng(number)
    artifact, inputs = programs()[number % len(programs())]
    device.release_all()
    device.data[:MEMORY_BYTES] = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    device.allocate(OTHERS_BYTES)
    accelerator = Accelerator(device, replace(artifact, program=mutant(artifact.program, rng)), WATCHDOG_CLOCKS)
    accelerator.store_inputs(inputs)
    strange, before = np.ones(MEMORY_BYTES, bool), device.data[:MEMORY_BYTES].copy()
    for segment in SEGMENTS:
        start = accelerator.address(segment) - device.base
        strange[start : start + max(BEAT_BYTES, artifact.manifest["segments"][segment])] = False
    accelerator.start()
    try:
        accelerator.finish()
        ended = "done"
    except RunError as error:
        ended = str(error).removeprefix("the accelerator stopped: ").split()[0]
    changed = np.flatnonzero((device.data[:MEMORY_BYTES] != before) & strange)
    assert not changed.size, f"mutant {number} has written byte {changed[0]:#x} of the memory, which is not its own"
    limit = device.read(offset("RUN_LIMIT"))
    assert device.read(offset("CYCLES")) <= limit + LATE_CLOCKS, f"mutant {number} went on after its {limit} clocks"
    return ended


def test_a_damaged_program_on_the_emulator():
    """The program would write other programs' memory, or compute for minutes."""
    device = EmulatorDevice(TINY, 2 * MEMORY_BYTES)
    endings = {outcome(device, number) for number in (*range(50), *range(150, 180))}
    assert {"done", "outside_segment", "run_limit", "illegal_value"} <= endings


@pytest.mark.cosim
def test_a_damaged_program_on_the_rtl(rtl):
    """It would write other programs' memory, or its beats would go on for ever; and the next program must run as if alone.

    What the check of files takes ends as it does on the emulator.
    """
    device = rtl(TINY)
    endings, emulated = [[outcome(one, number) for number in range(24)] for one in (device, EmulatorDevice(TINY, 2 * MEMORY_BYTES))]
    assert {"done", "outside_segment"} <= set(endings)
    sound = [number for number in range(24) if is_sound(number)]
    assert len(sound) > 5
    assert [endings[number] for number in sound] == [emulated[number] for number in sound], "a sound program decodes differently"
    case = Case(TINY, "network", 7)
    device.release_all()
    answers = Accelerator(device, case.piece).run(case.inputs)
    assert all(np.array_equal(answers[name], case.golden[name]) for name in case.graph.outputs)
