"""Ends every simulation of a block: a simulation that waits for ever fails instead of going on."""

import pytest
from amaranth.sim import Simulator

CLOCK_SECONDS = 1e-6  # the clock of all these tests
MOST_CLOCKS = 200_000  # ten times the longest test


@pytest.fixture(autouse=True)
def deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives every `Simulator` that a test runs a deadline."""
    run = Simulator.run

    def run_within(self: Simulator) -> None:
        async def last_moment(ctx) -> None:  # type: ignore[no-untyped-def]
            await ctx.delay(MOST_CLOCKS * CLOCK_SECONDS)
            raise AssertionError(f"not finished after {MOST_CLOCKS:,} clocks")

        self.add_testbench(last_moment, background=True)
        run(self)

    monkeypatch.setattr(Simulator, "run", run_within)
