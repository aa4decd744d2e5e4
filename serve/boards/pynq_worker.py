"""The worker of a PYNQ board: while one batch runs, it packs and copies the next ones, whichever models they are of.

A turn at the board begins with a batch. It ends when another command comes, or when no batch has come for IDLE_SECONDS, so that
others may use the board. This worker says more than others do: the board's configuration and the places in its queue of runs in
the answer to job 0, how long a batch may wait for its turn, and what the board's sensors show.
"""

import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import TypeGuard

from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.flight import NOT_YET, NotYet
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.messages import Command, RunCommand
from cnna.serve.boards.pynq_runner import Pynq
from cnna.serve.boards.runner import FaultyRunner
from cnna.serve.boards.slot import Slot
from cnna.serve.boards.worker import Worker, wanted_of
from cnna.serve.models.signature import Arrays
from cnna.spec.errors import CnnaError, UserError

IDLE_SECONDS = 0.5
END_SECONDS = 2.0  # for an end in order, after which others need not wait for the turn

Received = tuple[float, Command]  # when it came, of time.monotonic, and what the front has sent
ReceivedBatch = tuple[float, RunCommand]
END: Received = (0.0, {"job": 0, "do": "end", "key": ""})


class Commands(queue.SimpleQueue[Received]):
    """What the front has sent, in order. Any thread may put; one takes, and may put back."""

    def __init__(self) -> None:
        super().__init__()
        self._back: deque[Received] = deque()

    def taken(self, seconds: float | None = None) -> Received | None:
        """The next command; None: none has come for so long. Without `seconds` it waits."""
        if self._back:
            return self._back.popleft()
        try:
            return self.get(seconds is None or seconds > 0, seconds)
        except queue.Empty:
            return None

    def back(self, *commands: Received) -> None:
        """Lets these come next."""
        self._back.extendleft(reversed(commands))


class PynqWorker(Worker):
    """Opens the board when it serves."""

    def __init__(self, control: socket.socket, spec: BoardSpec, slots: list[Slot]) -> None:
        self._board = Pynq(spec)
        super().__init__(control, FaultyRunner(self._board), slots)
        self._commands: Commands = Commands()
        self._open: list[ReceivedBatch] = []  # batches that have no answer
        self._free = 0.0  # when the last answer was given

    def serve(self) -> None:
        """Answers until the socket ends. A board that cannot be opened is said in the answer to job 0."""
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._board.open()
        except Exception as error:
            self._say(self._failed(0, error))
            return
        self._say({"job": 0, "seconds": 0.0, "config": self._board.config, "places": self._board.device.places})
        threading.Thread(target=self._board.sense, daemon=True).start()
        while (command := self._commands.taken()) is not None and command is not END:
            if self._is_batch(command):
                self._commands.back(command)
                self._alternate()
            else:
                self._say(self._answer(*command))
        self._board.close()

    def _end(self) -> None:
        self._commands.put(END)
        time.sleep(END_SECONDS)
        os._exit(0)

    def _is_batch(self, command: Received) -> TypeGuard[ReceivedBatch]:
        """Whether this is a batch for the accelerator."""
        model = self._board.models.get(command[1]["key"]) if command[1]["do"] == "run" else None
        return model is not None and bool(model.accelerators)

    def _alternate(self) -> None:
        """Has a turn, for at least one batch. An error is the answer to the oldest batch; those behind it come again."""
        self._tell(waits=self._board.spec.turn_seconds)
        keys = [key for key, model in self._board.models.items() if model.accelerators]
        try:
            with closing(alternate([self._board.models[key] for key in keys], self._batches(keys))) as answers:
                for batch, outputs in answers:
                    self._answered(batch.tag, outputs, batch.flight.samples)
                    self._open.remove(batch.tag)
        except UserError:  # the data of one of them are at fault: each by itself
            for command in self._given_up():
                self._say(self._answer(*command))
        except Exception as error:
            self._commands.back(*self._given_up())  # without a turn, none was taken
            if (oldest := self._commands.taken(0.0)) is not None:
                self._say(self._failed(oldest[1]["job"], error))

    def _given_up(self) -> list[ReceivedBatch]:
        taken, self._open = self._open, []
        return taken

    def _batches(self, keys: list[str]) -> Iterator[BoardBatch | NotYet]:
        """What is to run, while the turn lasts."""
        self._tell(waits=0.0)
        self._free = time.monotonic()
        models = [self._board.models[key] for key in keys]
        while (command := self._commands.taken(0.0 if self._open else IDLE_SECONDS)) is not None or self._open:
            if command is None:
                yield NOT_YET
                continue
            if not self._is_batch(command):
                self._commands.back(command)
                return
            self._runner.before()
            self._open.append(command)
            try:
                key = command[1]["key"]
                plan = self._board.plan(key, wanted_of(command[1]))
                batch = BoardBatch.of(models, keys.index(key), self._inputs(command[1]), command, plan)
            except CnnaError as error:
                self._open.remove(command)
                self._say(self._failed(command[1]["job"], error))
                continue
            yield batch

    def _answered(self, command: ReceivedBatch, outputs: Arrays, samples: int) -> None:
        """Seconds are those in which the board had nothing before this batch to do."""
        began = max(command[0], self._free)
        made = self._board.rows(command[1]["key"], outputs, samples, wanted_of(command[1]))
        rows = self._runner.after(made, time.monotonic() - began)
        self._free = time.monotonic()
        self._say({**self._outputs(command[1], rows), **self._decoded(), "job": command[1]["job"], "seconds": self._free - began})
