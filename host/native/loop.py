"""The native run loop from Python: a thread of the library that packs, starts, waits and unpacks, run after run.

The thread gives codes; whoever uses a `Loop` forms the words, resets the accelerator and lets it go on, as
`host/model/native_runs.py` does.
"""

import ctypes
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.cache import Cache, CacheCall
from cnna.host.native.library import CPort, CTensor
from cnna.host.native.tensors import TYPES
from cnna.spec.errors import RunError

FOREVER_SECONDS = 0.1  # a wait of the library, after which Python looks whether somebody has pressed Ctrl-C


class CWrite(ctypes.Structure):
    """cnna_write."""

    _fields_ = (("offset", c_uint32), ("word", c_uint32))


class CProgram(ctypes.Structure):
    """cnna_program."""

    _fields_ = (
        *((name, c_int64) for name in ("images", "inputs", "outputs", "slots", "writes")),
        *((name, POINTER(CPort)) for name in ("in_ports", "out_ports")),
        *((name, c_void_p) for name in ("words", "memories")),
    )


class CDevice(ctypes.Structure):
    """cnna_device, with its cnna_cache."""

    _fields_ = (
        ("registers", c_void_p),
        *((name, c_int64) for name in ("programs", "counters", "progress")),
        *((name, c_void_p) for name in ("program", "counter_offsets", "progress_offsets")),
        *((name, c_uint32) for name in ("ctrl", "start", "status", "done", "error")),
        ("uio", c_int32),
        ("limit_clocks", c_int64),
        ("timeout_seconds", c_double),
        *((name, CacheCall) for name in ("clean", "invalidate")),
        ("context", c_void_p),
    )


class CJob(ctypes.Structure):
    """cnna_job."""

    _fields_ = (
        ("program", c_int64),
        *((name, c_void_p) for name in ("inputs", "tables", "outputs", "types", "elements", "counters")),
    )


@dataclass(frozen=True, eq=False)
class Program:
    """One program on the accelerator. words: of each slot, register offsets and words. memories: of each slot, the dense bytes of
    each input port and then of each output port.
    """

    images: int
    inputs: Sequence[CPort]
    outputs: Sequence[CPort]
    words: Sequence[Sequence[tuple[int, int]]]
    memories: Sequence[Sequence[NDArray[np.uint8]]]


@dataclass(frozen=True, eq=False)
class Registers:
    """The registers and what their bits mean: byte offsets and masks. uio: a file descriptor, which the loop closes, or -1."""

    array: NDArray[np.uint32]
    ctrl: int
    start: int
    status: int
    done: int
    error: int
    counters: Sequence[int]
    progress: Sequence[int]
    uio: int = -1


class Input(NamedTuple):
    """What an input port gets: the samples, and the array that holds them; the table of uint8, or None."""

    tensor: CTensor
    array: NDArray[Any]
    table: NDArray[np.int8] | None


