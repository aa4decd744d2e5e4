"""`Testbench`: the simulated accelerator inside a cocotb test, for users' own tests and for `server`.

    @cocotb.test()
    async def my_test(dut):
        tb = Testbench(dut)
        await tb.start()
        y = await tb.run("m.cnna", x)
        assert await tb.counter("CYCLES") < 50_000

`run_tests` builds what such a module needs and runs it.
"""

import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer, Trigger
from numpy.typing import NDArray

from cnna.host.model.model import Model
from cnna.sim.emulator.memory import DDR_BASE, SimulatedMemory
from cnna.sim.rtl.axilite import AxiLite
from cnna.sim.rtl.build import build, to_stderr
from cnna.sim.rtl.cache import NO_CODE_FROM_HERE
from cnna.sim.rtl.lifetime import scratch
from cnna.sim.rtl.linked_models import SETTINGS, Ddr, Packets, Probes, has_streams
from cnna.sim.rtl.runner import RESULTS
from cnna.sim.rtl.simulator import TRACE_ARGUMENT
from cnna.sim.rtl.sources import sources
from cnna.spec.config import Config, preset
from cnna.spec.device import Device
from cnna.spec.errors import RunError
from cnna.spec.files import default_cache
from cnna.spec.identity import read_config
from cnna.spec.regmap import REGISTERS, offset

PERIOD_STEPS = 2  # simulator time steps in a clock
RESET_CLOCKS = 8
REPORT_SECONDS = 0.25  # real time between reports of a long run
FIRST_SLICE_CLOCKS = 512
POLL_CLOCKS = 20_000  # between looks at STATUS, for programs that run without the interrupt
PATIENCE_CLOCKS = 200_000  # beyond RUN_LIMIT, which counts from when a program begins: until then a reset may wait for the bus
MOST_CLOCKS = 1 << 32  # of a run without RUN_LIMIT: more than CYCLES counts
MOST_LETTERS = 200  # of what an error says of a failed test; all of it stands above
EXPLAINED = re.compile(r" \+ where ")  # from here on a failed assertion names objects by their addresses; all of it stands above
MEMORY_BYTES = 1 << 28  # of a user's testbench; only touched pages cost anything

Report = Callable[[int, float], None]  # clocks since the simulation began, time.monotonic(); may raise to stop


class Testbench:
    """Clock, reset, registers, memory and streams' ends of the accelerator in `dut` (the top that `testbench_top.text` wrote)."""

    __test__ = False  # not a pytest class

    def __init__(self, dut: Any) -> None:
        self.dut, self.ddr = dut, Ddr()
        self.registers = AxiLite(dut)
        self.packets = Packets() if has_streams() else None

    async def start(self) -> None:
        """Starts the clock (cocotb's own, no Python in it) and resets."""
        for name, (default, _) in SETTINGS.items():
            self.ddr.set(name, default)
        if TRACE_ARGUMENT in cocotb.plusargs:  # the whole of it, unless a part is chosen before the first program starts
            Probes.trace(self.dut, 0, -1)
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

    async def counter(self, name: str) -> int:
        """A register of one field by its name, such as CYCLES or ARRAY_ACTIVE."""
        return await self.read(offset(name))

    async def run(self, artifact: str | Path, x: NDArray[Any]) -> Any:
        """The answer to x of a model with one input and output; a dict by output name where x is a dict.

        It runs on this accelerator, and the simulation goes on meanwhile.
        """
        device = await bridge(InnerDevice)(self)
        return await bridge(self._run)(device, artifact, x)

    @staticmethod
    def _run(device: Device, artifact: str | Path, x: NDArray[Any]) -> Any:
        with Model(artifact, device=device) as model:
            return model.run(x)

    async def run_clocks(self, clocks: int, report: Report | None = None) -> None:
        """Lets time pass. RunError: as `wait`."""
        await self._pass_time(clocks, None, report)
        self._check()

    async def wait(self, report: Report | None = None) -> None:
        """Until STATUS has done or error (by interrupt where it is enabled).

        RunError: the AXI4 protocol was broken, or neither comes PATIENCE_CLOCKS after RUN_LIMIT's.
        """
        until = None
        while not int(self.dut.interrupt.value):
            if await self._pass_time(POLL_CLOCKS, RisingEdge(self.dut.interrupt), report):
                break
            status = REGISTERS["STATUS"].unpack(await self.read(offset("STATUS")))
            if status["done"] or status["error"]:
                break
            if until is None:
                limit = await self.read(offset("RUN_LIMIT"))
                until = self.ddr.clocks + (limit + PATIENCE_CLOCKS if limit else MOST_CLOCKS)
            elif self.ddr.clocks > until:
                raise RunError(f"the simulated accelerator comes to no end: STATUS {status}")
        await RisingEdge(self.dut.aclk)
        self._check()

    def _check(self) -> None:
        violation = self.ddr.violation or (self.packets and self.packets.violation)
        if violation:
            raise RunError(f"the accelerator broke the AXI4 protocol: {violation}")

    async def _pass_time(self, clocks: int, until: Trigger | None, report: Report | None) -> bool:
        """Lets at most so many clocks pass, reporting now and then; whether `until` fired."""
        left, slice_clocks = clocks, FIRST_SLICE_CLOCKS
        while left > 0:
            now = min(left, slice_clocks)
            before, pause = time.monotonic(), Timer(now * PERIOD_STEPS, "step")
            if until is None:
                await pause
            elif await First(until, pause) is not pause:
                return True
            left -= now
            if time.monotonic() - before < REPORT_SECONDS / 2:
                slice_clocks *= 2
            if report:
                report(self.ddr.clocks, time.monotonic())
        await RisingEdge(self.dut.aclk)
        return False


