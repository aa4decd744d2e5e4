"""The accelerator behind the virtual board: the emulator, or the Verilated RTL, whose time passes while it works.

A board's clock never stands still; a simulation's does unless somebody runs it. So a thread runs the simulation in short slices for
as long as the accelerator is busy, and lets every register access in between. `open_backend` makes one by name.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board import copies, ends
from cnna.sim.board.copies import Copies
from cnna.sim.board.dma import Sink, Source
from cnna.sim.board.ends import RtlStreams
from cnna.sim.board.refused import RefusedError
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.state import DDR_BASE
from cnna.spec.config import Config
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

BACKENDS = ("rtl", "emulator")
SLICE_SECONDS = 0.01  # of simulation between two looks at who waits
SLICE_CLOCKS = (64, 1 << 16)
CTRL, STATUS = offset("CTRL"), offset("STATUS")

STREAMED = tuple(r.offset for r in REGISTERS.values() if r.name.startswith("STREAM_"))

Say = Callable[[str], None]


class Streams(Sink, Source, Protocol):
    """The accelerator's end of both streams."""


class Backend(Protocol):
    """One accelerator as a slave of the fabric (`fabric.Slave`), and the memory that its masters see."""

    data: NDArray[np.uint8]
    base: int

    @property
    def streams(self) -> Streams | None:
        """The ends of the accelerator's, where it has them."""

    def read(self, offset: int) -> int:
        """A register. RefusedError: the bus answers with an error, or the simulation has died."""

    def write(self, offset: int, value: int) -> None:
        """Sets a register. RefusedError: as `read`."""

    def reset(self) -> None:
        """What loading an image does to it."""

    def close(self) -> None:
        """Ends it."""


