"""Batches through an accelerator in ping-pong, for `session.Model`: while batch n runs, the host moves n - 1 out and n + 1 in.

Here is also what is done about a batch that fails: it is tried again where that may help, and else leaves the accelerator reset.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.device.accelerator import Accelerator
from cnna.spec.errors import RunError, TurnLostError

SLOTS = 2  # batches in memory: one runs while the host moves those before and after it

Ports = Mapping[str, NDArray[np.int8]]
Moved = TypeVar("Moved")


class _Batch:
    """One that was started: where it is in memory, whether it still runs, and its counters when it has ended."""

    def __init__(self, slot: int) -> None:
        self.slot, self.runs = slot, True
        self.counters: dict[str, int] = {}


class PingPong:
    """One model's accelerator, with SLOTS slots, for as long as its turn lasts. `retries`: how often a batch is tried again."""

    def __init__(self, board: BoardDevice, accelerator: Accelerator, retries: int) -> None:
        self.board, self.accelerator, self.retries = board, accelerator, retries
        accelerator.forget_registers()

    def run(self, batches: Iterable[Ports]) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """Answers and counters of each batch, in order. An exception, or the generator's end, leaves the accelerator idle."""
        running: _Batch | None = None
        try:
            for number, ports in enumerate(batches):
                slot, before = number % SLOTS, running
                self._beside(before, partial(self.accelerator.store_inputs, ports, slot))
                if before is not None:
                    self._finish(before)
                running = None
                running = _Batch(slot)  # before it is started: Ctrl-C may come between
                self._start(slot)
                if before is not None:
                    yield self._ours(self._beside(running, partial(self.accelerator.load_outputs, before.slot))), before.counters
            if running is not None:
                self._finish(running)
                yield self._ours(self.accelerator.load_outputs(running.slot)), running.counters
        except TurnLostError:
            self.board.doubt()
            raise
        finally:
            if running is not None and running.runs:
                self._stop()

    def _beside(self, running: _Batch | None, move: Callable[[], Moved]) -> Moved:
        """A copy of the host's beside a batch that runs. What that batch's end has broken off is done again after it."""
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
        """Answers as they are, if all that led to them was this process's doing. TurnLostError: perhaps it was not."""
        if not self.board.turns.certain:
            self.board.turns.check(sure=True)
        return answers

    def _stop(self) -> None:
        """A soft reset, unless the accelerator is another process's by now."""
        with suppress(TurnLostError):
            self.board.reset()

    def _start(self, slot: int) -> None:
        """Starts a batch. TurnLostError: another process has started one, though it is not its turn."""
        self.accelerator.set_registers(slot)
        if not self.board.turns.certain:
            self.board.check_idle()
        self.accelerator.start(slot)

    def _finish(self, batch: _Batch) -> None:
        """Waits for a batch, which is tried again where that may help. An error leaves the accelerator reset."""
        for attempt in range(self.retries + 1 if batch.runs else 0):
            try:
                self.accelerator.finish()
                if not self.board.turns.certain:
                    self.accelerator.check_registers()
                break
            except TurnLostError:
                batch.runs = False
                self._stop()
                raise
            except RunError as error:
                self._reset_after(error, batch)
                if attempt == self.retries:
                    raise
                self.accelerator.forget_registers()
                batch.runs = True
                self._start(batch.slot)
            except BaseException:  # Ctrl-C
                batch.runs = False
                self._stop()
                raise
        if batch.runs:
            batch.counters, batch.runs = self.accelerator.counters, False

    def _reset_after(self, error: RunError, batch: _Batch) -> None:
        """A soft reset; one that fails must not hide what came before it."""
        batch.runs = False
        try:
            self.board.reset()
        except RunError as stuck:
            raise type(error)(f"{error}; {stuck}") from None