class Loop:
    """The thread and its jobs. It touches the accelerator only while there are jobs. `close` ends it; a job that runs goes on.

    MemoryError: there is no memory, or no thread left. RunError, of `submit` and `wait`: in a fork.
    """

    def __init__(
        self,
        registers: Registers,
        programs: Sequence[Program],
        timeout_seconds: float,
        limit_clocks: int | None,
        cache: Cache | None = None,
    ) -> None:
        self._calls, self._registers, self._process = library.native().calls, registers, os.getpid()
        self._kept: list[Any] = []  # memory that the library points to
        c_programs = [self._c_program(program) for program in programs]
        device = CDevice(
            registers.array.ctypes.data,
            *(len(programs), len(registers.counters), len(registers.progress)),
            ctypes.cast(self._keep((CProgram * len(programs))(*c_programs)), c_void_p),
            *(self._numbers(offsets) for offsets in (registers.counters, registers.progress)),
            *(registers.ctrl, registers.start, registers.status, registers.done, registers.error, registers.uio),
            *(limit_clocks or 0, timeout_seconds),
        )
        if cache is not None:
            device.clean, device.invalidate = (self._keep(call) for call in cache.for_loop())
        self._handle = c_void_p()
        try:
            library.check(self._calls.cnna_loop_open(byref(device), byref(self._handle)), "starting the run loop")
        except BaseException:
            _close_file(registers.uio)
            raise
        self._jobs: list[Any] = []  # arrays of jobs that have not ended
        self._ended = c_int64()
        self._ended_with = weakref.finalize(self, _close, self._calls, self._handle, self._process, registers.uio)
        self.taken = 0  # jobs whose end `wait` has returned

    def submit(self, program: int, inputs: Sequence[Input], outputs: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """Appends a job, which fills the outputs, dense float32 or int8 [images, C, H, W], and the counters that this returns."""
        self._check_process()
        counters = np.zeros(len(self._registers.counters), np.uint32)
        tensors = (CTensor * len(inputs))(*(given.tensor for given in inputs))
        tables = _addresses([given.table for given in inputs])
        places, elements = _addresses(outputs), (c_size_t * len(outputs))(*(y.size for y in outputs))
        types = (c_int64 * len(outputs))(*(TYPES[y.dtype.name] for y in outputs))
        arrays = (ctypes.addressof(array) for array in (tensors, tables, places, types, elements))
        job = CJob(program, *arrays, counters.ctypes.data)
        self._jobs.append((inputs, outputs, counters))
        library.check(self._calls.cnna_loop_submit(self._handle, byref(job)), "handing over a run")
        return counters

    def wait(self, seconds: float = FOREVER_SECONDS) -> int:
        """The code of the oldest job that has not been waited for: OK, EXPIRED (it has not ended), or that of its failure."""
        self._check_process()
        code = int(self._calls.cnna_loop_wait(self._handle, self.taken, seconds, byref(self._ended)))
        if code == library.OK:
            self.taken += 1
            self._jobs.pop(0)
        return code

    def retry(self) -> None:
        """Runs the job that has failed again; the accelerator must be idle."""
        library.check(self._calls.cnna_loop_retry(self._handle), "running again")

    @property
    def alive(self) -> bool:
        """Whether its thread is there: a process that was forked has none, nor one whose interpreter ends."""
        return self._ended_with.alive and os.getpid() == self._process

    def _check_process(self) -> None:
        """RunError: this process is a fork, which would wait for a thread that only its parent has."""
        if os.getpid() != self._process:
            raise RunError("the runs belong to the process that this one was forked from: open the session here again")

    def close(self) -> None:
        """Ends the thread."""
        if self.alive:
            self._ended_with()
        self._handle = c_void_p()

    def _c_program(self, program: Program) -> CProgram:
        words = [CWrite(*word) for slot in program.words for word in slot]
        memories = [memory.ctypes.data for slot in program.memories for memory in slot]
        self._keep(program)
        return CProgram(
            *(program.images, len(program.inputs), len(program.outputs), len(program.words), len(program.words[0])),
            *(self._keep((CPort * len(ports))(*ports)) for ports in (program.inputs, program.outputs)),
            ctypes.addressof(self._keep((CWrite * len(words))(*words))),
            ctypes.addressof(self._keep((c_void_p * len(memories))(*memories))),
        )

    def _numbers(self, offsets: Sequence[int]) -> int:
        return int(ctypes.addressof(self._keep((c_uint32 * len(offsets))(*offsets))))

    def _keep(self, made: Any) -> Any:
        self._kept.append(made)
        return made


def _close(calls: Any, handle: c_void_p, process: int, uio: int) -> None:
    """Ends the thread of a loop, at the interpreter's exit at the latest."""
    if os.getpid() == process:
        calls.cnna_loop_close(handle)
        _close_file(uio)


def _close_file(uio: int) -> None:
    if uio >= 0:
        with suppress(OSError):  # of a device that is gone
            os.close(uio)


def _addresses(arrays: Sequence[NDArray[Any] | None]) -> Any:
    return (c_void_p * len(arrays))(*(None if array is None else array.ctypes.data for array in arrays))
