"""The simulated RTL as a `spec.device.Device`: builds the generated Verilog and runs it (`simulator.py`).

Register accesses are real AXI4-Lite transactions by cocotb. The contents of the DDR are a file in memory that both processes map,
so `store` and `load` only copy. One device can run many programs, one after another.
"""

import mmap
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.sim.emulator.memory import DDR_BASE, SimulatedMemory
from cnna.sim.rtl.build import Say, build, to_stderr
from cnna.sim.rtl.lifetime import Scratch
from cnna.sim.rtl.linked_models import BROUGHT, STORED, WRITTEN, board_settings
from cnna.sim.rtl.profile import Layer, layers, weight_clocks
from cnna.sim.rtl.simulator import TRACE, ClockCount, DiedError, Simulator
from cnna.sim.rtl.sources import sources
from cnna.spec.artifact import ProgramPiece
from cnna.spec.config import Config
from cnna.spec.ddr import ROADS
from cnna.spec.errors import RunError
from cnna.spec.files import default_cache
from cnna.spec.regmap import COUNTED

SPEEDS = {"bytes_per_clock": "bytes_per_cycle", "latency": "latency_cycles"}  # by setting of the DDR model, the field of `DdrSpeed`


class CosimDevice(SimulatedMemory):
    """One simulated accelerator with `memory_bytes` of DDR from bus address `base` on. Only used pages cost memory.

    ddr: settings of `sim.rtl.linked_models.SETTINGS`. trace: an FST file for the waveform of clocks `from_cycle`..`to_cycle` (None:
    to the end), counted from the first start. say: is told of each step of a build. count: is given the clocks simulated so far.
    verilog: replaces the accelerator's own text, for tests that break it.
    """

    name = "rtl"

    def __init__(
        self,
        config: Config,
        memory_bytes: int = 1 << 30,
        cache: Path | None = None,
        ddr: dict[str, int] | None = None,
        trace: Path | None = None,
        from_cycle: int = 0,
        to_cycle: int | None = None,
        say: Say | None = None,
        count: ClockCount | None = None,
        verilog: str | None = None,
        base: int = DDR_BASE,
    ) -> None:
        self.config = config
        self._say = say or to_stderr
        self._trace, self._window = trace and Path(trace).absolute(), (from_cycle, to_cycle)
        cache = cache or default_cache()
        texts = sources(config, cache, self._say, verilog, trace is not None)
        folder = build(texts, cache, trace is not None, self._say)
        self._scratch = Scratch("cnna-")
        self._run = self._scratch.path
        self._file = os.memfd_create("cnna-ddr")
        os.ftruncate(self._file, memory_bytes)
        self._map = mmap.mmap(self._file, memory_bytes)
        super().__init__(np.frombuffer(self._map, np.uint8), base)
        self._simulator: Simulator | None = None
        try:
            try:
                self._start(folder, count, ddr or {})
            except DiedError as died:
                if died.number == signal.SIGKILL:
                    raise
                self._say(f"{died}: it is built once more, with fewer optimisations")
                self._start(build(texts, cache, trace is not None, self._say, careful=True), count, ddr or {})
        except BaseException:
            self.close()
            raise

    def _start(self, folder: Path, count: ClockCount | None, ddr: dict[str, int]) -> None:
        """Starts the simulator of a folder, and opens the memory in it. DiedError: a signal ended it."""
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None
        try:
            self._simulator = Simulator(folder, self._run, self._trace is not None, self._say, count)
        except DiedError as died:
            raise self._explained(died) from None
        self._ask("open", path=f"/proc/{os.getpid()}/fd/{self._file}", base=self.base, size_bytes=len(self.data))
        self.set_ddr(**{**board_settings(self.config), **ddr})
        first, last = self._window
        if self._trace:
            self._ask("trace", first=first, last=-1 if last is None else last)

    # --- the Device protocol ---

    def read(self, offset: int) -> int:
        """The register at a byte offset. RunError: the bus answers with an error."""
        return int(self._ask("read", offset=offset))

    def write(self, offset: int, value: int) -> None:
        """Sets a register. RunError: the bus answers with an error."""
        self._ask("write", offset=offset, value=int(value))

    def wait(self) -> None:
        """Returns when STATUS has done or error set. RunError: the simulation died, or the AXI4 protocol was broken."""
        self._ask("wait")

    def close(self) -> None:
        """Ends the simulation and all its processes."""
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None
        self._keep_trace()
        self._scratch.close()
        if self._file >= 0:
            self.data = np.empty(0, np.uint8)  # closes the map
            self._map.close()
            os.close(self._file)
            self._file = -1

    # --- beyond the Device protocol ---

    def set_ddr(self, **settings: int) -> None:
        """Changes settings of the DDR model, which `sim.rtl.linked_models.SETTINGS` lists."""
        self._ask("ddr", **settings)
        speeds = {SPEEDS[name]: value for name, value in settings.items() if name in SPEEDS}
        if road := settings.get("road", 0):
            speeds["bytes_per_cycle"] = next(known.least for known in ROADS.values() if known.number == road)
        self.ddr = self.ddr._replace(**speeds)

    def fault(self, **fault: Any) -> None:
        """Prepares a bad response. Arguments: as of `sim.rtl.linked_models.Ddr.fault`."""
        self._ask("fault", **fault)

    def clear_faults(self) -> None:
        """Ends all faults of the memory."""
        self._ask("clear_faults")

    def send(self, data: bytes | np.ndarray) -> None:
        """Queues a packet for `s_axis`, which the accelerator takes beat by beat. RunError (also below): there are no streams."""
        path = self._run / "packet"
        path.write_bytes(np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else data)
        self._ask("send", path=str(path))

    @property
    def unsent(self) -> int:
        """Bytes of queued packets that the accelerator has not taken."""
        return int(self._ask("unsent"))

    def receive(self) -> bytes | None:
        """Takes the oldest whole packet that has come on `m_axis`; None if there is none."""
        path = self._run / "packet"
        return path.read_bytes() if self._ask("receive", path=str(path)) else None

    def drop_sent(self) -> None:
        """Drops packets that were not taken. If the accelerator has taken half of one, it must be reset."""
        self._ask("drop_sent")

    def drop_received(self) -> None:
        """Drops everything that has come on `m_axis`, including the beginning of a packet."""
        self._ask("drop_received")

    def set_streams(self, stall: int) -> None:
        """Sets how often, in 256ths of all clocks, the other ends of the streams stall at random."""
        self._ask("streams", stall=stall)

    def reset(self) -> None:
        """Does a hard reset by `aresetn`."""
        self._ask("reset")

    def run_clocks(self, clocks: int) -> None:
        """Runs the simulation for `clocks` clocks."""
        self._ask("clocks", clocks=clocks)

    @property
    def clocks(self) -> int:
        """Clocks since the simulation began."""
        return int(self._ask("time"))

    @property
    def process_group(self) -> int:
        """The process group of the simulator. RunError: the simulator is closed."""
        if self._simulator is None:
            raise RunError("the simulated device is closed")
        return self._simulator.process.pid

    @property
    def traced(self) -> bool:
        """Whether the waveform has begun, that is, its first clock has come."""
        return (self._run / TRACE).exists()

    def start_log(self) -> None:
        """Starts to record every word written to feature memory and every beat written to DDR. Drops earlier records."""
        self._ask("log", enable=True)

    def logged(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The writes to feature memory (array of `linked_models.STORED`) and to DDR (of `WRITTEN`), in order of time."""
        files = {name: self._run / f"{name}.log" for name in ("ddr", "features")}
        self._ask("logged", **{name: str(path) for name, path in files.items()})
        found = np.fromfile(files["features"], STORED), np.fromfile(files["ddr"], WRITTEN)
        for path in files.values():
            path.unlink()
        return found

    def profile(self, program: ProgramPiece) -> list[Layer]:
        """The clocks, stalls and bytes of each layer of the last program."""
        return layers(program, self._ask("profile"))

    def timeline(self) -> list[tuple[int, str, int]]:
        """(clock since the last start, engine, units finished by then) for every clock in which an engine finished units."""
        return [(clock, COUNTED[engine], units) for clock, engine, units in self._ask("timeline")]

    def weights(self, program: ProgramPiece) -> list[tuple[int, int]]:
        """For each weight command of the last program, the clocks since the start of its first and its last beat in a ring."""
        path = self._run / "brought"
        self._ask("brought", path=str(path))
        found = np.fromfile(path, BROUGHT)
        path.unlink()
        return weight_clocks(program, found)

    def _ask(self, do: str, **arguments: Any) -> Any:
        """Sends one request to the simulator; returns its answer. RunError: the answer is an error, or the simulator is closed."""
        if self._simulator is None:
            raise RunError("the simulated device is closed")
        try:
            return self._simulator.ask(do, **arguments)
        except DiedError as died:
            raise self._explained(died) from None

    def _explained(self, died: DiedError) -> DiedError:
        """The error with configuration and remedy, in one line."""
        remedy = "free some memory" if died.number == signal.SIGKILL else "--device emulator runs without it"
        return DiedError(died.number, f"configuration {self.config.name}: {died}; {remedy}")

    def _keep_trace(self) -> None:
        made = self._run / TRACE
        if self._trace and made.exists():
            shutil.move(made, self._trace)


open_device = CosimDevice  # `host.model.model` finds a device by this name, and its options by the signature
