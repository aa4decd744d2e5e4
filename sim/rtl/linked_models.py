"""Access to the C++ half of the testbench (`ddr.cpp`, `packets.cpp`, `probes.cpp`) from the simulator process, by ctypes.

`Ddr` is the memory: settings, faults, statistics and logs. `Packets` is the other end of the stream ports. `Probes` reads what the
testbench has recorded inside the accelerator.
"""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.sim.rtl.testbench_top import PORTS
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config
from cnna.spec.ddr import PLANNED, ROADS
from cnna.spec.errors import RunError

WRITTEN = np.dtype([("clock", "<u8"), ("address", "<u8"), ("data", "u1", 16), ("strobe", "<u8")])  # entry of the DDR write log
STORED = np.dtype([("clock", "<u4"), ("address", "<u4"), ("word", "u1", 16)])  # entry of the feature write log
BROUGHT = np.dtype([("clock", "<u4"), ("columns", "<u4")])  # a clock since the start, and a bit for each column that took a beat
PHASES = ("conv_started", "untouched", "state", "done_load", "done_vector", "done_store", "clocks")  # columns of a profile row
EVENTS = ("clock", "engine", "units")  # columns of a timeline row; engine: its number in regmap.COUNTED
SETTINGS = {  # name: (default, description)
    "bytes_per_clock": (PLANNED.bytes_per_cycle, "bytes that all ports move in a clock, reads and writes together (plain)"),
    "road": (0, "what lies between the ports and the DDR: the number of one of `spec.ddr.ROADS`"),
    "mts": (next(iter(ROADS["zcu102-ps"].planned)), "million transfers a second of the PS's DDR4: 2133 or 2400"),
    "clock_mhz": (300, "of the accelerator, for roads that have clocks of their own"),
    "ports": (PORTS, "ports of the accelerator, which take turns (plain)"),
    "latency": (PLANNED.latency_cycles, "clocks from a read address to its first beat when all is idle"),
    "write_latency": (PLANNED.latency_cycles, "clocks from the last beat written to its response"),
    "stall": (0, "how often, in 256ths, a channel holds back at random"),
    "outstanding": (64, "bursts that a port takes before it answers the first (plain)"),
    "seed": (1, "seed of the random stalls"),
    "hang_after": (-1, "beats after which nothing answers any more; -1: never"),
}
U64, I64 = ctypes.c_uint64, ctypes.c_int64


def board_settings(config: Config) -> dict[str, int]:
    """The settings of the DDR of a configuration's board, and the accelerator's clock and ports."""
    ddr = ddr_of(config)
    latency = ddr.latency_cycles
    return {
        "bytes_per_clock": ddr.bytes_per_cycle,
        "clock_mhz": config.clock_mhz,
        "ports": config.ports,
        "latency": latency,
        "write_latency": latency,
    }


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
        """Maps a file as the memory from bus address `base` on. RunError: the file cannot be mapped."""
        if self._library.ddr_open(str(path).encode(), base, size_bytes):
            raise RunError(f"the DDR model cannot map {path}")

    def set(self, name: str, value: int) -> None:
        """Changes one of SETTINGS. RunError: there is none of that name."""
        if self._library.ddr_set(name.encode(), value):
            raise RunError(f"the DDR model has no setting {name!r}; there are {', '.join(SETTINGS)}")

    def fault(
        self, write: bool, response: int, low: int = 0, high: int = 1 << 40, port: int = -1, skip: int = 0, times: int = 1
    ) -> None:
        """Answers beats in low..high-1 with `response` (2 SLVERR, 3 DECERR): `times` beats (-1: all), after the first `skip`."""
        self._library.ddr_fault(port, int(write), low, high, response, skip, times)

    def clear_faults(self) -> None:
        """Ends all faults."""
        self._library.ddr_clear_faults()
        self.set("hang_after", -1)

    def log(self, enable: bool) -> None:
        """Starts an empty log of written beats, or ends it."""
        self._library.ddr_log(int(enable))

    def logged(self) -> NDArray[Any]:
        """The log so far, as an array of WRITTEN."""
        count = U64()
        data = self._library.ddr_log_entries(ctypes.byref(count))
        return np.frombuffer(ctypes.string_at(data, count.value * WRITTEN.itemsize), WRITTEN)

    @property
    def clocks(self) -> int:
        """Clocks since the simulation began."""
        return int(self._library.ddr_clocks())

    @property
    def violation(self) -> str:
        """The first breach of the AXI4 protocol that the model has seen, or an empty string."""
        return str(self._library.ddr_violation().decode())


