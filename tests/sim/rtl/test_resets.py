"""A host that resets and starts the accelerator at any moment: every run that begins must end, and be right.

The register map allows a start while a soft reset waits for the bus, a reset in a reset, and clearing STATUS at any time.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.config import BEAT_BYTES, TABLE_BYTES, preset
from cnna.spec.errors import RunError
from cnna.spec.regmap import NO_LIMIT, REGISTERS, offset

from ...host.hand_made import SHAPE, requantised_copy
from ..programs import Program, pack_params

START, BEGIN, RESET, BOTH = (
    ("CTRL", REGISTERS["CTRL"].pack(**dict.fromkeys(names, 1)))
    for names in (("start",), ("begin",), ("soft_reset",), ("start", "soft_reset"))
)
START_TO_WAIT = REGISTERS["CTRL"].pack(start=1, irq_enable=1)  # `wait` sees the end at once, and need not look for it now and then
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
TABLE_STEP_CLOCKS = 11  # the same in a program that loads tables
TABLE_LIMIT_CLOCKS = 10_000  # for that program, which takes about a thousand
PATIENCE_CLOCKS = 1_000  # for the last run, of a program that takes about 540; a reset may have to wait for the bus before it
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


def tables_in_turn() -> tuple[Program, bytes, int]:
    """Two conv and three vector commands that use tables, one of them a product; the constants, and how many bytes it stores."""
    config, rng, program = preset("tiny"), np.random.default_rng(4), Program()
    pixels, chunk = 32, config.chunk_blocks
    full = {f"{name}_clamp_{end}": value for name in ("mid", "out") for end, value in (("low", -128), ("high", 127))}
    walk = {"src_x": 1, "out_width": 8, "out_height": 4, "in_width": 8, "in_height": 4, "stride_x": 1, "stride_y": 1, "dst_x": 1}
    ring = vector_ring = b""
    for _ in range(2):
        ring += rng.bytes(TABLE_BYTES)
        params = pack_params(np.zeros(config.co), np.full(config.co, 1 << 23), np.full(config.co, 31))
        ring += params + rng.integers(-127, 128, config.ring_word_bytes, np.int8).tobytes()
    for number in range(3):
        vector_ring += b"" if number == 1 else rng.bytes(TABLE_BYTES)
        vector_ring += pack_params(np.zeros(config.ci), np.full(config.ci, number + 1), np.full(config.ci, (1, 9, 1)[number]))
    program.go("load", seg=2, run=pixels)
    program.go("weight", ring=1, ddr=len(ring), beats=len(vector_ring) // BEAT_BYTES, repeat=1)
    program.go("weight", beats=len(ring) // BEAT_BYTES, repeat=1)
    at = 512
    for _ in range(2):
        planes = {"dst": at, "dst_block": pixels, "dst_blocks": chunk}
        program.go("conv", **walk, **full, **planes, add_a=2, table_use=1, table_load=1, wait_load_count=1, wait_load_enable=1)
        at += chunk * pixels
    for number in range(3):
        ends = {name: value for name, value in full.items() if name.startswith("out")}
        use = {"table_use": 1, "table_load": int(number != 1)}
        pair = {"op": 5, "kernel_width": 2, "b_flat": 1, "b_zero": 127, "pad": -128} if number == 1 else {"op": 3}
        program.go("vector", **pair, **walk, **ends, dst=at, dst_block=pixels, **use, wait_load_count=1, wait_load_enable=1)
        at += pixels
    waits = {"wait_conv_count": 2, "wait_conv_enable": 1, "wait_vector_count": 3, "wait_vector_enable": 1}
    program.go("store", seg=3, fm=512, run=at - 512, **waits)
    program.write("END", 1)
    return program, ring + vector_ring, (at - 512) * config.ci


def prepared(device: EmulatorDevice | CosimDevice, program: Program, segments: dict[str, bytes]) -> dict[str, int]:
    """Puts a program and its segments into a device's memory; their addresses."""
    device.release_all()
    places = {}
    for name, data in {"PROG_BASE": program.bytes(), **segments}.items():
        places[name] = device.allocate(len(data))
        device.store(places[name], data)
        for half, word in (("LO", places[name] & 0xFFFFFFFF), ("HI", places[name] >> 32)):
            device.write(offset(f"{name}_{half}"), word)
    for name in segments:
        device.write(offset(f"{name}_BYTES"), NO_LIMIT)
    device.write(offset("PROG_COUNT"), len(program.writes))
    device.write(offset("RUN_LIMIT"), TABLE_LIMIT_CLOCKS)
    return places


@pytest.mark.cosim
def test_a_reset_in_the_middle_of_a_table(rtl):
    """Half a table, or one that waits to be written, would be left behind: the next run would end never or with wrong bytes."""
    program, constants, size = tables_in_turn()
    segments = {"SEG_CONSTANT": constants, "SEG_INPUT": np.random.default_rng(0).bytes(128), "SEG_OUTPUT": bytes(size)}

    def answer(before: list[int]) -> bytes:
        """What the device stores in a run, after other runs that a reset ends after so many clocks."""
        device.store(output, bytes(size))
        device.write(offset(CLEAR[0]), CLEAR[1])  # `wait` would end at once
        for moment in before:
            device.write(offset("CTRL"), START[1])
            device.run_clocks(moment)
            device.write(offset("CTRL"), RESET[1])
        device.write(offset("CTRL"), START_TO_WAIT)
        device.wait()
        assert REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["done"] == 1, before
        return device.load(output, size)

    device = EmulatorDevice(preset("tiny"), 1 << 20)
    output = prepared(device, program, segments)["SEG_OUTPUT"]
    right = answer([])
    device = rtl(preset("tiny"))
    output = prepared(device, program, segments)["SEG_OUTPUT"]
    assert answer([]) == right
    for moment in range(0, device.read(offset("CYCLES")), TABLE_STEP_CLOCKS):
        assert answer([moment, moment + 5]) == right, f"reset after {moment} clocks"
