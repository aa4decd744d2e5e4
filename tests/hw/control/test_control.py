"""Control and faults together, as top connects them: programs begin, end, stop, and are reset."""

import pytest

from cnna.spec.regmap import ERRORS, REGISTERS

from ...rigs.control_bench import pulse, run, within


@pytest.mark.parametrize("how", ["start", "begin"])
def test_a_program_runs_until_end_and_idle_engines(how):
    """Done would come before the last engine has finished, or never; or the sequencer would play when the host sends the
    program.
    """

    async def test(ctx, control, faults):
        await pulse(ctx, getattr(control, how))
        assert ctx.get(control.busy)
        plays = 0
        for _ in range(6):
            plays += ctx.get(control.play)
            await ctx.tick()
        assert plays == (how == "start")
        assert ctx.get(control.by_host) == (how == "begin")
        ctx.set(control.engines, 0b00100)
        await pulse(ctx, control.end)
        await ctx.tick()
        assert ctx.get(control.drop)
        for _ in range(20):
            assert ctx.get(control.busy)
            assert not ctx.get(control.done)
            await ctx.tick()
        ctx.set(control.engines, 0)
        await within(ctx, control.done, 4)
        assert not ctx.get(control.busy)
        assert not ctx.get(control.interrupt)
        ctx.set(control.irq_enable, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(control.interrupt)
        await pulse(ctx, control.clear_done)
        await ctx.tick()
        assert not ctx.get(control.done)
        await ctx.tick()
        assert not ctx.get(control.interrupt)
        await pulse(ctx, control.start)
        await within(ctx, control.running, 6)
        await ctx.tick().repeat(10)
        assert ctx.get(control.busy)

    run(test)


def test_start_waits_for_the_sequencer():
    """The rest of a longer program would be played as part of the next one."""

    async def test(ctx, control, faults):
        ctx.set(control.sequencer_idle, 0)
        await pulse(ctx, control.start)
        for _ in range(10):
            assert not ctx.get(control.running)
            await ctx.tick()
        ctx.set(control.sequencer_idle, 1)
        await within(ctx, control.play, 4)

    run(test)


def events(faults):
    """Every cause with the input that makes it: (signal to pulse, (signal, value) beside it, port, response)."""
    return {
        "illegal_register": (faults.refused, [(faults.fault, {"cause": 1, "offset": 0x123})], 0, 0),
        "illegal_value": (faults.refused, [(faults.fault, {"cause": 2, "offset": 0x3F0})], 0, 0),
        "outside_segment": (faults.outside, [], 0, 0),
        "read_response": (faults.reads[1].valid, [(faults.reads[1].response, 2)], 1, 2),
        "write_response": (faults.writes[0].valid, [(faults.writes[0].response, 3)], 0, 3),
    }


@pytest.mark.parametrize("cause", ["illegal_register", "illegal_value", "outside_segment", "read_response", "write_response"])
def test_the_first_error_stops_and_stays(cause):
    """Cause, port or response would not be the first error's; the accelerator would run on, or be reset before the buses are
    quiet.
    """

    async def test(ctx, control, faults):
        await pulse(ctx, control.start)
        await within(ctx, control.running, 5)
        await ctx.tick()  # `clear` comes with the first clock of `running`; a write takes longer to act
        signal, values, port, response = events(faults)[cause]
        for target, value in values:
            ctx.set(target, value)
        await pulse(ctx, faults.written)
        await pulse(ctx, signal)
        await pulse(ctx, faults.writes[1].valid)
        await ctx.tick().repeat(3)
        assert ctx.get(faults.error)
        assert ERRORS[ctx.get(faults.cause)] == cause
        assert (ctx.get(faults.port), ctx.get(faults.response)) == (port, response)
        offsets = {"illegal": lambda: values[0][1]["offset"], "outside": lambda: REGISTERS["LOAD_SEG"].offset}
        assert ctx.get(faults.offset) == offsets.get(cause.partition("_")[0], int)()
        assert ctx.get(faults.pc) == 1
        assert ctx.get(control.halt)
        assert not ctx.get(control.busy)
        ctx.set(control.masters_idle, 0)
        await pulse(ctx, control.soft_reset)
        for _ in range(30):
            assert ctx.get(control.resetting)
            assert not ctx.get(control.reset)
            await ctx.tick()
        ctx.set(control.masters_idle, 1)
        await within(ctx, control.reset, 20)
        while ctx.get(control.resetting):
            await ctx.tick()
        assert not ctx.get(faults.error)
        await ctx.tick().repeat(3)
        assert not ctx.get(control.halt)
        assert not ctx.get(control.reset)

    run(test)


def test_start_after_an_error_resets_first():
    """The rest of a failed program would disturb the next."""

    async def test(ctx, control, faults):
        await pulse(ctx, control.start)
        await within(ctx, control.running, 5)
        await pulse(ctx, faults.reads[0].valid)
        await ctx.tick().repeat(4)
        await pulse(ctx, control.start)
        await within(ctx, control.reset, 30)
        assert not ctx.get(control.running)
        await within(ctx, control.play, 30)
        assert not ctx.get(faults.error)
        assert ctx.get(control.busy)

    run(test)


def test_errors_without_a_program_are_none():
    """A late answer after the end of a program would mark the next one as failed."""

    async def test(ctx, control, faults):
        await pulse(ctx, faults.reads[0].valid)
        await ctx.tick().repeat(3)
        assert not ctx.get(faults.error)

    run(test)


@pytest.mark.parametrize("how", ["start", "begin"])
@pytest.mark.parametrize("clocks", range(24))
def test_a_program_begun_in_a_reset_is_not_ended_by_the_one_before(how, clocks):
    """A stopped program's last writes act until the reset comes: its END would end the next program, or keep it from beginning."""

    async def test(ctx, control, faults):
        await pulse(ctx, control.start)
        await within(ctx, control.running, 5)
        ctx.set(control.masters_idle, 0)
        await pulse(ctx, control.soft_reset)
        await ctx.tick().repeat(6)  # an AXI4-Lite write takes as long
        await pulse(ctx, getattr(control, how))
        ctx.set(control.engines, 0b10000)
        for clock in range(24):
            ctx.set(control.end, clock == clocks)
            ctx.set(control.masters_idle, clock > 12)
            await ctx.tick()
            if ctx.get(control.reset):
                ctx.set(control.engines, 0)
                break
        ctx.set(control.end, 0)
        await within(ctx, control.running, 30)
        for _ in range(10):
            assert ctx.get(control.busy)
            assert not ctx.get(control.drop)
            await ctx.tick()
        await pulse(ctx, control.end)
        await within(ctx, control.done, 5)

    run(test)
