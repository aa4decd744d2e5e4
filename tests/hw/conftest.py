"""Every simulation of a block ends: one that waits for what never comes fails, instead of going on for ever."""

import pytest
from amaranth.sim import Simulator

CLOCK_SECONDS = 1e-6  # as all of these tests have it
MOST_CLOCKS = 200_000  # ten times the longest of them


@pytest.fixture(autouse=True)
def deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a last moment to whatever `Simulator` a test runs."""
    run = Simulator.run

    def run_within(self: Simulator) -> None:
        async def last_moment(ctx) -> None:  # type: ignore[no-untyped-def]
            await ctx.delay(MOST_CLOCKS * CLOCK_SECONDS)
            raise AssertionError(f"not finished after {MOST_CLOCKS:,} clocks")

        self.add_testbench(last_moment, background=True)
        run(self)

    monkeypatch.setattr(Simulator, "run", run_within)
