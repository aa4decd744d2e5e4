"""The worker process of one board: reads commands from a socket, one JSON object a line, and answers each with one line.

{"job": 1, "do": "load", "key": "digits/3/tiny-b4", "path": ..., "golden": ...}     {"job": 1, "seconds": 0.2}
{"job": 2, "do": "run", "key": ..., "slot": 0, "bytes": 8192, "inputs": [...], "outputs_at": 4096}
                                                             {"job": 2, "seconds": 0.003, "outputs": [...]}
{"job": 3, "do": "unload", "key": ...}                        {"job": 3, "seconds": 0}

An error is {"job": 2, "error": "...", "kind": "DataError"}. It ends when the socket does, so no worker outlives its front.
Job 0 is the worker's own start. Lines without a job may come at any time: {"said": "..."} is for the log, {"alive": true} says that
a long command goes on. `pynq_worker` has more of them.
"""

import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.runner import FaultyRunner, runner_for
from cnna.serve.boards.slot import Slot
from cnna.serve.models import golden
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
        self._commands: queue.SimpleQueue[tuple[float, dict[str, Any]]] = queue.SimpleQueue()

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

    def _say(self, answer: dict[str, Any]) -> None:
        with self._saying:
            self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _tell(self, **message: Any) -> None:
        """Says something beside the answers, from any thread."""
        self._say(message)

    def _answer(self, received: float, command: dict[str, Any]) -> dict[str, Any]:
        """Any error is an answer: the front decides what becomes of the batch, and of this process."""
        try:
            started = time.monotonic()
            more = getattr(self, f"_{command['do']}")(command, received)
            return {"job": command["job"], "seconds": time.monotonic() - started, **more}
        except Exception as error:
            return self._failed(command, error)

    def _failed(self, command: dict[str, Any], error: Exception) -> dict[str, Any]:
        if isinstance(error, CnnaError):
            return {"job": command["job"], "error": str(error), "kind": name_of(error)}
        return {"job": command["job"], "error": f"internal error: {type(error).__name__}: {error}", "kind": "RunError"}

    def _load(self, command: dict[str, Any], received: float) -> dict[str, Any]:
        known = {}
        if command["golden"] is not None:
            signature = signature_of(command["path"], load(command["path"]).manifest)
            known = golden.read(Path(command["golden"]), signature).inputs
        self._runner.load(command["key"], command["path"], known)
        return {}

    def _unload(self, command: dict[str, Any], received: float) -> dict[str, Any]:
        self._runner.unload(command["key"])
        return {}

    def _run(self, command: dict[str, Any], received: float) -> dict[str, Any]:
        return self._outputs(command, self._runner.run(command["key"], self._inputs(command), received))

    def _inputs(self, command: dict[str, Any]) -> Arrays:
        slot = self._slots[command["slot"]]
        slot.fit(command["bytes"])
        return slot.read(command["inputs"])

    def _outputs(self, command: dict[str, Any], outputs: Arrays) -> dict[str, Any]:
        slot = self._slots[command["slot"]]
        return {"outputs": slot.write({name: [y] for name, y in outputs.items()}, command["outputs_at"])}


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
