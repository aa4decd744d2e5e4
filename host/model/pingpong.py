"""Runs jobs in ping-pong for `BoardModel`: while job n runs, the host fetches outputs of n - 1 and brings inputs of n + 1.

A job is a run of one of the model's programs. A job that fails is tried again where that may help. If it fails for good, the
accelerator is reset.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from cnna.host.board.board_device import BoardDevice
from cnna.host.device.accelerator import Accelerator, take_turn
from cnna.host.model.flight import Job
from cnna.spec.errors import RunError, TurnLostError

SLOTS = 2  # jobs in memory: one runs while the host moves those before and after it

Moved = TypeVar("Moved")


class _Run:
    """A job that was started: its program, its slot, whether it still runs and, once it has ended, its counters."""

    def __init__(self, accelerator: Accelerator, slot: int) -> None:
        self.accelerator, self.slot, self.runs = accelerator, slot, True
        self.counters: dict[str, int] = {}


class PingPong:
    """The programs of one model, with SLOTS slots each, for one turn. retries: how often a job is tried again."""

    def __init__(self, board: BoardDevice, accelerators: Sequence[Accelerator], retries: int) -> None:
        self.board, self.accelerators, self.retries = board, accelerators, retries
        self._forget_registers()

    def run(self, jobs: Iterable[Job | None]) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """The answers and counters of each job, in order. An exception, or the generator's end, leaves the accelerator idle.

        It asks for a job's inputs once the job before it runs and the answers of the one before that are handed out. If it gets
        None instead of a job, it hands out the answers of the last job first.
        """
        running: _Run | None = None
        try:
            for number, job in enumerate(jobs):
                slot, before = number % SLOTS, running
                if job is not None:
                    accelerator = self.accelerators[job.program]
                    self._beside(before, partial(accelerator.store_inputs, job.ports, slot))
                if before is not None:
                    self._finish(before)
                running = None
                if job is not None:
                    running = _Run(accelerator, slot)  # set before the start: Ctrl-C may come between the two
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

    def _forget_registers(self) -> None:
        for accelerator in self.accelerators:
            accelerator.forget_registers()

    def _beside(self, running: _Run | None, move: Callable[[], Moved]) -> Moved:
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

    def _start(self, run: _Run) -> None:
        """Starts a job. TurnLostError: another process has started one, although it does not have the turn."""
        take_turn(self.accelerators, run.accelerator)
        run.accelerator.set_registers(run.slot)
        if not self.board.turns.certain:
            self.board.check_idle()
        run.accelerator.start(run.slot)

    def _finish(self, run: _Run) -> None:
        """Waits for a job, and tries it again where that may help. After an error it leaves the accelerator reset."""
        for attempt in range(self.retries + 1 if run.runs else 0):
            try:
                run.accelerator.finish()
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

    def _reset_after(self, error: RunError, run: _Run) -> None:
        """Resets the accelerator. A reset that fails must not hide the error before it."""
        run.runs = False
        try:
            self.board.reset()
        except RunError as stuck:
            raise type(error)(f"{error}; {stuck}") from None
