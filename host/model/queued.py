"""Runs jobs as `PingPong` does, on an accelerator with a queue: those behind the one that runs are started before it has ended.

FINISHED says which have ended. An error stops the oldest that has not, and drops those behind it. After a reset it is started
again, and the others are queued behind it. docs/queue.md says what the accelerator does.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from cnna.host.board.board_device import BoardDevice
from cnna.host.device.accelerator import Accelerator, take_turn
from cnna.host.model.flight import NOT_YET, Asked, Job
from cnna.host.model.pingpong import END, SLOTS, Moved, PingPong, Run
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

MODULUS = 1 << 32  # of FINISHED


class Queued(PingPong):
    """As `PingPong`, in a turn that cannot be lost. most: jobs that may be open, at most one for each slot; by default as many as
    `jobs_of` allows.
    """

    def __init__(self, board: BoardDevice, accelerators: Sequence[Accelerator], retries: int, most: int | None = None) -> None:
        super().__init__(board, accelerators, retries)
        self._most = most or (accelerators[0].slots if len(accelerators) == 1 else SLOTS)
        self._open: deque[Run] = deque()  # in order; those that have ended and are not handed out come first
        self._jobs = dict.fromkeys(accelerators, 0)  # of each program, so far
        self._finished = 0  # FINISHED, when the ends of all runs so far were noted

    def run(self, jobs: Iterable[Asked], counted: bool = True) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """As of `PingPong`, but it asks for jobs until as many are open as there are slots. Counters that the next run has hidden
        are left out.
        """
        source, begun = iter(jobs), self._open
        begun.clear()
        try:
            while True:
                while begun and (len(begun) >= self._most or not begun[0].runs):
                    yield self._answers()
                job = self._next(source, begun[0] if begun else None)
                if isinstance(job, Job):
                    self._begin(job)
                elif job is NOT_YET:  # the oldest has ended, or failed
                    yield self._answers()
                else:
                    while begun:
                        yield self._answers()
                    if job is END:
                        break
        finally:
            if any(run.runs for run in begun):
                self._stop()

    def _answers(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The answers and counters of the oldest job, when it has ended."""
        oldest = self._open[0]
        self._finish(oldest)
        answers = self._beside(oldest, partial(oldest.accelerator.load_outputs, oldest.slot))
        self._open.popleft()
        return answers, oldest.counters

    def _begin(self, job: Job) -> None:
        """Brings a job's inputs and starts it, or queues it."""
        accelerator = self.accelerators[job.program]
        slot = self._jobs[accelerator] % accelerator.slots
        self._jobs[accelerator] += 1
        self._beside(self._open[0] if self._open else None, partial(accelerator.store_inputs, job.ports, slot))
        run = Run(accelerator, slot)
        first = not any(other.runs for other in self._open)
        self._open.append(run)  # before the start: Ctrl-C may come between the two
        self._put(run, first)

    def _put(self, run: Run, first: bool) -> None:
        """Starts a job on an idle accelerator, or queues it behind others. If an error has stopped these, it is dropped too."""
        take_turn(self.accelerators, run.accelerator)
        run.queued = not first
        if first:
            self._finished = self.board.read(offset("FINISHED"))
            run.accelerator.start(run.slot)
            return
        run.accelerator.queue(run.slot)

    def _beside(self, running: Run | None, move: Callable[[], Moved]) -> Moved:
        """As of `PingPong`: the error may have stopped any of the open jobs."""
        try:
            return move()
        except RunError:
            if running is None:
                raise
            for run in self._open:
                self._finish(run)
            return move()

    def _finish(self, run: Run) -> None:
        """Waits for the oldest job that runs; tries it again where that may help, with those behind it."""
        for attempt in range(self.retries + 1 if run.runs else 0):
            try:
                self._end(run)
                run.runs = False
                return
            except RunError as error:
                waiting = [other for other in self._open if other.runs and other is not run]
                for other in waiting:  # what was dropped is not to be reset for once more
                    other.runs = False
                self._reset_after(error, run)
                if attempt == self.retries:
                    raise
                for other in waiting:
                    other.runs = True
                run.runs = True
                for number, again in enumerate(other for other in self._open if other.runs):
                    again.accelerator.forget_registers()
                    self._put(again, number == 0)

    def _end(self, run: Run) -> None:
        """Waits for the end of a job and reads its counters. RunError: as of `Accelerator.finish`."""
        failed, run.failed = run.failed, None
        if failed is not None:
            raise failed
        run.accelerator.note_start()
        control = REGISTERS["CTRL"]
        if run.queued and not self._over():  # the counters of the one before it stand still
            self.board.write(offset("CTRL"), control.pack(irq_enable=1, live=1))
            self.board.wait(ended=self._over)
            self.board.write(offset("CTRL"), control.pack(irq_enable=1))
        else:
            self.board.wait(ended=self._over)
        if not self._ended():
            raise run.accelerator.stopped()
        counters = run.accelerator.read_counters()
        run.counters = counters if self._ended() == 1 and not self._stopped() else {}
        self.board.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1))
        self._finished = (self._finished + 1) % MODULUS

    def _over(self) -> bool:
        """Whether the oldest job has ended or was stopped."""
        return self._ended() > 0 or self._stopped()

    def _ended(self) -> int:
        """The jobs that have ended and are not noted. Where FINISHED went back, another image has been loaded: no job will end."""
        found = (self.board.read(offset("FINISHED")) - self._finished) % MODULUS
        return found if found <= len(self._open) else 0

    def _stopped(self) -> bool:
        return bool(REGISTERS["STATUS"].unpack(self.board.read(offset("STATUS")))["error"])

    def _wait(self, came: Callable[[], bool]) -> None:
        self.board.wait(came, self._over)
