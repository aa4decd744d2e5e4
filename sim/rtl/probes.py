"""What the testbench saw inside the accelerator, read in the simulator's process: `probes.cpp` by ctypes."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

STORED = np.dtype([("clock", "<u4"), ("address", "<u4"), ("word", "u1", 16)])  # of the feature write log
PHASES = ("conv_started", "untouched", "state", "done_load", "done_vector", "done_store", "clocks")  # of a profile row
EVENTS = ("clock", "engine", "units")  # of a timeline row: engine's number in regmap.COUNTED
U64 = ctypes.c_uint64


def log(enable: bool) -> None:
    """Starts an empty log of feature memory writes, or ends it."""
    ctypes.CDLL(None).probe_log(int(enable))


def logged() -> NDArray[Any]:
    """The log so far, an array of STORED, in order of time."""
    return np.frombuffer(_bytes("probe_log_entries", STORED.itemsize), STORED)


def profile() -> list[list[int]]:
    """Clocks of the last program by what the engines were at: rows of PHASES."""
    return np.frombuffer(_bytes("probe_phases", 8 * len(PHASES)), "<u8").reshape(-1, len(PHASES)).tolist()


def timeline() -> list[list[int]]:
    """When each engine finished units, in clocks since the last start: rows of EVENTS."""
    return np.frombuffer(_bytes("probe_events", 8 * len(EVENTS)), "<u8").reshape(-1, len(EVENTS)).tolist()


def _bytes(function: str, item_bytes: int) -> bytes:
    entries: Any = getattr(ctypes.CDLL(None), function)
    entries.restype, entries.argtypes = ctypes.c_void_p, [ctypes.POINTER(U64)]
    count = U64()
    data = entries(ctypes.byref(count))
    return ctypes.string_at(data, count.value * item_bytes) if count.value else b""


def trace(tb: Any, first: int, last: int) -> None:
    """Has the testbench write the waveform of clocks first..last (-1: to the end), counted from the next start."""
    tb.trace_first.value, tb.trace_last.value, tb.trace_armed.value = first, last & 0xFFFFFFFF, 1
