"""The DDR model's Python side, in the simulator's process: settings, faults, statistics and logs of `ddr.cpp` by ctypes."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import RunError
from cnna.spec.planned import PLANNED

WRITTEN = np.dtype([("clock", "<u8"), ("address", "<u8"), ("data", "u1", 16), ("strobe", "<u8")])  # of the DDR write log
SETTINGS = {  # name: (default, what)
    "bytes_per_clock": (PLANNED.bytes_per_cycle, "bytes that all ports move in a clock, reads and writes together"),
    "latency": (PLANNED.latency_cycles, "clocks from a read address to its first beat"),
    "write_latency": (PLANNED.latency_cycles, "clocks from the last beat written to its response"),
    "stall": (0, "how often, in 256ths, a channel holds back at random"),
    "outstanding": (64, "bursts that a port takes before it answers the first"),
    "seed": (1, "of the random stalls"),
    "hang_after": (-1, "beats after which nothing answers any more; -1: never"),
}
U64, I64 = ctypes.c_uint64, ctypes.c_int64


class Ddr:
    """The memory model that is linked into this process."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(None)
        self._library.ddr_open.argtypes = [ctypes.c_char_p, U64, U64]
        self._library.ddr_set.argtypes = [ctypes.c_char_p, I64]
        self._library.ddr_fault.argtypes = [ctypes.c_int, ctypes.c_int, U64, U64, ctypes.c_int, I64, I64]
        self._library.ddr_violation.restype = ctypes.c_char_p
        self._library.ddr_clocks.restype = U64
        self._library.ddr_log_entries.restype = ctypes.c_void_p
        self._library.ddr_log_entries.argtypes = [ctypes.POINTER(U64)]

    def open(self, path: str | Path, base: int, size_bytes: int) -> None:
        """Maps a file as the memory from bus address `base` on. RunError: it cannot."""
        if self._library.ddr_open(str(path).encode(), base, size_bytes):
            raise RunError(f"the DDR model cannot map {path}")

    def set(self, name: str, value: int) -> None:
        """One of SETTINGS. RunError: there is none of that name."""
        if self._library.ddr_set(name.encode(), value):
            raise RunError(f"the DDR model has no setting {name!r}; there are {', '.join(SETTINGS)}")

    def fault(
        self, write: bool, response: int, low: int = 0, high: int = 1 << 40, port: int = -1, skip: int = 0, times: int = 1
    ) -> None:
        """Answers `response` (2 SLVERR, 3 DECERR) to beats in low..high-1, after `skip` of them, `times` often (-1: always)."""
        self._library.ddr_fault(port, int(write), low, high, response, skip, times)

    def clear_faults(self) -> None:
        """Every beat is answered as it should be again."""
        self._library.ddr_clear_faults()
        self.set("hang_after", -1)

    def log(self, enable: bool) -> None:
        """Starts an empty log of written beats, or ends it."""
        self._library.ddr_log(int(enable))

    def logged(self) -> NDArray[Any]:
        """The log so far, an array of WRITTEN."""
        count = U64()
        data = self._library.ddr_log_entries(ctypes.byref(count))
        return np.frombuffer(ctypes.string_at(data, count.value * WRITTEN.itemsize), WRITTEN)

    @property
    def clocks(self) -> int:
        """Clocks since the simulation began."""
        return int(self._library.ddr_clocks())

    @property
    def violation(self) -> str:
        """The first breach of the AXI4 protocol that the model saw, or an empty string."""
        return str(self._library.ddr_violation().decode())
