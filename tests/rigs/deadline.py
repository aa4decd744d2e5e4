"""The clock of the tests that play a block in Amaranth's simulator, and the end of those that would wait for ever."""

from collections.abc import Awaitable, Callable

from amaranth.sim import SimulatorContext

CLOCK_SECONDS = 1e-6
MOST_CLOCKS = 200_000  # ten times the longest test


def deadline(clocks: int) -> Callable[[SimulatorContext], Awaitable[None]]:
    """A background testbench that fails after so many clocks. It sleeps till then: one that counted them would run in each."""

    async def last_moment(ctx: SimulatorContext) -> None:
        await ctx.delay(clocks * CLOCK_SECONDS)
        raise AssertionError(f"not finished after {clocks:,} clocks")

    return last_moment
