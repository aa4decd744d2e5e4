"""The emulator as a backend of the virtual board, and its copies between streams and DDR."""

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board.refused import RefusedError
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import BEAT_BYTES
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, RUN_REGISTERS, STREAM_ERRORS, offset

CTRL, STATUS = offset("CTRL"), offset("STATUS")
BESIDE = (STATUS, offset("WATCHDOG"), *map(offset, RUN_REGISTERS))  # what the host may write while a program runs, and CTRL
STREAM_REGISTERS = tuple(r.offset for r in REGISTERS.values() if r.name.startswith("STREAM_"))
IN, OUT = "STREAM_IN", "STREAM_OUT"
STARTS = {offset(f"{way}_START"): way for way in (IN, OUT)}
STATUSES = {offset(f"{way}_STATUS"): way for way in (IN, OUT)}
DECERR = 3

View = Callable[[int, int], NDArray[np.uint8]]  # takes address and size; returns a view of DDR. IndexError: bytes outside DDR
Answer = TypeVar("Answer")


class EmulatedStreams:
    """The copies between the accelerator's stream ports and DDR, as the STREAM_* registers describe them.

    This is a `fabric.Slave` of the START and STATUS registers, and the `dma.Sink` and `dma.Source` of the streams. A copy takes no
    time: it ends when its packet has come or was fetched. read: reads the accelerator's other registers.
    """

    def __init__(self, read: Callable[[int], int], view: View) -> None:
        self._register, self._view = read, view
        self._lock = threading.Lock()  # several threads serve the clients
        self.reset()

    def reset(self) -> None:
        """Ends copies, as a soft reset does."""
        self._status = dict.fromkeys((IN, OUT), 0)
        self._places = dict.fromkeys((IN, OUT), (0, 0))

    def read(self, offset: int) -> int:
        """The STATUS register of one of the copies."""
        return self._status[STATUSES[offset]]

    def write(self, offset: int, value: int) -> None:
        """Writes START of one of the copies. RefusedError: it may not start now, so the bus would answer with an error."""
        if offset not in STARTS:
            raise RefusedError("ABORTED", f"the accelerator answers SLVERR to a write at {offset:#x}")
        if not value & 1:
            return
        way = STARTS[offset]
        with self._lock:
            if self._is(way, "busy") or REGISTERS["STATUS"].unpack(self._named("STATUS"))["error"]:
                raise RefusedError("ABORTED", f"the accelerator answers SLVERR to {way}_START: it is busy, or stopped by ERROR")
            address = self._named(f"{way}_LO") | self._named(f"{way}_HI") << 32
            size = self._named(f"{way}_BYTES")
            self._places[way] = address, size
            if address % BEAT_BYTES or not size:
                self._end(way, "illegal")
            else:
                self._status[way] = REGISTERS[f"{way}_STATUS"].pack(busy=1)

    def put(self, data: bytes) -> bool:
        """Writes a packet of the DMA to DDR. False: no copy waits for one."""
        with self._lock:
            if not self._is(IN, "busy"):
                return False
            address, size = self._places[IN]
            count = min(size, len(data))
            try:
                self._view(address, count)[:] = np.frombuffer(data, np.uint8, count)
            except IndexError:
                self._end(IN, "response", DECERR)
                return True
            self._end(IN, "early_end" if len(data) < size else "late_end" if len(data) > size else "none")
            return True

    def get(self) -> bytes | None:
        """Reads a packet for the DMA from DDR. None: no copy is under way."""
        with self._lock:
            if not self._is(OUT, "busy"):
                return None
            try:
                data = self._view(*self._places[OUT]).tobytes()
            except IndexError:
                self._end(OUT, "response", DECERR)
                return bytes(BEAT_BYTES)  # the packet ends with the bad beat
            self._end(OUT, "none")
            return data

    def drop_put(self) -> None:
        """Does nothing, because it takes whole packets or none."""

    def drop_got(self) -> None:
        """Does nothing, because a copy waits until its packet is fetched."""

    def _is(self, way: str, field: str) -> bool:
        return bool(REGISTERS[f"{way}_STATUS"].unpack(self._status[way])[field])

    def _end(self, way: str, cause: str, response: int = 0) -> None:
        register = REGISTERS[f"{way}_STATUS"]
        self._status[way] = register.pack(done=int(cause == "none"), cause=STREAM_ERRORS.index(cause), response=response)

    def _named(self, name: str) -> int:
        return self._register(offset(name))


