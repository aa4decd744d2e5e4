"""Runs jobs by the native run loop, in the place of `PingPong`: on a board whose registers and memory this process has mapped.

A thread of the library packs, starts, waits and unpacks. What a run needs besides stays here: turns, retries after a reset, and the
words of every error.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.run_wait import PROGRESS, late, standstill
from cnna.host.device.accelerator import Accelerator
from cnna.host.model.flight import NOT_YET, Asked, Job
from cnna.host.model.pingpong import SLOTS
from cnna.host.model.planned import Begun, PlannedJob
from cnna.host.native import library
from cnna.host.native.loop import FOREVER_SECONDS, NO_QUEUE, Input, Loop, Program, Queue, Registers
from cnna.host.native.tensors import described
from cnna.spec.errors import RunError
from cnna.spec.progress import counter_names
from cnna.spec.regmap import REGISTERS, offset

LOOK_SECONDS = 1e-3  # a wait for a run while the source of jobs has nothing yet
NOT_COUNTED: dict[str, int] = {}


def suits(board: BoardDevice, accelerators: Sequence[Accelerator]) -> bool:
    """Whether the library can run these programs: it is there, and registers and memory are this process's own."""
    mapped = board.register_words is not None and all(place is not None for one in accelerators for place in _memories(board, one))
    return library.native().calls is not None and mapped and board.turns.certain


def _memories(board: BoardDevice, one: Accelerator) -> Iterator[NDArray[np.uint8] | None]:
    """The bytes of every port, slot after slot, inputs first; None: this process has not mapped them."""
    manifest = one.piece.manifest
    for slot in range(one.slots):
        for port in (*manifest["inputs"], *manifest["outputs"]):
            yield board.mapped(one.place(port, slot), manifest["batch"] * port["image_bytes"])


