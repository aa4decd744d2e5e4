"""A design that is elaborated once and simulated many times: to elaborate a large one takes longer than a short simulation."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator, SimulatorContext

from .deadline import CLOCK_SECONDS, MOST_CLOCKS, deadline

Process = Callable[[SimulatorContext], Awaitable[None]]


class Replay:
    """Simulates a design from its reset on, each time with other processes."""

    def __init__(self, design: Elaboratable) -> None:
        self.design: Any = design
        self._simulator = Simulator(design)
        self._simulator.add_clock(CLOCK_SECONDS)
        self._simulator.add_testbench(deadline(MOST_CLOCKS), background=True)
        self._slots = 0  # testbenches of the simulator, as many as the longest run had processes
        self._playing: list[tuple[Process, bool]] = []  # the processes of this run, and whether the run waits for their ends

    def run(self, *processes: Process, before: Sequence[Process] = (), after: Sequence[Process] = ()) -> None:
        """Simulates until all `processes` have ended. In each clock, those `before` and `after` take their turns around them."""
        groups = ((before, False), (processes, True), (after, False))
        self._playing = [(process, ends) for group, ends in groups for process in group]
        if self._slots:
            self._simulator.reset()
        for number in range(self._slots, len(self._playing)):
            self._simulator.add_testbench(partial(self._play, number), background=True)
        self._slots = max(self._slots, len(self._playing))
        while self._simulator.advance():
            pass

    async def _play(self, number: int, ctx: SimulatorContext) -> None:
        if number >= len(self._playing):
            return
        process, ends = self._playing[number]
        if ends:
            with ctx.critical():
                await process(ctx)
        else:
            await process(ctx)
