"""Cocotb's side of `test_second_opinion.py`: cocotbext-axi plays host and memories, each channel paused at random."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam
from cocotbext.axi.sparse_memory import SparseMemory

from cnna.spec.regmap import REGISTERS, offset

PORTS = 2
BASES = {"CONSTANT": 0x1000, "WORKSPACE": 0x3000, "INPUT": 0x12_0000_1000, "OUTPUT": 0x4000}
PROGRAM = 0x9FF0  # its first burst ends at a 4 KiB boundary
WORD_BYTES, ROWS, ROW_WORDS = 4, 9, 45
ROW_BYTES = 192  # rows start at every offset in a burst; the last beat of a row is partial
RESULT_GAP = 0x5A
LOOKS = 10_000  # readings of STATUS, each some ten clocks apart


def pauses(seed):
    """True where a channel holds back."""
    draw = random.Random(seed)
    while True:
        yield draw.random() < 0.4


def program():
    """Two loads of interleaved rows, weights into the vector ring, and a store of all rows that waits for both loads."""
    writes = []

    def command(engine, **values):
        for name, value in values.items():
            register = REGISTERS[f"{engine}_{name}"]
            fields = value if isinstance(value, dict) else {register.fields[0].name: value}
            writes.append((register.offset, register.pack(**fields)))
        writes.append((offset(f"{engine}_GO"), 1))

    both = {"RUN": ROW_WORDS, "DDR_RUN": 2 * ROW_BYTES, "FM_RUN": 2 * ROW_WORDS, "BLOCKS": 1}
    command("LOAD", SEG=2, DDR=0, FM=0, RUNS=(ROWS + 1) // 2, **both)
    command("LOAD", DDR=ROW_BYTES, FM=ROW_WORDS, RUNS=ROWS // 2)
    command("WEIGHT", RING=1, SEG=0, DDR=0x30, BEATS=70, REPEAT=2)
    wait = {"count": 2, "enable": 1}
    command("STORE", SEG=3, DDR=16, FM=0, WAIT_LOAD=wait, RUNS=ROWS, RUN=ROW_WORDS, DDR_RUN=ROW_BYTES, FM_RUN=ROW_WORDS, BLOCKS=1)
    writes.append((offset("END"), 1))
    return writes


async def until(host, ended):
    """STATUS once it has `ended`. AssertionError: it has not after LOOKS readings."""
    for _ in range(LOOKS):
        status = REGISTERS["STATUS"].unpack(await host.read_dword(offset("STATUS")))
        if ended(status):
            return status
    raise AssertionError(f"no end after {LOOKS:,} looks: {status}")


@cocotb.test()
async def copies_through_feature_memory(dut):
    """The copy would differ from its source, a byte beside it would change, or a second run would differ from the first."""
    cocotb.start_soon(Clock(dut.aclk, 4, "ns").start())
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi_control"), dut.aclk, dut.aresetn, reset_active_level=False)
    memory = SparseMemory(1 << 40)
    rams = [AxiRam(AxiBus.from_prefix(dut, f"m_axi_gmem{port}"), dut.aclk, dut.aresetn, False, mem=memory) for port in range(PORTS)]
    channels = [host.write_if.aw_channel, host.write_if.w_channel, host.write_if.b_channel, host.read_if.ar_channel]
    for ram in rams:
        channels += [ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel]
        channels += [ram.read_if.ar_channel, ram.read_if.r_channel]
    for seed, channel in enumerate(channels):
        channel.set_pause_generator(pauses(seed))
    dut.aresetn.value = 0
    await ClockCycles(dut.aclk, 5)
    dut.aresetn.value = 1
    await ClockCycles(dut.aclk, 5)

    source = np.random.default_rng(1).integers(0, 256, (ROWS, ROW_BYTES), dtype=np.uint8)
    memory.write(BASES["INPUT"], source.tobytes())
    writes = program()
    memory.write(PROGRAM, np.array(writes, "<u4").tobytes())
    for name, base in BASES.items():
        await host.write_dword(offset(f"SEG_{name}_LO"), base & 0xFFFFFFFF)
        await host.write_dword(offset(f"SEG_{name}_HI"), base >> 32)
    await host.write_dword(offset("PROG_BASE_LO"), PROGRAM)
    await host.write_dword(offset("PROG_COUNT"), len(writes))
    expected = np.full((ROWS, ROW_BYTES), RESULT_GAP, np.uint8)
    expected[:, : ROW_WORDS * WORD_BYTES] = source[:, : ROW_WORDS * WORD_BYTES]
    for _ in range(2):
        memory.write(BASES["OUTPUT"], bytes([RESULT_GAP]) * (16 + expected.size))
        await host.write_dword(offset("CTRL"), REGISTERS["CTRL"].pack(start=1))
        status = await until(host, lambda status: not status["busy"])
        assert (status["done"], status["error"]) == (1, 0), status
        assert await host.read_dword(offset("PC")) == len(writes)
        found = np.frombuffer(memory.read(BASES["OUTPUT"] + 16, expected.size), np.uint8).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
        assert memory.read(BASES["OUTPUT"], 16) == bytes([RESULT_GAP]) * 16
        beats = [await host.read_dword(offset(f"WRITE_BEATS{port}")) for port in range(PORTS)]
        assert sum(beats) == ROWS * -(-ROW_WORDS * WORD_BYTES // 16)
        await host.write_dword(offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1))  # empties the ring
        await until(host, lambda status: not status["resetting"])
