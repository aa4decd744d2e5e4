"""Ends every simulation of a block: a simulation that waits for ever fails instead of going on. Elaborates and compiles once."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator, _pyrtl

from ..rigs.deadline import MOST_CLOCKS, deadline
from ..rigs.replay import Replay


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


@pytest.fixture(scope="module")
def replay() -> Callable[..., Replay]:
    """`replay(make, *arguments)`: a simulation of `make(*arguments)`, which is elaborated once in a file of tests."""

    @cache
    def replayed(make: Callable[..., Elaboratable], *arguments: object) -> Replay:
        return Replay(make(*arguments))

    return replayed
