"""The worker process of one board: reads commands from a socket and answers each. `messages.py` says what they look like.

It ends when the socket does, so no worker outlives its front.
"""

import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cnna.host.model.detector import Settings, settings_of
from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.messages import Command, LoadCommand, Reply, RunCommand
from cnna.serve.boards.runner import FaultyRunner, runner_for
from cnna.serve.boards.slot import Slot
from cnna.serve.models import golden
from cnna.serve.models.answering import USUAL
from cnna.serve.models.signature import Arrays, signature_of
from cnna.serve.runtimes.interface import name_of
from cnna.spec.artifact import load
from cnna.spec.errors import CnnaError


class Worker:
    """Runs commands one after another. A thread reads them, so that a command's time of arrival is known."""

    def __init__(self, control: socket.socket, runner: FaultyRunner, slots: list[Slot]) -> None:
        self._control, self._runner, self._slots = control, runner, slots
        self._saying = threading.Lock()
        runner.tell_to(self._tell)
        self._commands: queue.SimpleQueue[tuple[float, Command]] = queue.SimpleQueue()

    def serve(self) -> None:
        """Answers until the socket ends, and the process with it."""
        threading.Thread(target=self._read, daemon=True).start()
        self._say({"job": 0, "seconds": 0.0})
        while True:
            self._say(self._answer(*self._commands.get()))

    def _read(self) -> None:
        with suppress(ConnectionResetError), self._control.makefile("rb") as lines:  # reset: answers that the front has not read
            for line in lines:
                self._commands.put((time.monotonic(), json.loads(line)))
        self._end()

    def _end(self) -> None:
        """The front has gone. The other thread may be in a batch, or hang."""
        os._exit(0)

    def _say(self, answer: Mapping[str, object]) -> None:
        with self._saying:
            self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _tell(self, **message: Any) -> None:
        """Says something beside the answers, a `Notice`, from any thread."""
        self._say(message)

    def _answer(self, received: float, command: Command) -> Reply:
        """Any error is an answer: the front decides what becomes of the batch, and of this process."""
        try:
            started = time.monotonic()
            more: Reply = getattr(self, f"_{command['do']}")(command, received)
            return {**more, "job": command["job"], "seconds": time.monotonic() - started}
        except Exception as error:
            return self._failed(command["job"], error)

    def _failed(self, job: int, error: Exception) -> Reply:
        if isinstance(error, CnnaError):
            return {"job": job, "error": str(error), "kind": name_of(error)}
        return {"job": job, "error": f"internal error: {type(error).__name__}: {error}", "kind": "RunError"}

    def _load(self, command: LoadCommand, received: float) -> Reply:
        known = {}
        if command["golden"] is not None:
            signature = signature_of(command["path"], load(command["path"]).manifest)
            known = golden.read(Path(command["golden"]), signature).inputs
        self._runner.load(command["key"], command["path"], known)
        return {}

    def _unload(self, command: Command, received: float) -> Reply:
        self._runner.unload(command["key"])
        return {}

    def _run(self, command: RunCommand, received: float) -> Reply:
        outputs = self._runner.run(command["key"], self._inputs(command), received, wanted_of(command))
        return {**self._outputs(command, outputs), **self._decoded()}

    def _decoded(self) -> Reply:
        """How long boxes took behind the last run, where they took any time."""
        seconds = self._runner.decode_seconds
        return {"decode_seconds": seconds} if seconds else {}

    def _inputs(self, command: RunCommand) -> Arrays:
        slot = self._slots[command["slot"]]
        slot.fit(command["bytes"])
        return slot.read(command["inputs"])

    def _outputs(self, command: RunCommand, outputs: Arrays) -> Reply:
        slot = self._slots[command["slot"]]
        return {"outputs": slot.write({name: [y] for name, y in outputs.items()}, command["outputs_at"])}


def wanted_of(command: RunCommand) -> Settings:
    """What counts as a detection, as the front says."""
    return settings_of(*command["detect"]) if "detect" in command else USUAL


def main() -> int:
    """`python -m cnna.serve.boards.worker '{"control": FD, "slots": [FD, ...], "board": {...}}'`."""
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C and systemd signal all processes; the front ends this one in order
        signal.signal(number, signal.SIG_IGN)
    given = json.loads(sys.argv[1])
    control = socket.socket(fileno=given["control"])
    spec, slots = BoardSpec(**given["board"]), [Slot(file) for file in given["slots"]]
    with suppress(BrokenPipeError, ConnectionResetError):  # the front has gone
        if spec.kind == "pynq":
            from cnna.serve.boards.pynq_worker import PynqWorker

            PynqWorker(control, spec, slots).serve()
        elif spec.kind == CPU:
            from cnna.serve.boards.cpu_worker import CpuWorker

            CpuWorker(control, spec, slots).serve()
        else:
            Worker(control, runner_for(spec), slots).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