class NativeRuns:
    """Programs of one model or of several, run in any number of turns, one after another. retries: how often a job is tried again.

    most: jobs that may be open before it hands out the answers of the oldest. By default as many as `jobs_of` allows: of one
    program one for each slot, and one that waits.
    The thread stays between two turns, in which it touches nothing, until `close`. After a failure, a turn begins a new one.
    """

    def __init__(self, board: BoardDevice, accelerators: Sequence[Accelerator], retries: int, most: int | None = None) -> None:
        self.board, self.accelerators, self.retries = board, accelerators, retries
        self._kept: Loop | None = None
        self._counters = [name.lower() for name in counter_names(board.config.ports)]
        self._most = most or (accelerators[0].slots + 1 if len(accelerators) == 1 else SLOTS)

    def run(self, jobs: "Iterable[Asked | PlannedJob]", counted: bool = True) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """As `PingPong.run`: answers and counters of each job, in order. Answers are real numbers, or int8 where a job wants it.

        counted: whether anybody wants the counters, which may be empty otherwise.
        """
        for accelerator in self.accelerators:
            accelerator.forget_registers()
        begun: deque[Begun] = deque()
        loop, most = self._loop(), self._most
        sound = False
        try:
            for job in jobs:
                if job is NOT_YET:
                    if not begun:
                        time.sleep(LOOK_SECONDS)
                    elif self._ended(loop, begun[0], LOOK_SECONDS):
                        yield self._answers(begun.popleft())
                    continue
                if job is not None:
                    begun.append(job.flight.plan.begin(loop, job) if isinstance(job, PlannedJob) else self._begin(loop, job))
                while begun and (job is None or len(begun) >= most):
                    if loop.wait(FOREVER_SECONDS) != library.OK:
                        self._wait(loop, begun[0])
                    yield self._answers(begun.popleft()) if counted else (begun.popleft()[1], NOT_COUNTED)
            while begun:
                self._wait(loop, begun[0])
                yield self._answers(begun.popleft())
            sound = True
        finally:
            left = bool(begun) or loop.busy  # Ctrl-C may come before a job that was handed over is noted
            if left or not sound:
                self.close()
            if left:  # one of them may be on the accelerator
                self.board.reset()

    def run_alone(self, job: PlannedJob) -> tuple[dict[str, Any], dict[str, int]]:
        """Answers and counters of one job, whose work this thread does itself for as long as nothing hinders it."""
        for accelerator in self.accelerators:
            accelerator.forget_registers()
        loop, sound = self._loop(), False
        try:
            begun, ended = job.flight.plan.run(loop, job)
            if not ended:
                self._wait(loop, begun)
            sound = True
        finally:
            if not sound:
                left = loop.busy
                self.close()
                if left:  # it may be on the accelerator
                    self.board.reset()
        return self._answers(begun)

    def go_on(self, begun: Begun) -> None:
        """Waits for a job that a call of the library has left to the thread, as `run_alone` does; if it fails, see there."""
        assert self._kept is not None
        self._wait(self._kept, begun)

    @property
    def loop(self) -> Loop | None:
        """The thread, if there is one."""
        return self._kept

    def figures(self, counters: Sequence[int]) -> dict[str, int]:
        """The counters of a job by name; none where the next job had ended before they were read."""
        return dict(zip(self._counters, counters, strict=True)) if any(counters) else NOT_COUNTED

    def close(self) -> None:
        """Ends the thread."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _loop(self) -> Loop:
        """The thread, if it is one of this process: no thread lives on in a fork.

        Where it has ended because the interpreter ends, it completes no job, so that a daemon thread waits until it is gone.
        """
        if self._kept is None or not self._kept.own:
            self._kept = self._open()
        return self._kept

    def _open(self) -> Loop:
        """A thread. Its waits have the limits of this turn."""
        words = self.board.register_words
        assert words is not None
        status, control = REGISTERS["STATUS"], REGISTERS["CTRL"]
        places = self.board.places
        queue = Queue(control.pack(queue=1), control.pack(live=1), offset("FINISHED"), places) if places else NO_QUEUE
        registers = Registers(
            words,
            offset("CTRL"),
            control.pack(start=1),
            offset("STATUS"),
            status.pack(done=1),
            status.pack(error=1),
            [offset(name) for name in counter_names(self.board.config.ports)],
            PROGRESS,
            self.board.interrupt.open(),
            control.pack(irq_enable=1),
            queue,
        )
        programs = [self._program(accelerator) for accelerator in self.accelerators]
        return Loop(registers, programs, self.board.timeout_seconds, self.board.limit_clocks, self.board.cache, self.board.threads)

    def _program(self, one: Accelerator) -> Program:
        manifest, ci = one.piece.manifest, one.piece.config.ci
        ports = len(manifest["inputs"]) + len(manifest["outputs"])
        memories = [memory for memory in _memories(self.board, one) if memory is not None]
        return Program(
            manifest["batch"],
            [described(port, ci) for port in manifest["inputs"]],
            [described(port, ci) for port in manifest["outputs"]],
            [[(offset(name), word) for name, word in one.words(slot).items()] for slot in range(one.slots)],
            [memories[slot * ports : (slot + 1) * ports] for slot in range(one.slots)],
        )

    def _begin(self, loop: Loop, job: Job) -> Begun:
        """Hands a job over, whose outputs are real numbers, but for those that it wants as int8."""
        manifest = self.accelerators[job.program].piece.manifest
        inputs = []
        for port in manifest["inputs"]:
            feed = job.ports[port["name"]]
            x, tensor = feed.x, feed.packing.tensor(feed.x)
            if tensor is None:  # a type that the library does not know
                x = feed.int8()
                tensor = feed.packing.tensor(x)
                assert tensor is not None
            inputs.append(Input(tensor, x, feed.packing.table))
        kinds = {port["name"]: np.int8 if port["name"] in job.whole else np.float32 for port in manifest["outputs"]}
        outputs = {port["name"]: np.empty((manifest["batch"], *port["shape"]), kinds[port["name"]]) for port in manifest["outputs"]}
        return job, outputs, loop.submit(job.program, inputs, list(outputs.values()))

    def _wait(self, loop: Loop, oldest: Begun) -> None:
        """Returns when the oldest job has ended; runs it again where that may help."""
        while not self._ended(loop, oldest, FOREVER_SECONDS):
            pass

    def _ended(self, loop: Loop, oldest: Begun, seconds: float) -> bool:
        """Whether the oldest job ends within some time. RunError: it failed for good, and the accelerator is reset.

        KeyboardInterrupt: as of `Turns.heed`.
        """
        code = loop.wait(seconds)
        attempts = 0
        while code not in (library.OK, library.EXPIRED):
            error = self._error(code, oldest[0])
            try:
                self.board.reset()
            except RunError as stuck:  # it must not hide the error before it
                raise type(error)(f"{error}; {stuck}") from None
            if attempts == self.retries:
                raise error
            attempts += 1
            loop.retry()
            while (code := loop.wait(FOREVER_SECONDS)) == library.EXPIRED:
                self.board.turns.heed()
        if code == library.EXPIRED:
            self.board.turns.heed()
        return code == library.OK

    def _error(self, code: int, job: Job | PlannedJob) -> RunError:
        """What happened to a job. DataError: its data cannot be converted. RunError: another image has been loaded meanwhile."""
        if code == library.NAN:
            job.int8()  # raises it, with the tensor's name
        if code == library.MEMORY:
            return RunError("no memory is left to pack a batch or to unpack its answer: end other programs, or use a smaller batch")
        self.board.check_same()  # a run that has no end, or a strange one, may be another design's
        accelerator = self.accelerators[job.program]
        accelerator.note_start()
        if code == library.STOPPED:
            return accelerator.stopped()
        clocks = self.board.read(offset("CYCLES"))
        if code == library.STANDSTILL:
            return standstill(self.board, self.board.timeout_seconds, clocks)
        assert code == library.LATE, f"a run ended with code {code}"
        return late(self.board, clocks, self.board.limit_clocks or 0)

    def _answers(self, begun: Begun) -> tuple[dict[str, Any], dict[str, int]]:
        return begun[1], self.figures(begun[2].tolist())
