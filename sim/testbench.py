"""`Testbench`: the simulated accelerator inside a cocotb test, for users' own tests and for `server`.

@cocotb.test()
async def my_test(dut):
    tb = Testbench(dut)
    await tb.start()
    ...
"""

import time
from collections.abc import Callable
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer

from cnna.host.errors import RunError
from cnna.hw.regmap import REGISTERS, offset
from cnna.sim.axilite import AxiLite
from cnna.sim.ddr import SETTINGS, Ddr

PERIOD_STEPS = 2  # simulator time steps in a clock
RESET_CLOCKS = 8
REPORT_SECONDS = 0.25  # real time between reports of a long run
FIRST_SLICE_CLOCKS = 512

Report = Callable[[int, float], None]  # clocks so far, real seconds so far; may raise to stop


class Testbench:
    """Clock, reset, registers and memory of the accelerator in `dut` (the top that `tb.testbench` wrote)."""

    __test__ = False  # not a pytest class

    def __init__(self, dut: Any) -> None:
        self.dut, self.ddr = dut, Ddr()
        self.registers = AxiLite(dut)

    async def start(self) -> None:
        """Starts the clock (cocotb's own, no Python in it) and resets."""
        for name, (default, _) in SETTINGS.items():
            self.ddr.set(name, default)
        Clock(self.dut.aclk, PERIOD_STEPS, "step", impl="gpi").start()
        await self.reset()

    async def reset(self) -> None:
        """Holds `aresetn` low for some clocks."""
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, RESET_CLOCKS)
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)

    async def read(self, offset: int) -> int:
        """The register at a byte offset, through AXI4-Lite."""
        return await self.registers.read(offset)

    async def write(self, offset: int, value: int) -> None:
        """Sets a register through AXI4-Lite."""
        await self.registers.write(offset, value)

    async def run_clocks(self, clocks: int) -> None:
        """Lets time pass."""
        await Timer(clocks * PERIOD_STEPS, "step")
        await RisingEdge(self.dut.aclk)

    async def wait(self, report: Report | None = None) -> None:
        """Until STATUS has done or error (by interrupt where it is enabled). RunError: the AXI4 protocol was broken."""
        started, first = time.monotonic(), self.ddr.clocks
        slice_clocks = FIRST_SLICE_CLOCKS
        while not int(self.dut.interrupt.value):
            before = time.monotonic()
            pause = Timer(slice_clocks * PERIOD_STEPS, "step")
            fired = await First(RisingEdge(self.dut.interrupt), pause)
            if fired is not pause:
                break
            await RisingEdge(self.dut.aclk)
            status = REGISTERS["STATUS"].unpack(await self.read(offset("STATUS")))
            if status["done"] or status["error"]:
                break
            if time.monotonic() - before < REPORT_SECONDS / 2:
                slice_clocks *= 2
            if report:
                report(self.ddr.clocks - first, time.monotonic() - started)
        await RisingEdge(self.dut.aclk)
        if self.ddr.violation:
            raise RunError(f"the accelerator broke the AXI4 protocol: {self.ddr.violation}")
