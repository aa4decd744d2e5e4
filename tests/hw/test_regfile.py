"""The register file through AXI4-Lite: every register and field of the map, who may write what when, and the handshakes."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth import DomainRenamer, Module, ResetInserter, Signal
from amaranth.sim import Simulator

from cnna.hw.config import preset
from cnna.hw.regfile import ALWAYS, COPYING, STREAMED, RegFile, capability, general, kept, reports
from cnna.hw.regmap import BY_OFFSET, ENGINES, ERRORS, REGISTERS, SPACE_BYTES, command_fields, offset
from cnna.hw.writes import SHADOWED

CONFIG = preset("tiny")
STREAMS = replace(CONFIG, streams=True)
BOTH = pytest.mark.parametrize("config", [CONFIG, STREAMS], ids=["plain", "streams"])
OKAY, SLVERR = 0, 2
DEADLINE_CLOCKS = 60_000
IDLE, SEQUENCER, HOST = {}, {"busy": 1, "running": 1}, {"busy": 1, "running": 1, "by_host": 1}


class Host:
    """An AXI4-Lite master that takes its time at random on every channel."""

    def __init__(self, ctx, dut, reset):
        self.ctx, self.dut, self.bus, self.rng = ctx, dut, dut.bus, np.random.default_rng(1)
        self._reset = reset

    async def reset(self):
        """Resets the register file, as a soft reset does its program writes."""
        self.ctx.set(self._reset, 1)
        await self.ctx.tick()
        self.ctx.set(self._reset, 0)

    async def pause(self):
        for _ in range(int(self.rng.choice([0, 0, 1, 5]))):
            await self.ctx.tick()

    async def send(self, channel, **payload):
        """One transfer on a channel that the master drives."""
        for name, value in payload.items():
            self.ctx.set(getattr(self.bus, name), value)
        self.ctx.set(getattr(self.bus, channel + "valid"), 1)
        await self.ctx.tick().until(getattr(self.bus, channel + "ready"))
        self.ctx.set(getattr(self.bus, channel + "valid"), 0)

    async def answer(self, channel, *names):
        """One transfer on a channel that the slave drives; it must wait for ready without moving."""
        while not self.ctx.get(getattr(self.bus, channel + "valid")):
            await self.ctx.tick()
        before = [self.ctx.get(getattr(self.bus, name)) for name in names]
        await self.pause()
        assert self.ctx.get(getattr(self.bus, channel + "valid"))
        assert [self.ctx.get(getattr(self.bus, name)) for name in names] == before
        self.ctx.set(getattr(self.bus, channel + "ready"), 1)
        await self.ctx.tick()
        self.ctx.set(getattr(self.bus, channel + "ready"), 0)
        return before

    async def write(self, where, value, strobe=15):
        """Writes; AW and W in either order. Answers BRESP."""
        parts = [("aw", {"awaddr": where}), ("w", {"wdata": value, "wstrb": strobe})]
        if self.rng.random() < 0.5:
            parts.reverse()
        for channel, payload in parts:
            await self.pause()
            await self.send(channel, **payload)
        return (await self.answer("b", "bresp"))[0]

    async def read(self, where):
        """(RDATA, RRESP)."""
        await self.pause()
        await self.send("ar", araddr=where)
        return tuple(await self.answer("r", "rdata", "rresp"))

    def state(self, state):
        """Sets the control inputs."""
        for name in ("busy", "running", "by_host", "stop", "resetting"):
            self.ctx.set(getattr(self.dut, name), state.get(name, 0))


def run(test, *watchers, config=CONFIG):
    """Runs `test(ctx, host, dut)` and background watchers against a register file."""
    dut, top = RegFile(config), Module()
    reset = Signal()
    top.submodules.dut = ResetInserter(reset)(DomainRenamer({"core": "sync"})(dut))
    simulator = Simulator(top)
    simulator.add_clock(1e-6)

    async def main(ctx):
        await test(ctx, Host(ctx, dut, reset), dut)

    async def deadline(ctx):
        for _ in range(DEADLINE_CLOCKS):
            await ctx.tick()
        raise AssertionError(f"not finished after {DEADLINE_CLOCKS} clocks")

    simulator.add_testbench(main)
    simulator.add_testbench(deadline, background=True)
    for watcher in watchers:

        async def watch(ctx, watcher=watcher):
            await watcher(ctx, dut)

        simulator.add_testbench(watch, background=True)
    simulator.run()


def random_word(register, rng):
    """A legal word of a register, and the bits above its fields set at random."""
    values = {}
    for field in register.fields:
        low, high = field.limits
        values[field.name] = int(rng.choice([low, high, rng.integers(low, high + 1)]))
    bits = sum(field.bits for field in register.fields)
    return register.pack(**values), int(rng.integers(1 << 32)) >> bits << bits


@BOTH
def test_every_register_reads_what_the_map_says(config):
    """A word behind the wrong offset, a reset value or capability that is not the map's."""
    words, held = capability(config), [register for register in general(config) if kept(register)]

    async def test(ctx, host, dut):
        rng = np.random.default_rng(1)
        told = {name: int(rng.integers(1 << 32)) for name, _ in reports(config)}
        ctx.set(dut.reports, told)
        for where in range(0, SPACE_BYTES, 4):
            register = BY_OFFSET.get(where)
            if register is None:
                if where % 64 in (0, 60):
                    assert await host.read(where) == (0, SLVERR), hex(where)
                continue
            expected = told.get(register.name, words.get(register.name, register.pack() if register in held else 0))
            assert await host.read(where) == (expected, OKAY), register.name
        assert (await host.read(offset("ID") + 1))[1] == SLVERR

    run(test, config=config)


