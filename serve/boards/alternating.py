"""The batches of a worker's PYNQ board: the next one is packed and copied while one runs, whichever models they are of.

A turn begins with a batch. It ends when another command comes, or no batch for IDLE_SECONDS, so that others may use the board.
"""

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from cnna.host.model.alternate import Batch, alternate
from cnna.host.model.flight import NOT_YET, NotYet
from cnna.serve.boards.pynq_runner import Pynq
from cnna.serve.boards.runner import Faults
from cnna.serve.models.signature import Arrays
from cnna.spec.errors import CnnaError, UserError

IDLE_SECONDS = 0.5

Command = dict[str, Any]  # as the front sent it, and `received`, of time.monotonic


class Commands:
    """What the front has sent, in order. Any thread may put; one gets, and may put back."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._back: deque[Command] = deque()

    def put(self, command: Command) -> None:
        """Adds a command."""
        self._queue.put(command)

    def get(self, seconds: float | None = None) -> Command | None:
        """The next command; None: none has come for so long. Without `seconds` it waits."""
        if self._back:
            return self._back.popleft()
        try:
            return self._queue.get(seconds is None or seconds > 0, seconds)
        except queue.Empty:
            return None

    def back(self, *commands: Command) -> None:
        """Lets these come next."""
        self._back.extendleft(reversed(commands))


class Alternating:
    """Answers `run` commands in overlap. read: the inputs of a command; answer: runs one by itself and answers it; done: answers it
    with outputs and seconds; failed: with an error.
    """

    def __init__(
        self,
        board: Pynq,
        faults: Faults,
        commands: Commands,
        tell: Callable[..., None],
        read: Callable[[Command], Arrays],
        answer: Callable[[Command], None],
        done: Callable[[Command, Arrays, float], None],
        failed: Callable[[Command, Exception], None],
    ) -> None:
        self.board, self._faults, self._commands, self._tell = board, faults, commands, tell
        self._read, self._answer, self._done, self._failed = read, answer, done, failed
        self._open: list[Command] = []
        self._free = 0.0  # when the last answer was given

    def takes(self, command: Command) -> bool:
        """Whether this is a batch for the accelerator."""
        model = self.board.models.get(command.get("key", "")) if command["do"] == "run" else None
        return model is not None and bool(model.accelerators)

    def serve(self) -> None:
        """Has a turn, for at least one batch. An error is the answer to the oldest batch; those behind it come again."""
        self._tell(waits=self.board.turn_seconds)
        keys = [key for key, model in self.board.models.items() if model.accelerators]
        try:
            with closing(alternate([self.board.models[key] for key in keys], self._batches(keys))) as answers:
                for batch, outputs in answers:
                    self._open.remove(batch.tag)
                    self._answered(batch.tag, outputs, batch.flight.samples)
        except UserError:  # the data of one of them are at fault: each by itself
            for command in self._taken():
                self._answer(command)
        except Exception as error:
            self._commands.back(*self._taken())  # without a turn, none was taken
            if (oldest := self._commands.get(0.0)) is not None:
                self._failed(oldest, error)

    def _taken(self) -> list[Command]:
        taken, self._open = self._open, []
        return taken

    def _batches(self, keys: list[str]) -> Iterator[Batch | NotYet]:
        """What is to run, while the turn lasts."""
        self._tell(waits=0.0)
        self._free = time.monotonic()
        models = [self.board.models[key] for key in keys]
        while (command := self._commands.get(0.0 if self._open else IDLE_SECONDS)) is not None or self._open:
            if command is None:
                yield NOT_YET
                continue
            if not self.takes(command):
                self._commands.back(command)
                return
            self._faults.before()
            try:
                batch = Batch.of(models, keys.index(command["key"]), self._read(command), command)
            except CnnaError as error:
                self._failed(command, error)
                continue
            self._open.append(command)
            yield batch

    def _answered(self, command: Command, outputs: Arrays, samples: int) -> None:
        """Seconds are those in which the board had nothing before this batch to do."""
        began = max(command["received"], self._free)
        rows = self._faults.after(self.board.rows(command["key"], outputs, samples), time.monotonic() - began)
        self._free = time.monotonic()
        self._done(command, rows, self._free - began)
