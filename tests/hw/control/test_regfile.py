"""The register file through AXI4-Lite: every register and field of the map, who may write what when, and the handshakes."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.hw.control.status_registers import ALWAYS, COPYING, STREAMED, general_registers, kept_mask, reports_layout
from cnna.hw.control.writes import shadowed
from cnna.spec.identity import capability_words
from cnna.spec.regmap import BY_OFFSET, REGISTERS, SPACE_BYTES, offset, there

from ...rigs.regfile_host import CONFIG, HOST, IDLE, OKAY, SEQUENCER, SLVERR, WITH_BOOKS, random_word, run

STREAMS = replace(CONFIG, streams=True)
BOTH = pytest.mark.parametrize("config", [CONFIG, STREAMS, WITH_BOOKS], ids=["plain", "streams", "books"])


@BOTH
def test_every_register_reads_what_the_map_says(config):
    """A word would lie at the wrong offset, or have a reset value or capability that the map does not have."""
    words = capability_words(config) | {"QUEUE": REGISTERS["QUEUE"].pack()}
    held = [register for register in general_registers(config) if kept_mask(register)]
    known = {register.offset: register for register in there(config.codebook)}

    async def test(ctx, host, dut):
        rng = np.random.default_rng(1)
        told = {name: int(rng.integers(1 << 32)) for name, _ in reports_layout(config)}
        ctx.set(dut.reports, told)
        for where in range(0, SPACE_BYTES, 4):
            register = known.get(where)
            if register is None:
                if where % 64 in (0, 60) or where in BY_OFFSET:
                    assert await host.read(where) == (0, SLVERR), hex(where)
                continue
            expected = told.get(register.name, words.get(register.name, register.pack() if register in held else 0))
            assert await host.read(where) == (expected, OKAY), register.name
        assert (await host.read(offset("ID") + 1))[1] == SLVERR

    run(test, config=config)


@BOTH
def test_idle_host_writes_the_general_block_only(config):
    """A configuration register would lose its word or keep bits that it does not have, or an engine's register be written."""

    async def test(ctx, host, dut):
        rng = np.random.default_rng(2)
        for register in REGISTERS.values():
            word, above = random_word(register, rng)
            writable = register in general_registers(config) and any(field.access != "ro" for field in register.fields)
            word = word & kept_mask(register) if register.name == "CTRL" else word
            assert await host.write(register.offset, word | above) == (OKAY if writable else SLVERR), register.name
            expected = word & kept_mask(register) if writable and kept_mask(register) else None
            if expected is not None:
                assert await host.read(register.offset) == (expected, OKAY), register.name
            elif register in shadowed(config.codebook):
                assert (await host.read(register.offset))[0] == 0
        assert await host.write(0xFFC, 1) == SLVERR

    run(test, config=config)


def test_part_words_are_refused():
    """A byte write would change a register or hang the bus."""

    async def test(ctx, host, dut):
        where = offset("PROG_COUNT")
        assert await host.write(where, 0x12345678) == OKAY
        for strobe in range(15):
            assert await host.write(where, 0xFFFFFFFF, strobe) == SLVERR
        assert await host.read(where) == (0x12345678, OKAY)

    run(test)


def test_a_second_write_waits_for_the_first():
    """W of the next write, offered at once, would overwrite the one that waits for its address."""

    async def test(ctx, host, dut):
        await host.send("w", wdata=0x111, wstrb=15)
        ctx.set(dut.bus.wdata, 0x222)
        ctx.set(dut.bus.wvalid, 1)
        await ctx.tick().repeat(3)
        await host.send("aw", awaddr=offset("PROG_COUNT"))
        assert await host.answer("b", "bresp") == [OKAY]
        await host.send("w", wdata=0x222, wstrb=15)
        assert await host.read(offset("PROG_COUNT")) == (0x111, OKAY)
        await host.send("aw", awaddr=offset("WATCHDOG"))
        assert await host.answer("b", "bresp") == [OKAY]
        assert await host.read(offset("WATCHDOG")) == (0x222, OKAY)

    run(test)