@BOTH
def test_idle_host_writes_the_general_block_only(config):
    """A configuration register that does not keep its word, keeps bits it has not, or an engine's written outside a program."""

    async def test(ctx, host, dut):
        rng = np.random.default_rng(2)
        for register in REGISTERS.values():
            word, above = random_word(register, rng)
            writable = register in general(config) and any(field.access != "ro" for field in register.fields)
            word = word & kept(register) if register.name == "CTRL" else word
            assert await host.write(register.offset, word | above) == (OKAY if writable else SLVERR), register.name
            expected = word & kept(register) if writable and kept(register) else None
            if expected is not None:
                assert await host.read(register.offset) == (expected, OKAY), register.name
            elif register in SHADOWED:
                assert (await host.read(register.offset))[0] == 0
        assert await host.write(0xFFC, 1) == SLVERR

    run(test, config=config)


def test_part_words_are_refused():
    """A byte write that changed a register, or hung the bus."""

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
    """A segment, program address or pulse that does not reach the blocks that use it."""
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
    """The host changes a register under a program of the sequencer, or cannot reach CTRL, STATUS, WATCHDOG and copies."""

    async def test(ctx, host, dut):
        host.state(SEQUENCER)
        for name in ("SEG_INPUT_LO", "CONV_SRC", "CONV_GO", "END", "ID"):
            assert await host.write(offset(name), 1) == SLVERR, name
        for name in (*ALWAYS, *(register.name for register in COPYING)):
            assert await host.write(offset(name), 0) == (OKAY if REGISTERS[name] in general(config) else SLVERR), name
        assert ctx.get(dut.refused) == 0
        assert await host.read(offset("CONV_SRC")) == (0, OKAY)

    run(test, config=config)


@pytest.mark.parametrize("way", ["in", "out"])
@pytest.mark.parametrize("state", [IDLE, SEQUENCER, HOST], ids=["idle", "sequencer", "host"])
def test_a_copy_starts_beside_anything(way, state):
    """Its start is lost or doubled, reaches the other copy, or is taken while it would be forgotten."""
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
    """A host waits for a copy that nobody carries out."""

    async def test(ctx, host, dut):
        assert STREAMED
        for register in STREAMED:
            assert await host.write(register.offset, 1) == SLVERR
            assert await host.read(register.offset) == (0, OKAY)

    run(test)


@pytest.mark.parametrize("engine", ENGINES)
def test_commands_carry_the_shadow_registers(engine):
    """A field cut from the wrong bits, or one that does not stay for the next command."""

    async def test(ctx, host, dut):
        rng, stream = np.random.default_rng(3), getattr(dut, engine)
        host.state(HOST)
        own = [register for register in SHADOWED if register.block == engine]
        values = {}
        for turn in range(2):
            for register in own if turn == 0 else own[::3]:
                word, above = random_word(register, rng)
                assert await host.write(register.offset, word | above) == OKAY
                assert await host.read(register.offset) == (word | above, OKAY)
                values[register.name] = register.unpack(word)
            assert await host.write(offset(f"{engine.upper()}_GO"), 1) == OKAY
            while not ctx.get(stream.valid):
                await ctx.tick()
            found = [ctx.get(stream.payload[name]) for name in command_fields(engine)]
            assert found == [value for register in own for value in values[register.name].values()]
            ctx.set(stream.ready, 1)
            await ctx.tick()
            ctx.set(stream.ready, 0)
        assert await host.write(offset(f"{engine.upper()}_GO"), 0) == OKAY
        await ctx.tick().repeat(4)
        assert not ctx.get(stream.valid)

    run(test)


def limited():
    """(register, field, value) just outside each limit that a field's bits can break."""
    for register in SHADOWED:
        for field in register.fields:
            low, high = field.limits
            floor = -(1 << (field.bits - 1)) if field.signed else 0
            ceiling = floor + (1 << field.bits) - 1
            yield from ((register, field, low - 1) for _ in range(low > floor))
            yield from ((register, field, high + 1) for _ in range(high < ceiling))


