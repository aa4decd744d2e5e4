"""Ends every simulation of a block: a simulation that waits for ever fails instead of going on. Compiles equal parts once."""

from collections.abc import Iterator
from functools import cache

import pytest
from amaranth.sim import Simulator, _pyrtl

from ..rigs.deadline import deadline

MOST_CLOCKS = 200_000  # ten times the longest test


@pytest.fixture(autouse=True)
def every_simulation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives every `Simulator` that a test runs a deadline."""
    run = Simulator.run

    def run_within(self: Simulator) -> None:
        self.add_testbench(deadline(MOST_CLOCKS), background=True)
        run(self)

    monkeypatch.setattr(Simulator, "run", run_within)


@pytest.fixture(autouse=True, scope="session")
def compiled_once() -> Iterator[None]:
    """Keeps what Python makes of the text of Amaranth's simulator: tests play the same block many times, at every pace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pyrtl, "compile", cache(compile), raising=False)
        yield
