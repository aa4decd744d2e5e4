"""The native run loop from Python: a thread of the library that packs, starts, waits and unpacks, run after run.

The thread gives codes; whoever uses a `Loop` forms the words, resets the accelerator and lets it go on, as
`host/model/native_runs.py` does.
"""

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from functools import partial
from os import getpid
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.cache import Cache, CacheCall
from cnna.host.native.library import CDetector, CPort, CTensor
from cnna.host.native.tensors import TYPES
from cnna.spec.errors import RunError

ROWS = 8  # of counters: more than jobs that may be open, so that those of a job that has ended stay until the next is handed over
MOST_THREADS = 4  # that pack a picture together: a board has as many cores
BAND_BYTES = 1 << 14  # for which a thread is woken: packing so many takes as long as that
FOREVER_SECONDS = 0.1  # a wait of the library, after which Python looks whether somebody has pressed Ctrl-C


def packing_threads() -> int:
    """How many threads pack a run together, by default: as many as this process may use cores, up to MOST_THREADS."""
    return min(len(os.sched_getaffinity(0)), MOST_THREADS)


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
        *((name, c_uint32) for name in ("keep", "queue", "live", "finished", "places")),
        ("uio", c_int32),
        *((name, c_int64) for name in ("threads", "band_bytes")),
        ("limit_clocks", c_int64),
        ("timeout_seconds", c_double),
        *((name, CacheCall) for name in ("clean", "invalidate")),
        ("context", c_void_p),
    )


class CJob(ctypes.Structure):
    """cnna_job."""

    _fields_ = (
        ("program", c_int64),
        *((name, c_void_p) for name in ("inputs", "tables", "outputs", "types", "elements", "counters", "softmax", "detector")),
    )


class CTurn(ctypes.Structure):
    """cnna_turn."""

    _fields_ = (
        *((name, c_int32) for name in ("file", "kept")),
        ("holder", c_void_p),
        *((name, c_int64) for name in ("holder_bytes", "registers")),
        ("held", c_void_p),
    )


class Arrays:
    """The C arrays of a job. The library copies them when the job is handed over, so one may serve for many jobs.

    tensors, places: what changes from job to job, the inputs and the addresses of the outputs. detector: whose
    detections the outputs are.
    """

    def __init__(
        self,
        tensors: Sequence[CTensor],
        tables: Sequence[NDArray[np.int8] | None],
        places: Sequence[int],
        types: Sequence[str],
        elements: Sequence[int],
        softmax: Sequence[int] = (),
        detector: CDetector | None = None,
    ) -> None:
        self.tensors, self.places = (CTensor * len(tensors))(*tensors), (c_void_p * len(places))(*places)
        self._kept = (
            tables,
            (c_void_p * len(tables))(*(None if table is None else table.ctypes.data for table in tables)),
            # of detections, types say nothing
            (c_int64 * len(types))(*(TYPES.get(name, 0) for name in types)),
            (c_size_t * len(elements))(*elements),
            (c_int64 * len(elements))(*(softmax or [0] * len(elements))),
        )
        _, tables_at, types_at, elements_at, softmax_at = (ctypes.addressof(one) for one in (self.tensors, *self._kept[1:]))
        self.job = CJob(
            *(0, ctypes.addressof(self.tensors), tables_at, ctypes.addressof(self.places)),
            *(types_at, elements_at, None, softmax_at, None if detector is None else ctypes.addressof(detector)),
        )
        self.detector = detector
        self.reference = byref(self.job)


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


class Queue(NamedTuple):
    """The queue of an accelerator: bits of CTRL that queue a start and show the run itself; where FINISHED is; starts that may be
    pending.
    """

    queue: int = 0
    live: int = 0
    finished: int = 0
    places: int = 0


NO_QUEUE = Queue()


@dataclass(frozen=True, eq=False)
class Registers:
    """The registers and what their bits mean: byte offsets and masks. uio: a file descriptor, which the loop closes, or -1.

    start: the bit of CTRL; keep: what stays set beside it.
    """

    array: NDArray[np.uint32]
    ctrl: int
    start: int
    status: int
    done: int
    error: int
    counters: Sequence[int]
    progress: Sequence[int]
    uio: int = -1
    keep: int = 0
    queue: Queue = NO_QUEUE