def test_every_limit_is_checked():
    """A command with a field that would hang or crash an engine; the limit itself must pass."""
    cases = list(limited())
    assert len(cases) > 20

    async def test(ctx, host, dut):
        host.state(SEQUENCER)
        for register, field, value in cases:
            ctx.set(dut.program.payload, {"offset": register.offset, "value": outside(register, field, value)})
            ctx.set(dut.program.valid, 1)
            await ctx.tick()
            ctx.set(dut.program.valid, 0)
            while not ctx.get(dut.refused):
                assert not ctx.get(dut.done), f"{register.name}.{field.name} = {value}"
                await ctx.tick()
            assert ctx.get(dut.fault.offset) == register.offset
            assert ERRORS[ctx.get(dut.fault.cause)] == "illegal_value"
            await host.reset()

    def outside(register, field, value):
        legal = {other.name: other.limits[0] if other.limits[0] > 0 else other.reset for other in register.fields}
        word, bit = register.pack(**legal), 0
        for other in register.fields:
            mask = ((1 << other.bits) - 1) << bit
            word = word & ~mask | value << bit & mask if other is field else word
            bit += other.bits
        return word

    run(test)


@pytest.mark.parametrize(
    "where", [offset("ID"), offset("SEG_INPUT_LO"), offset("CYCLES"), 0xFFC, offset("CONV_SRC") + 2, 0x10300, 1 << 31]
)
def test_a_program_may_not_write_elsewhere(where):
    """A program reaches a register of the host's, or one that is not there; what follows it must not act."""

    async def test(ctx, host, dut):
        host.state(SEQUENCER)
        for write in ({"offset": where, "value": 1}, {"offset": offset("CONV_SRC"), "value": 99}):
            ctx.set(dut.program.payload, write)
            ctx.set(dut.program.valid, 1)
            await ctx.tick()
        ctx.set(dut.program.valid, 0)
        causes = []
        for _ in range(8):
            assert not ctx.get(dut.done)
            if ctx.get(dut.refused):
                causes.append((ERRORS[ctx.get(dut.fault.cause)], ctx.get(dut.fault.offset)))
            await ctx.tick()
        assert causes == [("illegal_register", where & 0xFFFF)]
        assert await host.read(offset("CONV_SRC")) == (0, OKAY)

    run(test)


def test_a_program_takes_a_write_a_clock_and_holds_at_a_full_queue():
    """A write lost behind a GO that waits, or a third command that overwrites one of the two queued."""

    async def test(ctx, host, dut):
        host.state(SEQUENCER)
        writes = [(offset("LOAD_FM"), 7), (offset("LOAD_GO"), 1), (offset("LOAD_FM"), 8), (offset("LOAD_GO"), 1)]
        writes += [(offset("LOAD_FM"), 9), (offset("LOAD_GO"), 1), (offset("LOAD_FM"), 10), (offset("END"), 1)]
        taken, done, found, ended = 0, 0, [], 0
        for clock in range(60):
            ctx.set(dut.program.valid, int(taken < len(writes)))
            if taken < len(writes):
                ctx.set(dut.program.payload, dict(zip(("offset", "value"), writes[taken], strict=True)))
                taken += ctx.get(dut.program.ready)
            ctx.set(dut.load.ready, int(clock > 30))
            if clock > 30 and ctx.get(dut.load.valid):
                found.append(ctx.get(dut.load.payload.fm))
            done += ctx.get(dut.done)
            ended += ctx.get(dut.end)
            assert clock != 8 or done == 5  # `done` comes a clock late
            assert clock != 30 or (done == 5 and not ended)
            await ctx.tick()
        assert (found, done, ended, taken) == ([7, 8, 9], len(writes), 1, len(writes))

    run(test)


def test_a_host_write_of_a_program_waits_and_is_refused_when_it_stops():
    """A GO write of the host answered before it is queued, or never, though the accelerator has stopped."""

    async def test(ctx, host, dut):
        host.state(HOST)
        for _ in range(2):
            assert await host.write(offset("STORE_GO"), 1) == OKAY
        await host.send("aw", awaddr=offset("STORE_GO"))
        await host.send("w", wdata=1, wstrb=15)
        for _ in range(30):
            assert not ctx.get(dut.bus.bvalid)
            await ctx.tick()
        assert await host.read(offset("ID")) == (REGISTERS["ID"].pack(), OKAY)
        ctx.set(dut.stop, 1)
        assert await host.answer("b", "bresp") == [SLVERR]

    run(test)


def test_a_host_writes_its_program():
    """An illegal write of the host's own program that is not refused with SLVERR and a fault."""
    faults = []

    async def watch(ctx, dut):
        while True:
            await ctx.tick()
            if ctx.get(dut.refused):
                faults.append((ERRORS[ctx.get(dut.fault.cause)], ctx.get(dut.fault.offset)))
                ctx.set(dut.stop, 1)

    async def test(ctx, host, dut):
        host.state(HOST)
        assert await host.write(offset("LOAD_RUN"), 5) == OKAY
        assert await host.write(offset("WATCHDOG"), 9) == OKAY
        assert await host.write(offset("LOAD_RUN"), 0) == SLVERR
        host.state({**IDLE, "stop": 1})
        assert await host.write(offset("LOAD_RUN"), 5) == SLVERR
        assert await host.read(offset("LOAD_RUN")) == (5, OKAY)

    run(test, watch)
    assert faults == [("illegal_value", offset("LOAD_RUN"))]
