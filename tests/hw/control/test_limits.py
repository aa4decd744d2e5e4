"""The limits of a run, as top connects control and faults: the watchdog, and the clocks that a run may take."""

import pytest

from cnna.spec.regmap import ERRORS

from ...rigs.control_bench import pulse, run, within


@pytest.mark.parametrize("clocks", [5, 40])
def test_the_watchdog_counts_clocks_without_progress(clocks):
    """A hang would never be caught, or work would be taken for a hang."""

    async def test(ctx, control, faults):
        ctx.set(faults.watchdog, clocks)
        await ctx.tick().repeat(3 * clocks)
        await pulse(ctx, control.start)
        await within(ctx, control.running, 5)
        for _ in range(4):
            await pulse(ctx, faults.progress)
            await ctx.tick().repeat(clocks - 2)
        assert not ctx.get(faults.error)
        await pulse(ctx, faults.progress)
        assert clocks <= await within(ctx, faults.error, clocks + 6)
        assert ERRORS[ctx.get(faults.cause)] == "watchdog"

    run(test)


@pytest.mark.parametrize("clocks", [1, 2, 50])
def test_a_run_limit_stops_what_goes_on(clocks):
    """A program whose beats go on for ever would never stop, or one would stop too soon, or because of the time of the one
    before.
    """

    async def test(ctx, control, faults):
        ctx.set(faults.run_limit, clocks)
        ctx.set(faults.progress, 1)
        await ctx.tick().repeat(2 * clocks)
        for _ in range(2):
            await pulse(ctx, control.start)
            await within(ctx, control.clear, 40)
            await ctx.tick()
            if clocks > 10:  # a program that ends in time
                await ctx.tick().repeat(clocks - 12)
                await pulse(ctx, control.end)
                await within(ctx, control.done, 4)
                await pulse(ctx, control.start)
                await within(ctx, control.clear, 5)
                await ctx.tick()
            assert clocks <= await within(ctx, faults.error, clocks + 4)
            assert ERRORS[ctx.get(faults.cause)] == "run_limit"
            await ctx.tick().repeat(2)

    run(test)


def test_a_run_limit_that_passes_between_programs_stops_none():
    """A host that waited for longer than the limit would find its next program stopped in the clock in which it begins."""

    async def test(ctx, control, faults):
        ctx.set(faults.run_limit, 20)
        for idle_clocks in (1, 19, 20, 21, 60):
            await pulse(ctx, control.start)
            await within(ctx, control.clear, 5)
            await ctx.tick().repeat(5)
            await pulse(ctx, control.end)
            await within(ctx, control.done, 4)
            await ctx.tick().repeat(idle_clocks)
            assert not ctx.get(faults.error)

    run(test)


@pytest.mark.parametrize("progress", [0, 1], ids=["quiet", "busy"])
def test_limits_of_zero_are_none(progress):
    """Long quiet work, or a long program, would be stopped although the host asked for no limit."""

    async def test(ctx, control, faults):
        ctx.set(faults.watchdog, 0)
        ctx.set(faults.run_limit, 0)
        ctx.set(faults.progress, progress)
        await pulse(ctx, control.start)
        await ctx.tick().repeat(300)
        assert ctx.get(control.running)
        assert not ctx.get(faults.error)

    run(test)


ENDS_AT = 20  # clocks from its start to the END of a program


def endings(limit):
    """{(done, error)} of all clocks of a program that ends near its limit, and of those until the program behind it runs."""
    found = set()

    async def test(ctx, control, faults):
        async def clocks(count):
            for _ in range(count):
                found.add((ctx.get(control.done), ctx.get(faults.error)))
                await ctx.tick()

        ctx.set(faults.run_limit, limit)
        await pulse(ctx, control.start)
        await within(ctx, control.clear, 5)
        await clocks(ENDS_AT)
        ctx.set(control.end, 1)
        await clocks(1)
        ctx.set(control.end, 0)
        await clocks(12)
        await pulse(ctx, control.start)
        while not ctx.get(control.running):
            await clocks(1)
            assert not (ctx.get(control.done) and not ctx.get(faults.error) and (0, 1) in found), "a stopped program looks done"

    run(test)
    return found


def test_a_program_that_ends_at_its_limit_is_done_or_stopped_and_never_both():
    """A driver that asks for done first would take the answer of a program that was stopped; one that asks for error, refuse it."""
    ended = [endings(limit) - {(0, 0)} for limit in range(ENDS_AT - 2, ENDS_AT + 10)]
    assert {frozenset(one) for one in ended} == {frozenset({(1, 0)}), frozenset({(0, 1)})}