class Input(NamedTuple):
    """What an input port gets: the samples, and the array that holds them; the table of uint8, or None."""

    tensor: CTensor
    array: NDArray[Any]
    table: NDArray[np.int8] | None


class Loop:
    """The thread and its jobs. It touches the accelerator only while there are jobs. `close` ends it; a job that runs goes on.

    threads: that pack a run together, this one among them.
    MemoryError: there is no memory, or no thread left. RunError, of `submit` and `wait`: in a fork.
    """

    def __init__(
        self,
        registers: Registers,
        programs: Sequence[Program],
        timeout_seconds: float,
        limit_clocks: int | None,
        cache: Cache | None = None,
        threads: int = 1,
    ) -> None:
        self._calls, self._registers, self._process = library.native().calls, registers, getpid()
        self._kept: list[Any] = []  # memory that the library points to
        c_programs = [self._c_program(program) for program in programs]
        device = CDevice(
            registers.array.ctypes.data,
            *(len(programs), len(registers.counters), len(registers.progress)),
            ctypes.cast(self._keep((CProgram * len(programs))(*c_programs)), c_void_p),
            *(self._numbers(offsets) for offsets in (registers.counters, registers.progress)),
            *(registers.ctrl, registers.start, registers.status, registers.done, registers.error),
            *(registers.keep, *registers.queue, registers.uio),
            *(threads, BAND_BYTES, limit_clocks or 0, timeout_seconds),
        )
        if cache is not None:
            device.clean, device.invalidate = (self._keep(call) for call in cache.for_loop())
        self._handle = c_void_p()
        try:
            library.check(self._calls.cnna_loop_open(byref(device), byref(self._handle)), "starting the run loop")
        except BaseException:
            _close_file(registers.uio)
            raise
        self._jobs: deque[Any] = deque()  # arrays of jobs that have not ended
        self.counters = len(registers.counters)  # of a job
        counters = np.zeros((ROWS, self.counters), np.uint32)
        self._counters = [(row, row.ctypes.data) for row in counters]
        self._given = 0  # jobs that were handed over
        self._seen, self._ended, self._seconds = c_int64(), c_int64(), c_double()
        self._wait_for = partial(_bare(self._calls, "cnna_loop_wait"), self._handle, self._seen, self._seconds, byref(self._ended))
        self._submit = partial(_bare(self._calls, "cnna_loop_submit"), self._handle)
        self._run = partial(_bare(self._calls, "cnna_loop_run"), self._handle)
        self._run_in_turn = partial(_bare(self._calls, "cnna_loop_run_in_turn"), self._handle)
        self._slice = c_double(FOREVER_SECONDS)
        # at the interpreter's exit it is ended, but not freed: a daemon thread may still wait for it
        self._freed = weakref.finalize(self, _free, self._calls, self._handle, self._process)
        self._freed.atexit = False
        self._stopped = weakref.finalize(self, _stop, self._calls, self._handle, self._process, registers.uio)
        self.taken = 0  # jobs whose end `wait` has returned

    def submit(self, program: int, inputs: Sequence[Input], outputs: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """Appends a job, which fills the outputs, dense float32 or int8 [images, C, H, W], and the counters that this returns.

        The counters are those of this job until the next one is handed over after its end. With a queue they are all 0 where the
        next run had ended before they were read.
        """
        arrays = Arrays(
            [given.tensor for given in inputs],
            [given.table for given in inputs],
            *([y.ctypes.data for y in outputs], [y.dtype.name for y in outputs], [y.size for y in outputs]),
        )
        return self.submit_arrays(program, arrays, (inputs, outputs))

    def submit_arrays(self, program: int, arrays: Arrays, kept: Any) -> NDArray[np.uint32]:
        """As `submit`. kept: what holds the memory of the inputs and outputs."""
        if getpid() != self._process:
            self._refuse()
        row = self._noted(program, arrays, kept)
        if code := self._submit(arrays.reference):
            self._refused(code)
        return row

    def run_arrays(self, program: int, arrays: Arrays, kept: Any) -> tuple[NDArray[np.uint32], bool]:
        """As `submit_arrays`, but this thread does the job's work, if no other is open. True: it has ended, and is taken.

        After FOREVER_SECONDS, or where it fails, it is as if it had been submitted: `wait` says how it goes on.
        """
        if getpid() != self._process:
            self._refuse()
        row = self._noted(program, arrays, kept)
        code = self._run(arrays.reference, self._slice)
        if code == library.OK:
            self.taken += 1
            self._jobs.pop()
            return row, True
        if code != library.EXPIRED:
            self._refused(code)
        return row, False

    def in_turn(self, arrays: Arrays, turn: CTurn) -> Callable[[], int]:
        """A call that runs a job as `run_arrays` does, in a turn that it takes for itself, and returns the library's code.

        Whoever calls it counts `taken` where a job has ended, and says `left` where one goes on. After `close` it is always busy.
        """
        return partial(self._run_in_turn, arrays.reference, byref(turn), self._slice)

    def left(self, kept: Any) -> None:
        """Notes a job that such a call has left to the thread. kept: what holds its memory."""
        self._jobs.append(kept)

    def _refused(self, code: int) -> None:
        """Takes back the job that was noted last; those before it go on."""
        self._jobs.pop()
        library.check(code, "handing over a run")

    def _noted(self, program: int, arrays: Arrays, kept: Any) -> NDArray[np.uint32]:
        """The counters of a job that is handed over next."""
        row, address = self._counters[self._given % ROWS]
        self._given += 1
        job = arrays.job
        job.program, job.counters = program, address
        self._jobs.append(kept)
        return row

    def wait(self, seconds: float = FOREVER_SECONDS) -> int:
        """The code of the oldest job that has not been waited for: OK, EXPIRED (it has not ended), or that of its failure."""
        if getpid() != self._process:
            self._refuse()
        if self._ended.value <= self.taken:  # the last wait has not seen its end
            self._seen.value, self._seconds.value = self.taken, seconds
            code: int = self._wait_for()
            if code != library.OK:
                return code
        self.taken += 1
        self._jobs.popleft()
        return library.OK

    def retry(self) -> None:
        """Runs the job that has failed again; the accelerator must be idle."""
        library.check(self._calls.cnna_loop_retry(self._handle), "running again")

    @property
    def alive(self) -> bool:
        """Whether its thread is there: a process that was forked has none, nor one whose interpreter ends."""
        return self._stopped.alive and self.own

    @property
    def own(self) -> bool:
        """Whether this process has opened it."""
        return getpid() == self._process

    @property
    def busy(self) -> bool:
        """Whether a job was handed over whose end `wait` has not returned: it may be on the accelerator."""
        return bool(self._jobs)

    @staticmethod
    def _refuse() -> NoReturn:
        """RunError: this process is a fork, which would wait for a thread that only its parent has."""
        raise RunError("the runs belong to the process that this one was forked from: open the session here again")

    def close(self) -> None:
        """Ends the thread."""
        if self.alive:
            self._stopped()
            self._freed()
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


def _stop(calls: Any, handle: c_void_p, process: int, uio: int) -> None:
    """Ends the thread of a loop, at the interpreter's exit at the latest."""
    if getpid() == process:
        if handle:  # not freed yet
            calls.cnna_loop_stop(handle)
        _close_file(uio)


def _free(calls: Any, handle: c_void_p, process: int) -> None:
    """Frees a loop whose thread has ended."""
    if getpid() == process:
        calls.cnna_loop_close(handle)
        handle.value = None


def _close_file(uio: int) -> None:
    if uio >= 0:
        with suppress(OSError):  # of a device that is gone
            os.close(uio)


def _bare(calls: Any, name: str) -> Any:
    """A function of the library that takes ctypes objects as they are: it converts nothing, so it is quicker."""
    function = calls[name]
    function.restype = c_int32
    return function
