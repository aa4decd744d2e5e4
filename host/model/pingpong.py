"""Runs jobs in ping-pong for `BoardModel`: while job n runs, the host fetches outputs of n - 1 and brings inputs of n + 1.

A job is a run of one of the model's programs. A job that fails is tried again where that may help. If it fails for good, the
accelerator is reset. The programs may be those of several models (`alternate`), which then share a turn.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.run_wait import pause_seconds
from cnna.host.device.accelerator import Accelerator, take_turn
from cnna.host.model.flight import NOT_YET, Asked
from cnna.spec.errors import RunError, TurnLostError

SLOTS = 2  # jobs in memory: one runs while the host moves those before and after it

Moved = TypeVar("Moved")


def slots_of(board: BoardDevice) -> int:
    """The slots of a program on a board: with a queue, one runs and all others may wait."""
    return max(SLOTS, 1 + board.places)


class _End(Enum):
    END = "no more jobs"


END: Final = _End.END


class Run:
    """A job that was started: its program, its slot, whether it still runs and, once it has ended, its counters.

    failed: the error of a wait for its end that nobody has seen yet. queued: whether it was queued behind another.
    """

    def __init__(self, accelerator: Accelerator, slot: int) -> None:
        self.accelerator, self.slot, self.runs, self.queued = accelerator, slot, True, False
        self.counters: dict[str, int] = {}
        self.failed: RunError | None = None

    def finish(self) -> None:
        """As of Accelerator, unless a wait has failed already."""
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed
        self.accelerator.finish()


class PingPong:
    """Programs of one model or of several, with SLOTS slots each, for one turn. retries: how often a job is tried again."""

    def __init__(self, board: BoardDevice, accelerators: Sequence[Accelerator], retries: int) -> None:
        self.board, self.accelerators, self.retries = board, accelerators, retries
        self._forget_registers()

    def run(self, jobs: Iterable[Asked], counted: bool = True) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """The answers and counters of each job, in order. An exception, or the generator's end, leaves the accelerator idle.

        counted: as of `NativeRuns`; counters come in any case.
        It asks for a job's inputs once the job before it runs and the answers of the one before that are handed out. If it gets
        None instead of a job, it hands out the answers of the last job first. If it gets NOT_YET, it asks again and again, and
        hands out the answers of the last job as soon as that has ended.
        """
        running: Run | None = None
        source = iter(jobs)
        try:
            for number in itertools.count():
                job = self._next(source, running)
                if job is END:
                    break
                if job is NOT_YET:  # the job before it has ended, or failed
                    job = None
                slot, before = number % SLOTS, running
                if job is not None:
                    accelerator = self.accelerators[job.program]
                    self._beside(before, partial(accelerator.store_inputs, job.ports, slot))
                if before is not None:
                    self._finish(before)
                running = None
                if job is not None:
                    running = Run(accelerator, slot)  # set before the start: Ctrl-C may come between the two
                    self._start(running)
                if before is not None:
                    load = partial(before.accelerator.load_outputs, before.slot)
                    yield self._ours(self._beside(running, load)), before.counters
            if running is not None:
                self._finish(running)
                yield self._ours(running.accelerator.load_outputs(running.slot)), running.counters
        except TurnLostError:
            self.board.doubt()
            raise
        finally:
            if running is not None and running.runs:
                self._stop()

    def _next(self, source: Iterator[Asked], running: Run | None) -> Asked | _End:
        """What the source says next. NOT_YET: it still has nothing, and the job that runs has ended, or failed."""
        found: list[Asked | _End] = []
        broken: list[BaseException] = []

        def came() -> bool:
            try:
                if not (found or broken) and (job := next(source, END)) is not NOT_YET:
                    found.append(job)
            except BaseException as error:  # the source's own, which says nothing of the accelerator
                broken.append(error)
            return bool(found or broken)

        began = time.monotonic()
        while not came():
            if running is None:
                time.sleep(pause_seconds(time.monotonic() - began))
                continue
            try:
                self._wait(came)
            except TurnLostError:
                raise
            except RunError as error:  # `_finish` tries the job again
                running.failed = error
            break
        if broken:
            raise broken[0]
        return found[0] if found else NOT_YET

    def _wait(self, came: Callable[[], bool]) -> None:
        """Returns when the job that runs has ended, or `came` holds. RunError: as of `BoardDevice.wait`."""
        self.board.wait(came)

    def _forget_registers(self) -> None:
        for accelerator in self.accelerators:
            accelerator.forget_registers()

    def _beside(self, running: Run | None, move: Callable[[], Moved]) -> Moved:
        """Copies data while a batch runs. If the end of that batch has broken off the copy, it copies again afterwards."""
        try:
            return move()
        except TurnLostError:
            raise
        except RunError:
            if running is None:
                raise
            self._finish(running)
            return move()

    def _ours(self, answers: dict[str, Any]) -> dict[str, Any]:
        """Returns the answers if only this process can have caused them. TurnLostError: another process may have taken part."""
        if not self.board.turns.certain:
            self.board.turns.check(sure=True)
        return answers

    def _stop(self) -> None:
        """Resets the accelerator, unless it belongs to another process by now."""
        with suppress(TurnLostError):
            self.board.reset()

    def _start(self, run: Run) -> None:
        """Starts a job. TurnLostError: another process has started one, although it does not have the turn."""
        take_turn(self.accelerators, run.accelerator)
        run.accelerator.set_registers(run.slot)
        if not self.board.turns.certain:
            self.board.check_idle()
        run.accelerator.start(run.slot)

    def _finish(self, run: Run) -> None:
        """Waits for a job, and tries it again where that may help. After an error it leaves the accelerator reset."""
        for attempt in range(self.retries + 1 if run.runs else 0):
            try:
                run.finish()
                if not self.board.turns.certain:
                    run.accelerator.check_registers()
                break
            except TurnLostError:
                run.runs = False
                self._stop()
                raise
            except RunError as error:
                self._reset_after(error, run)
                if attempt == self.retries:
                    raise
                run.accelerator.forget_registers()
                run.runs = True
                self._start(run)
            except BaseException:  # Ctrl-C
                run.runs = False
                self._stop()
                raise
        if run.runs:
            run.counters, run.runs = run.accelerator.counters, False

    def _reset_after(self, error: RunError, run: Run) -> None:
        """Resets the accelerator. A reset that fails must not hide the error before it."""
        run.runs = False
        try:
            self.board.reset()
        except RunError as stuck:
            raise type(error)(f"{error}; {stuck}") from None
