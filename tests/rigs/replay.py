"""A design that is elaborated once and simulated many times: to elaborate a large one takes longer than a short simulation."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator, SimulatorContext

from .deadline import CLOCK_SECONDS, MOST_CLOCKS, deadline

Process = Callable[[SimulatorContext], Awaitable[None]]


class Replay:
    """Simulates a design from its reset on, each time with other processes, but with as many as the first time."""

    def __init__(self, design: Elaboratable) -> None:
        self.design: Any = design
        self._simulator = Simulator(design)
        self._simulator.add_clock(CLOCK_SECONDS)
        self._simulator.add_testbench(deadline(MOST_CLOCKS), background=True)
        self._processes: Sequence[Process] = ()

    def run(self, process: Process, *background: Process) -> None:
        """Simulates until `process` ends. In each clock, the processes in the background come before it, in their order."""
        first, before, self._processes = not self._processes, len(self._processes), (*background, process)
        assert first or len(self._processes) == before, "with another number of processes, some would not play"
        if first:
            for number in range(len(self._processes)):
                self._simulator.add_testbench(partial(self._play, number), background=number < len(background))
        else:
            self._simulator.reset()
        while self._simulator.advance():
            pass

    async def _play(self, number: int, ctx: SimulatorContext) -> None:
        await self._processes[number](ctx)