class InnerDevice(SimulatedMemory):
    """The accelerator of a `Testbench` as a `spec.device.Device`, for blocking code that runs under `cocotb.task.bridge`."""

    name = "rtl"

    def __init__(self, tb: Testbench) -> None:
        file = os.memfd_create("cnna-ddr")
        os.ftruncate(file, MEMORY_BYTES)
        super().__init__(np.frombuffer(mmap.mmap(file, MEMORY_BYTES), np.uint8), DDR_BASE)
        tb.ddr.open(f"/proc/self/fd/{file}", DDR_BASE, MEMORY_BYTES)
        os.close(file)  # both maps stay
        self._read, self._write, self._wait = resume(tb.read), resume(tb.write), resume(tb.wait)
        self.config = read_config(self.read)

    def read(self, offset: int) -> int:
        """The register at a byte offset."""
        return int(self._read(offset))

    def write(self, offset: int, value: int) -> None:
        """Sets a register."""
        self._write(offset, value)

    def wait(self) -> None:
        """Returns when STATUS has done or error set."""
        self._wait()

    def close(self) -> None:
        """The testbench lives on."""


def run_tests(
    config: str | Config,
    module: str,
    folder: Path,
    plusargs: Sequence[str] = (),
    cache: Path | None = None,
    trace: Path | None = None,
) -> None:
    """Runs the cocotb tests of a Python module in `folder` on the simulated accelerator, built if need be.

    What tests and cocotb print appears while they run. They work in the caller's folder, so relative paths are the caller's.
    plusargs: "+name=value", which a test sees as `cocotb.plusargs`. trace: an FST file for the waveform, from the first program's
    start on; needs a simulator of its own. RunError: names the tests that failed and says why, or the simulator ended early.
    """
    chosen, cache = preset(config) if isinstance(config, str) else config, cache or default_cache()
    traced = trace is not None
    built = build(sources(chosen, cache, to_stderr, trace=traced), cache, traced, to_stderr)
    arguments = [*plusargs, *([f"+{TRACE_ARGUMENT}={Path(trace).absolute()}"] if trace is not None else [])]
    path = os.pathsep.join([str(Path(folder).absolute()), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | NO_CODE_FROM_HERE
    with scratch("cnna-") as run_folder:
        command = [sys.executable, "-m", "cnna.sim.rtl.runner", "tests", str(built), str(run_folder), module, *arguments]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        with process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
        count, failed = _results(run_folder / RESULTS)
    if failed:
        raise RunError(f"{len(failed)} of {count} cocotb tests of {module} failed: {'; '.join(failed)}")
    if process.returncode:
        raise RunError(f"the simulator of the cocotb tests of {module} ended with code {process.returncode}, before they did")
    if not count:
        raise RunError(f"{module} has no cocotb test: write `@cocotb.test()` before one")


def _results(path: Path) -> tuple[int, list[str]]:
    """How many tests have run, and of each that failed its name and the reason."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0, []
    failed = []
    for case in cases:
        for failure in (*case.iter("failure"), *case.iter("error")):
            said = [failure.get(key) or "" for key in ("error_type", "error_msg")]
            said = said if said[1] else [failure.get("message") or ""]
            line = " ".join(f"{case.get('name')}: {': '.join(filter(None, said))}".split())
            failed.append(EXPLAINED.split(line, 1)[0][:MOST_LETTERS])
    return len(cases), failed