class RtlBackend:
    """The simulated RTL; `device` is its `sim.rtl.cosim.CosimDevice`, which only the thread that has the turn may use."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.data, self.base = device.data, device.base
        self.streams = RtlStreams(self.exclusive, self._wake) if device.config.streams else None
        self._turn = threading.Condition()
        self._count, self._waiting = threading.Lock(), 0
        self._busy = self._closed = False
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def read(self, offset: int) -> int:
        """One AXI4-Lite read."""
        with self.exclusive() as device:
            return int(device.read(offset))

    def write(self, offset: int, value: int) -> None:
        """One AXI4-Lite write; after one that may start the accelerator, its clock runs."""
        with self.exclusive() as device:
            device.write(offset, value)
            if offset == CTRL:
                self._busy = self._busy or _works(device.read(STATUS))
            elif self.streams and offset in ends.STARTS:
                self.streams.wake()

    def reset(self) -> None:
        """`aresetn`."""
        with self.exclusive() as device:
            device.reset()
            self._busy = False

    def close(self) -> None:
        """Ends thread and simulation."""
        self._closed = True
        with self._turn:
            self._turn.notify_all()
        self._thread.join()
        self.data = np.empty(0, np.uint8)
        with suppress(BufferError):  # an answer to a client that has gone still looks at the memory; it ends with the process
            self.device.close()

    def _wake(self) -> None:
        self._busy = True

    @contextmanager
    def exclusive(self) -> Iterator[Any]:
        """The device, for a block in which its clock stands and nobody else uses it."""
        with self._count:
            self._waiting += 1
        with self._turn:
            with self._count:
                self._waiting -= 1
            try:
                yield self.device
            except RunError as error:
                raise RefusedError("ABORTED", str(error)) from None
            finally:
                self._turn.notify_all()

    def _run(self) -> None:
        """Lets the clock run while the accelerator works and nobody else wants a turn."""
        clocks = SLICE_CLOCKS[0]
        with self._turn:
            while not self._closed:
                if self._waiting or not self._busy:
                    self._turn.wait()
                    continue
                began = time.monotonic()
                try:
                    self.device.run_clocks(clocks)
                    works = _works(self.device.read(STATUS))
                    self._busy = bool(self.streams and self.streams.busy(self.device)) or works
                except RunError as error:  # the next access tells the client
                    print(f"cnna board: {error}", file=sys.stderr, flush=True)
                    self._busy = False
                quick = time.monotonic() - began < SLICE_SECONDS / 2
                clocks = min(SLICE_CLOCKS[1], clocks * 2) if quick else max(SLICE_CLOCKS[0], clocks * 3 // 4)


class EmulatorBackend:
    """The emulator. A start runs the whole program in a thread of its own; until then STATUS reads as busy."""

    def __init__(self, device: EmulatorDevice) -> None:
        self.device = device
        self.data, self.base = device.data, device.base
        self.streams = Copies(device.read, self._view) if device.config.streams else None
        self._lock = threading.Lock()  # of whoever changes the device
        self._running = threading.Event()

    def read(self, offset: int) -> int:
        """A register, at once."""
        if offset == STATUS and self._running.is_set():
            return REGISTERS["STATUS"].pack(busy=1)
        if self.streams and offset in copies.STATUSES:
            return self.streams.read(offset)
        return self._checked(lambda: self.device.read(offset))

    def write(self, offset: int, value: int) -> None:
        """Sets a register; waits for a program that runs, but for registers of copies, which go on beside it."""
        if self.streams and offset in STREAMED:
            return self._write_streamed(offset, value)
        self._lock.acquire()
        if offset == CTRL and REGISTERS["CTRL"].unpack(value)["start"]:
            self._running.set()
            threading.Thread(target=self._start, args=(value,), name="program", daemon=True).start()  # it has the lock
            return None
        try:
            self._checked(lambda: self.device.write(offset, value))
            if self.streams and offset == CTRL and REGISTERS["CTRL"].unpack(value)["soft_reset"]:
                self.streams.reset()
        finally:
            self._lock.release()
        return None

    def reset(self) -> None:
        """A soft reset, and the general block's registers as they were at first."""
        with self._lock:
            self.device.write(CTRL, REGISTERS["CTRL"].pack(soft_reset=1))
            if self.streams:
                self.streams.reset()

    def close(self) -> None:
        """Waits for a program that runs."""
        with self._lock:
            self.data = np.empty(0, np.uint8)

    def _write_streamed(self, offset: int, value: int) -> None:
        assert self.streams is not None
        if offset in copies.STARTS or offset in copies.STATUSES:
            self.streams.write(offset, value)
        else:
            self._checked(lambda: self.device.write(offset, value))

    def _view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Bytes of the memory. IndexError: not all of them are there."""
        start = address - self.base
        if start < 0 or start + size > len(self.data):
            raise IndexError
        return self.data[start : start + size]

    def _start(self, value: int) -> None:
        try:
            self.device.write(CTRL, value)
            self.device.wait()
        except Exception as error:  # a program that no accelerator could carry out: STATUS shows neither done nor error
            print(f"cnna board: {error}", file=sys.stderr, flush=True)
        finally:
            self._running.clear()
            self._lock.release()

    @staticmethod
    def _checked(do: Callable[[], Any]) -> Any:
        try:
            return do()
        except RunError as error:
            raise RefusedError("ABORTED", str(error)) from None


def open_backend(
    name: str,
    config: Config,
    memory_bytes: int,
    cache: Path | None = None,
    say: Say | None = None,
    base: int = DDR_BASE,
    ddr: dict[str, int] | None = None,
) -> Backend:
    """One of BACKENDS, its memory from bus address `base` on; `ddr`: of `sim.rtl.ddr.SETTINGS`, for the RTL.

    ToolError, RunError: the simulator cannot be built or started.
    """
    if name == "emulator":
        return EmulatorBackend(EmulatorDevice(config, memory_bytes, base=base))
    from cnna.sim.rtl.cosim import CosimDevice

    return RtlBackend(CosimDevice(config, memory_bytes, cache=cache, say=say, base=base, ddr=ddr))


def _works(status: int) -> bool:
    fields = REGISTERS["STATUS"].unpack(status)
    return bool(fields["busy"] or fields["resetting"])
