"""The emulated accelerator's copies between its stream ports and DDR, as the STREAM_* registers describe them.

A copy takes no time: it is over when its packet has come, or is fetched. The streams' other ends are a `dma.Dma`'s.
"""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board.refused import RefusedError
from cnna.spec.config import BEAT_BYTES
from cnna.spec.regmap import REGISTERS, STREAM_ERRORS, offset

IN, OUT = "STREAM_IN", "STREAM_OUT"
STARTS = {offset(f"{way}_START"): way for way in (IN, OUT)}
STATUSES = {offset(f"{way}_STATUS"): way for way in (IN, OUT)}
DECERR = 3

View = Callable[[int, int], NDArray[np.uint8]]  # address, size: those bytes of DDR. IndexError: not all are there


class Copies:
    """Both, as a `fabric.Slave` of START and STATUS, and as the `dma.Sink` and `dma.Source` of the streams.

    `read` gives other registers of the accelerator.
    """

    def __init__(self, read: Callable[[int], int], view: View) -> None:
        self._register, self._view = read, view
        self._lock = threading.Lock()  # clients are served by many threads
        self.reset()

    def reset(self) -> None:
        """As after a soft reset."""
        self._status = dict.fromkeys((IN, OUT), 0)
        self._places = dict.fromkeys((IN, OUT), (0, 0))

    def read(self, offset: int) -> int:
        """The STATUS of one."""
        return self._status[STATUSES[offset]]

    def write(self, offset: int, value: int) -> None:
        """START of one. RefusedError: it may not start now, as the bus would say."""
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
        """A packet from the DMA to DDR; False while no copy waits for one."""
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
        """A packet from DDR for the DMA; None while no copy goes on."""
        with self._lock:
            if not self._is(OUT, "busy"):
                return None
            try:
                data = self._view(*self._places[OUT]).tobytes()
            except IndexError:
                self._end(OUT, "response", DECERR)
                return bytes(BEAT_BYTES)  # the packet ends with the beat that is bad
            self._end(OUT, "none")
            return data

    def drop_put(self) -> None:
        """It takes whole packets or none."""

    def drop_got(self) -> None:
        """A copy that goes on waits for the next who asks."""

    def _is(self, way: str, field: str) -> bool:
        return bool(REGISTERS[f"{way}_STATUS"].unpack(self._status[way])[field])

    def _end(self, way: str, cause: str, response: int = 0) -> None:
        register = REGISTERS[f"{way}_STATUS"]
        self._status[way] = register.pack(done=int(cause == "none"), cause=STREAM_ERRORS.index(cause), response=response)

    def _named(self, name: str) -> int:
        return self._register(offset(name))