def test_outputs_follow_the_registers():
    """A segment, program address or pulse would not reach the blocks that use it."""
    pulses = []

    async def watch(ctx, dut):
        while True:
            await ctx.tick()
            for name in ("start", "begin", "soft_reset", "clear_done"):
                if ctx.get(getattr(dut, name)):
                    pulses.append(name)

    async def test(ctx, host, dut):
        for index, name in enumerate(("CONSTANT", "WORKSPACE", "INPUT", "OUTPUT")):
            await host.write(offset(f"SEG_{name}_LO"), 0x1000 * (index + 1))
            await host.write(offset(f"SEG_{name}_HI"), 0x10 + index)
            assert ctx.get(dut.segments[index]) == (0x10 + index) << 32 | 0x1000 * (index + 1)
            assert ctx.get(dut.sizes[index]) == (1 << 28) - 1, "a segment has a limit before there is one"
            await host.write(offset(f"SEG_{name}_BYTES"), 0x12345670 + index)
            assert ctx.get(dut.sizes[index]) == 0x1234567
        await host.write(offset("RUN_LIMIT"), 0x87654321)
        assert ctx.get(dut.run_limit) == 0x87654321
        await host.write(offset("PROG_BASE_LO"), 0xABCDEF10)
        await host.write(offset("PROG_BASE_HI"), 0x5)
        assert ctx.get(dut.program_base) == 0x5ABCDEF10
        ctrl = REGISTERS["CTRL"]
        for fields in ({"start": 1, "irq_enable": 1}, {"begin": 1}, {"soft_reset": 1}):
            assert await host.write(ctrl.offset, ctrl.pack(**fields)) == OKAY
            assert ctx.get(dut.irq_enable) == fields.get("irq_enable", 0)
        await host.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1))
        host.state(SEQUENCER)
        assert await host.write(ctrl.offset, ctrl.pack(start=1)) == SLVERR

    run(test, watch)
    assert pulses == ["start", "begin", "soft_reset", "clear_done"]


@BOTH
def test_a_running_program_shuts_the_host_out(config):
    """The host would change a register while the sequencer plays, or could not reach CTRL, STATUS, WATCHDOG and copies; what it
    sets for the next run would change the one that runs.
    """

    async def test(ctx, host, dut):
        assert await host.write(offset("SEG_INPUT_LO"), 0x1000) == OKAY
        host.state(SEQUENCER)
        for name, word in (("SEG_INPUT_LO", 0x2000), ("PROG_COUNT", 3)):
            assert await host.write(offset(name), word) == OKAY, name
            assert await host.read(offset(name)) == (word, OKAY)
        assert ctx.get(dut.segments[2]) == 0x1000
        assert ctx.get(dut.program_count) == 0
        for name in ("CONV_SRC", "CONV_GO", "END", "ID"):
            assert await host.write(offset(name), 1) == SLVERR, name
        for name in (*ALWAYS, *(register.name for register in COPYING)):
            assert await host.write(offset(name), 0) == (OKAY if REGISTERS[name] in general_registers(config) else SLVERR), name
        assert ctx.get(dut.refused) == 0
        assert await host.read(offset("CONV_SRC")) == (0, OKAY)

    run(test, config=config)


@pytest.mark.parametrize("way", ["in", "out"])
@pytest.mark.parametrize("state", [IDLE, SEQUENCER, HOST], ids=["idle", "sequencer", "host"])
def test_a_copy_starts_beside_anything(way, state):
    """A copy's start would be lost or doubled, would reach the other copy, or would be taken in a state that forgets it."""
    prefix, other = f"STREAM_{way.upper()}", "stream_out" if way == "in" else "stream_in"
    pulses = []

    async def watch(ctx, dut):
        while True:
            await ctx.tick()
            assert not ctx.get(getattr(dut, other).start)
            if ctx.get(getattr(dut, f"stream_{way}").start):
                request = getattr(dut, f"stream_{way}")
                pulses.append((ctx.get(request.address), ctx.get(request.bytes)))

    async def test(ctx, host, dut):
        host.state(state)
        for name, value in (("LO", 0x12345670), ("HI", 0x9A), ("BYTES", 0xFEDCBA98)):
            assert await host.write(offset(f"{prefix}_{name}"), value) == OKAY
        start = offset(f"{prefix}_START")
        assert await host.write(start, 0) == OKAY
        assert await host.write(start, 1) == OKAY
        for refusing in ({"busy": 1}, {"resetting": 1}, {"stop": 1}):
            busy = REGISTERS[f"{prefix}_STATUS"].pack(**refusing) if "busy" in refusing else 0
            ctx.set(dut.reports[f"{prefix}_STATUS"], busy)
            host.state({**state, **({} if busy else refusing)})
            assert await host.write(start, 1) == SLVERR
        host.state(state)
        assert await host.write(start, 1) == OKAY
        await ctx.tick().repeat(3)
        assert pulses == [(0x9A12345670, 0xFEDCBA98)] * 2

    run(test, watch, config=STREAMS)


def test_without_streams_there_are_no_copies():
    """A host would wait for a copy that nobody carries out."""

    async def test(ctx, host, dut):
        assert STREAMED
        for register in STREAMED:
            assert await host.write(register.offset, 1) == SLVERR
            assert await host.read(register.offset) == (0, OKAY)

    run(test)