class EmulatorBackend:
    """The emulator as a backend. A start runs the whole program in a thread of its own; until its end, STATUS reads as busy.

    The thread then runs what is queued.
    """

    def __init__(self, device: EmulatorDevice) -> None:
        self.device = device
        self.data, self.base = device.data, device.base
        self.streams = EmulatedStreams(device.read, self._view) if device.config.streams else None
        self._lock = threading.Lock()  # held by the thread that changes the device
        self._door = threading.Lock()  # held while something is queued, and while the thread ends
        self.running = threading.Event()

    def read(self, offset: int) -> int:
        """Reads a register, without waiting."""
        if offset == STATUS and self.running.is_set():
            return REGISTERS["STATUS"].pack(busy=1) | (self.device.read(offset) & REGISTERS["STATUS"].pack(done=1))
        if self.streams and offset in STATUSES:
            return self.streams.read(offset)
        return self._checked(lambda: self.device.read(offset))

    def write(self, offset: int, value: int) -> None:
        """Sets a register. Waits for a running program, except for the registers of stream copies, which run beside it, and for
        what a host writes that queues starts.
        """
        if self.streams and offset in STREAM_REGISTERS:
            return self._write_streamed(offset, value)
        asked = REGISTERS["CTRL"].unpack(value) if offset == CTRL else {}
        acts = any(asked.get(name) for name in ("start", "begin", "soft_reset"))
        if not acts and (asked.get("queue") or (self.running.is_set() and (asked or offset in BESIDE))):
            return self._write_beside(offset, value)
        self._lock.acquire()
        if asked.get("start") and not self.device.busy:
            self._run(lambda: self.device.write(CTRL, value))
            return None
        try:
            self._checked(lambda: self.device.write(offset, value))
            if self.streams and offset == CTRL and REGISTERS["CTRL"].unpack(value)["soft_reset"]:
                self.streams.reset()
        finally:
            self._lock.release()
        return None

    def reset(self) -> None:
        """A soft reset that also resets the registers of the general block."""
        with self._lock:
            self.device.write(CTRL, REGISTERS["CTRL"].pack(soft_reset=1))
            if self.streams:
                self.streams.reset()

    def close(self) -> None:
        """Waits for a running program."""
        with self._lock:
            self.data = np.empty(0, np.uint8)

    def _write_streamed(self, offset: int, value: int) -> None:
        assert self.streams is not None
        if offset in STARTS or offset in STATUSES:
            self.streams.write(offset, value)
        else:
            self._checked(lambda: self.device.write(offset, value))

    def _write_beside(self, offset: int, value: int) -> None:
        """Sets a register while a program may run; a queued start runs in the thread that runs already, or in a new one."""
        with self._door:
            self._checked(lambda: self.device.set(offset, value))
            if self.running.is_set() or not self.device.follows:
                return
            self.running.set()
        self._lock.acquire()
        self._run(self.device.follow)

    def _view(self, address: int, size: int) -> NDArray[np.uint8]:
        """A view of bytes of the memory. IndexError: some are outside of it."""
        start = address - self.base
        if start < 0 or start + size > len(self.data):
            raise IndexError
        return self.data[start : start + size]

    def _run(self, play: Callable[[], None]) -> None:
        """Plays a program in a thread, which then holds the lock, and after it those that are queued."""
        self.running.set()
        threading.Thread(target=self._play, args=(play,), name="program", daemon=True).start()

    def _play(self, play: Callable[[], None]) -> None:
        try:
            while True:
                try:
                    play()
                    self.device.wait()
                except Exception as error:  # no accelerator could run this program: STATUS shows neither done nor error
                    print(f"cnna board: {error}", file=sys.stderr, flush=True)
                with self._door:
                    if not self.device.follows:
                        self.running.clear()
                        return
                play = self.device.follow
        finally:
            self._lock.release()

    @staticmethod
    def _checked(do: Callable[[], Answer]) -> Answer:
        try:
            return do()
        except RunError as error:
            raise RefusedError("ABORTED", str(error)) from None
