"""Loads the native host library, and says why numpy does its work where it cannot be loaded.

The library has C's door (`cnna_host.h`); ctypes calls it, without Python's lock, so that several threads convert at once.
"""

import ctypes
import platform
import struct
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cnna.host.native.build import FOLDER, NAME, digest, sources

OK, NAN, BOUNDS, ARGUMENT, MEMORY, STOPPED, STANDSTILL, LATE, EXPIRED, BUSY = range(10)  # codes of cnna_host.h
UINT8, INT8, FLOAT32 = range(3)  # its types
HEAD_BYTES = 64  # of an ELF file
PROCESSORS = {40: "armv7l", 62: "x86_64", 183: "aarch64"}  # by its number there
REMEDY = "pip builds it where g++ is installed: apt install g++, then install cnna again"


class CTensor(ctypes.Structure):
    """cnna_tensor: [images, channels, rows, columns], strides in bytes."""

    _fields_ = (("data", c_void_p), ("type", c_int64), ("size", c_int64 * 4), ("stride", c_int64 * 4))


class CPort(ctypes.Structure):
    """cnna_port: where the words of a program's port lie, and what a folded pixel holds."""

    _fields_ = (
        *((name, c_int64) for name in ("ci", "image_bytes", "block_bytes", "row_bytes")),
        ("folded", c_int64 * 3),
        *((name, c_int64 * 2) for name in ("step", "span", "before")),
        ("zero", c_int64),
        ("scale", c_float),
    )


class CNumber(ctypes.Structure):
    """cnna_number: how a number of a box follows from integers."""

    _fields_ = (
        *((name, c_int64) for name in ("head", "channel", "bins", "table")),
        *((name, c_float) for name in ("base", "down", "across", "factor")),
    )


class CGrid(ctypes.Structure):
    """cnna_grid: the boxes of one map."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "columns", "first", "down", "across")),
        *((name, c_int64 * 3) for name in ("classes", "objectness")),
        ("box", CNumber * 4),
    )


class CHeads(ctypes.Structure):
    """cnna_heads: a detector."""

    _fields_ = (
        *((name, c_int64) for name in ("labels", "centre", "scores", "heads", "tables", "grids")),
        *((name, c_void_p) for name in ("channels", "cells", "table")),
        ("grid", POINTER(CGrid)),
        ("edge", c_int64 * 2),
    )


class CHead(ctypes.Structure):
    """cnna_head: where a head tensor is."""

    _fields_ = (("data", c_void_p), ("word", c_int64), ("block", c_int64))


class CWanted(ctypes.Structure):
    """cnna_wanted: which detections count."""

    _fields_ = (*((name, c_float) for name in ("least", "overlap")), *((name, c_int64) for name in ("best", "candidates", "most")))


class CRows(ctypes.Structure):
    """cnna_rows: where the model's own output goes."""

    _fields_ = (
        *((name, c_void_p) for name in ("box", "score")),
        *((f"{which}_{name}", c_int64) for which in ("box", "score") for name in ("row", "number", "elements")),
        *((name, c_int64) for name in ("boxes", "centred")),
        ("order", c_int64 * 4),
        ("scale", c_float * 4),
    )


class CDetector(ctypes.Structure):
    """cnna_detector: detections in place of outputs."""

    _fields_ = (("heads", POINTER(CHeads)), ("wanted", POINTER(CWanted)), ("ports", POINTER(c_int64)))


SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cnna_pack": (POINTER(CPort), POINTER(CTensor), c_void_p, c_int64, c_void_p, c_size_t),
    "cnna_packer_open": (POINTER(CPort), POINTER(c_void_p)),
    "cnna_packer_pack": (c_void_p, POINTER(CTensor), c_void_p, c_int64, c_void_p, c_size_t),
    "cnna_packer_close": (c_void_p,),
    "cnna_unpack": (POINTER(CPort), c_void_p, c_size_t, c_int64, c_int64, c_void_p, c_size_t),
    "cnna_softmax": (c_void_p, c_size_t, c_size_t, c_void_p),
    "cnna_argmax": (c_void_p, c_size_t, c_size_t, c_void_p),
    "cnna_top_k": (c_void_p, c_size_t, c_size_t, c_size_t, c_void_p, c_void_p),
    "cnna_resize": (c_void_p, *(c_int64,) * 5, c_void_p, *(c_int64,) * 3),
    "cnna_detect": (POINTER(CHeads), c_void_p, POINTER(CWanted), c_void_p, c_void_p, c_void_p, POINTER(c_int64)),
    "cnna_model_rows": (POINTER(CHeads), c_void_p, POINTER(CRows)),
    "cnna_suppress": (c_void_p, c_size_t, c_float, c_void_p, POINTER(c_size_t)),
    "cnna_loop_open": (c_void_p, POINTER(c_void_p)),
    "cnna_loop_submit": (c_void_p, c_void_p),
    "cnna_loop_run": (c_void_p, c_void_p, c_double),
    "cnna_loop_run_in_turn": (c_void_p, c_void_p, c_void_p, c_double),
    "cnna_loop_wait": (c_void_p, c_int64, c_double, POINTER(c_int64)),
    "cnna_loop_retry": (c_void_p,),
    "cnna_loop_stop": (c_void_p,),
    "cnna_loop_close": (c_void_p,),
    "cnna_cache_line": (),
    "cnna_cache_clean": (c_void_p, c_void_p, c_size_t),
    "cnna_cache_invalidate": (c_void_p, c_void_p, c_size_t),
}


@dataclass(frozen=True)
class Found:
    """The library, or why there is none. calls: ctypes' object; None: numpy does the work."""

    calls: Any
    why: str

    def __str__(self) -> str:
        """For `cnna doctor`."""
        return self.why if self.calls is None else f"the native host library, for {platform.machine()}"


@cache
def native() -> Found:
    """The library beside this file, loaded once; checked against the sources beside it."""
    if not (file := FOLDER / NAME).exists():
        return Found(None, f"numpy: there is no native library; {REMEDY}")
    return opened(file)


def opened(path: Path) -> Found:
    """A library file. One of another processor, or of other sources than those beside this module, is not used."""
    try:
        _check_file(path)
        calls = ctypes.CDLL(str(path))
        calls.cnna_host_sources.restype = c_char_p
        built = calls.cnna_host_sources().decode()
    except (OSError, AttributeError) as error:
        return Found(None, f"numpy: {path.name} cannot be loaded ({error}); {REMEDY}")
    if sources() and built != digest():
        return Found(None, f"numpy: {path.name} was built from other sources than those beside it; install cnna again")
    for name, arguments in SIGNATURES.items():
        call = getattr(calls, name)
        call.argtypes, call.restype = arguments, c_int
    return Found(calls, "")


def _check_file(path: Path) -> None:
    """OSError: an ELF file is of another processor, for which the loader says that it is not there; or it is cut off at its end.

    The loader maps such a file nevertheless, and the process dies of SIGBUS.
    """
    head, own = (_head(file) for file in (path, Path("/proc/self/exe")))
    if len(head) < HEAD_BYTES or not head.startswith(b"\x7fELF"):
        return  # the loader says it
    long, order = head[4] == 2, "<" if head[5] == 1 else ">"
    (kind,), (ours,) = (struct.unpack_from(order + "H", found, 18) for found in (head, own))
    if kind != ours:
        raise OSError(f"{path} is for {PROCESSORS.get(kind, 'another processor')}, and this is {PROCESSORS.get(ours, 'another')}")
    (sections,) = struct.unpack_from(order + ("Q" if long else "I"), head, 40 if long else 32)
    each, count = struct.unpack_from(order + "2H", head, 58 if long else 46)
    if (whole := sections + each * count) > (size := path.stat().st_size):
        raise OSError(f"{path} is cut off: it has {size:,} of {whole:,} bytes")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def check(code: int, doing: str) -> None:
    """MemoryError, or AssertionError for what a manifest that was checked and an array of its shape cannot cause."""
    if code == MEMORY:
        raise MemoryError(f"{doing}: no memory is left")
    assert code == OK, f"{doing}: code {code}"
