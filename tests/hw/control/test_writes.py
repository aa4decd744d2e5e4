"""Program writes, from a sequencer and from the host: commands, limits, queues, and what stops them."""

import numpy as np
import pytest

from cnna.hw.control.writes import shadowed
from cnna.spec.regmap import CLEARED, ENGINES, ERRORS, REGISTERS, command_fields, offset

from ...rigs.regfile_host import HOST, IDLE, OKAY, SEQUENCER, SLVERR, WITH_BOOKS, random_word, run

SHADOWED = shadowed(True)


@pytest.mark.parametrize("engine", ENGINES)
def test_commands_carry_the_shadow_registers(engine):
    """A field would be cut from the wrong bits, or would not stay for the next command."""

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

    run(test, config=WITH_BOOKS)


def test_a_start_takes_no_table_or_operand_over():
    """A program from before these registers would use the table, or the flat operand, of whatever ran before it."""

    async def test(ctx, host, dut):
        host.state(HOST)
        for name in (*CLEARED, "CONV_BLOCKS"):
            assert await host.write(offset(name), 1) == OKAY
        ctx.set(dut.clear, 1)
        await ctx.tick()
        ctx.set(dut.clear, 0)
        assert [(await host.read(offset(name)))[0] for name in (*CLEARED, "CONV_BLOCKS")] == [0] * len(CLEARED) + [1]

    run(test, config=WITH_BOOKS)


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
    """A command whose field would hang or crash an engine would pass, or one at the limit itself would not."""
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

    run(test, config=WITH_BOOKS)


@pytest.mark.parametrize(
    "where",
    [offset(name) for name in ("ID", "SEG_INPUT_LO", "CYCLES", "WEIGHT_CODE")] + [0xFFC, offset("CONV_SRC") + 2, 0x10300, 1 << 31],
)
def test_a_program_may_not_write_elsewhere(where):
    """A program would reach a register of the host's, or a missing one; or a write after the refused one would act."""

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
    """A write would be lost behind a GO that waits, or a third command would overwrite one of the two in the queue."""

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
    """A GO write of the host would be answered before it is queued or, after the accelerator has stopped, never."""

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
    """An illegal write of the host's own program would not be refused with SLVERR and a fault."""
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


def test_what_stands_behind_the_end_never_acts():
    """A GO behind END, held by a full queue, would act as the first command of the next program."""

    async def test(ctx, host, dut):
        host.state(SEQUENCER)
        writes = [
            (offset("LOAD_FM"), 7),
            (offset("LOAD_GO"), 1),
            (offset("LOAD_GO"), 1),
            (offset("END"), 1),
            (offset("LOAD_GO"), 1),
        ]
        found, ended, taken = [], 0, 0
        for clock in range(60):
            ctx.set(dut.program.valid, int(taken < len(writes)))
            if taken < len(writes):
                ctx.set(dut.program.payload, dict(zip(("offset", "value"), writes[taken], strict=True)))
                taken += ctx.get(dut.program.ready)
            ctx.set(dut.clear, int(clock == 30))
            ctx.set(dut.load.ready, int(clock > 40))
            found += [ctx.get(dut.load.payload.fm)] * (clock > 40 and ctx.get(dut.load.valid))
            ended += ctx.get(dut.end)
            await ctx.tick()
        assert (found, ended) == ([7, 7], 1)

    run(test)
