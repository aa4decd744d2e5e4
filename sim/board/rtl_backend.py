"""The simulated RTL as a backend of the virtual board, and the ends of its streams.

The clock of a board never stops, but a simulation must be run. So a thread runs the simulation in short slices while the
accelerator is busy, and lets register accesses in between two slices. Packets move only while the clock runs.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board.refused import RefusedError
from cnna.spec.config import Config
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

SLICE_SECONDS = 0.01  # length of a slice of simulation, after which waiting threads get access
SLICE_CLOCKS = (64, 1 << 16)
GRACE_SLICES = 32  # how long a copy may wait for its last responses, or for the DMA's packet, before the clock stops
CTRL, STATUS = offset("CTRL"), offset("STATUS")
STARTS = (offset("STREAM_IN_START"), offset("STREAM_OUT_START"))
STATUSES = {way: offset(f"{way}_STATUS") for way in ("STREAM_IN", "STREAM_OUT")}


class SimulatedRtl(Protocol):
    """The methods of `sim.rtl.cosim.CosimDevice` that the board uses. Their docstrings are there."""

    config: Config
    data: NDArray[np.uint8]
    base: int

    @property
    def unsent(self) -> int: ...

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...

    def reset(self) -> None: ...

    def run_clocks(self, clocks: int) -> None: ...

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes | None: ...

    def drop_sent(self) -> None: ...

    def drop_received(self) -> None: ...

    def close(self) -> None: ...


class RtlStreams:
    """A `dma.Sink` and a `dma.Source`. exclusive: yields the simulated device for a block. wake: makes its clock run."""

    def __init__(self, exclusive: Callable[[], AbstractContextManager["SimulatedRtl"]], wake: Callable[[], None]) -> None:
        self._exclusive, self._wake = exclusive, wake
        self._sending = False
        self._grace = 0

    def put(self, data: bytes) -> bool:
        """Sends one packet, beat by beat as the accelerator takes it."""
        with self._exclusive() as device:
            if not self._sending:
                device.send(data)
                self._sending = True
                self.wake()
            self._sending = device.unsent > 0
            return not self._sending

    def get(self) -> bytes | None:
        """Receives one packet, once its end has come."""
        with self._exclusive() as device:
            return device.receive()

    def drop_put(self) -> None:
        """Drops the rest of a packet."""
        with self._exclusive() as device:
            device.drop_sent()
            self._sending = False

    def drop_got(self) -> None:
        """Drops received packets, and the beginning of the next one."""
        with self._exclusive() as device:
            device.drop_received()

    def wake(self) -> None:
        """Lets the clock run, because something may move now."""
        self._grace = GRACE_SLICES
        self._wake()

    def busy(self, device: "SimulatedRtl") -> bool:
        """Whether a copy that has its packet is under way, so that the clock must run."""
        if not self._grace:
            return False
        runs = {way: REGISTERS[f"{way}_STATUS"].unpack(device.read(at))["busy"] for way, at in STATUSES.items()}
        if not runs["STREAM_OUT"] and not (runs["STREAM_IN"] and device.unsent):
            self._grace = self._grace - 1 if runs["STREAM_IN"] else 0
        return self._grace > 0


class RtlBackend:
    """The simulated RTL as a backend. Only the thread that holds `exclusive` may use `device`."""

    def __init__(self, device: "SimulatedRtl") -> None:
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
            return device.read(offset)

    def write(self, offset: int, value: int) -> None:
        """One AXI4-Lite write. If it may start the accelerator, the clock runs afterwards."""
        with self.exclusive() as device:
            device.write(offset, value)
            if offset == CTRL:
                self._busy = self._busy or _works(device.read(STATUS))
            elif self.streams and offset in STARTS:
                self.streams.wake()

    def reset(self) -> None:
        """Resets the accelerator by `aresetn`."""
        with self.exclusive() as device:
            device.reset()
            self._busy = False

    def close(self) -> None:
        """Ends the thread and the simulation."""
        self._closed = True
        with self._turn:
            self._turn.notify_all()
        self._thread.join()
        self.data = np.empty(0, np.uint8)
        with suppress(BufferError):  # an answer to a client that has left may still use the memory; it is freed with the process
            self.device.close()

    def _wake(self) -> None:
        self._busy = True

    @contextmanager
    def exclusive(self) -> Iterator["SimulatedRtl"]:
        """Yields the device for a block, in which the clock stands and no other thread uses the device."""
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
        """Runs the clock while the accelerator is busy and no other thread waits."""
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
                except RunError as error:  # the client gets it at its next access
                    print(f"cnna board: {error}", file=sys.stderr, flush=True)
                    self._busy = False
                quick = time.monotonic() - began < SLICE_SECONDS / 2
                clocks = min(SLICE_CLOCKS[1], clocks * 2) if quick else max(SLICE_CLOCKS[0], clocks * 3 // 4)


def _works(status: int) -> bool:
    fields = REGISTERS["STATUS"].unpack(status)
    return bool(fields["busy"] or fields["resetting"])