def has_streams() -> bool:
    """Whether the accelerator in this process has streams. Only then is `packets.cpp` linked into it."""
    return hasattr(ctypes.CDLL(None), "packets_send")


class Packets:
    """The other end of the stream ports, if the accelerator has streams."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(None)
        self._library.packets_send.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self._library.packets_stall.argtypes = [ctypes.c_int64]
        self._library.packets_unsent.restype = ctypes.c_uint64
        self._library.packets_waiting.restype = ctypes.c_int64
        self._library.packets_violation.restype = ctypes.c_char_p

    def send(self, data: bytes) -> None:
        """Queues a packet for `s_axis`. ValueError: the packet is empty."""
        if not data:
            raise ValueError("a packet needs at least one byte")
        self._library.packets_send(data, len(data))

    @property
    def unsent(self) -> int:
        """Queued bytes that the accelerator has not taken."""
        return int(self._library.packets_unsent())

    def receive(self) -> bytes | None:
        """Takes the oldest whole packet that has come on `m_axis`; None if there is none."""
        size = self._library.packets_waiting()
        if size < 0:
            return None
        data = ctypes.create_string_buffer(max(1, size))
        self._library.packets_take(data)
        return data.raw[:size]

    def drop_sent(self) -> None:
        """Drops bytes that were not taken. If the accelerator has half a packet, it must be reset."""
        self._library.packets_drop_sent()

    def drop_received(self) -> None:
        """Drops received bytes."""
        self._library.packets_drop_received()

    def stall(self, share: int) -> None:
        """Sets how often, in 256ths of all clocks, either end stalls at random."""
        self._library.packets_stall(share)

    @property
    def violation(self) -> str:
        """The first breach of the AXI4-Stream protocol, or an empty string."""
        return str(self._library.packets_violation().decode())


class Probes:
    """What the testbench sees inside the accelerator: writes to feature memory and weight rings, the engines' state, waveforms."""

    def log(self, enable: bool) -> None:
        """Starts an empty log of feature memory writes, or ends it."""
        ctypes.CDLL(None).probe_log(int(enable))

    def logged(self) -> NDArray[Any]:
        """The log so far, as an array of STORED, in order of time."""
        return np.frombuffer(self._bytes("probe_log_entries", STORED.itemsize), STORED)

    def profile(self) -> list[list[int]]:
        """Clocks of the last program by the state of the engines, in rows of PHASES."""
        return np.frombuffer(self._bytes("probe_phases", 8 * len(PHASES)), "<u8").reshape(-1, len(PHASES)).tolist()

    def timeline(self) -> list[list[int]]:
        """The clocks, since the last start, at which each engine finished units, in rows of EVENTS."""
        return np.frombuffer(self._bytes("probe_events", 8 * len(EVENTS)), "<u8").reshape(-1, len(EVENTS)).tolist()

    def brought(self) -> NDArray[Any]:
        """The beats that the weight rings took since the last start, as an array of BROUGHT, in order of time."""
        return np.frombuffer(self._bytes("probe_brought", BROUGHT.itemsize), BROUGHT)

    @staticmethod
    def _bytes(function: str, item_bytes: int) -> bytes:
        entries: Any = getattr(ctypes.CDLL(None), function)
        entries.restype, entries.argtypes = ctypes.c_void_p, [ctypes.POINTER(U64)]
        count = U64()
        data = entries(ctypes.byref(count))
        return ctypes.string_at(data, count.value * item_bytes) if count.value else b""

    @staticmethod
    def trace(tb: Any, first: int, last: int) -> None:
        """Lets the testbench write the waveform of clocks first..last (-1: to the end), counted from the next start."""
        tb.trace_first.value, tb.trace_last.value, tb.trace_armed.value = first, last & 0xFFFFFFFF, 1
