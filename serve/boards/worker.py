"""The worker process of one board: reads commands from a socket, one JSON object a line, and answers each with one line.

{"job": 1, "do": "load", "key": "digits/3/tiny-b4", "path": ..., "golden": ...}     {"job": 1, "seconds": 0.2}
{"job": 2, "do": "run", "key": ..., "slot": 0, "bytes": 8192, "inputs": [...], "outputs_at": 4096}
                                                             {"job": 2, "seconds": 0.003, "outputs": [...]}
{"job": 3, "do": "unload", "key": ...}                        {"job": 3, "seconds": 0}

An error is {"job": 2, "error": "...", "kind": "DataError"}. It ends when the socket does, so no worker outlives its front.
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
from cnna.serve.boards.runner import Faults, runner_for
from cnna.serve.boards.slot import Slot
from cnna.serve.models import golden
from cnna.serve.models.signature import signature_of
from cnna.serve.runtimes.interface import name_of
from cnna.spec.artifact import load
from cnna.spec.errors import CnnaError


class Worker:
    """Runs commands one after another. A thread reads them, so that a command's time of arrival is known."""

    def __init__(self, control: socket.socket, runner: Faults, slots: list[Slot]) -> None:
        self._control, self._runner, self._slots = control, runner, slots
        self._commands: queue.SimpleQueue[tuple[float, dict[str, Any]]] = queue.SimpleQueue()

    def serve(self) -> None:
        """Answers until the socket ends, and the process with it."""
        threading.Thread(target=self._read, daemon=True).start()
        self._say({"job": 0, "seconds": 0.0})
        while True:
            self._say(self._answer(*self._commands.get()))

    def _read(self) -> None:
        with self._control.makefile("rb") as lines:
            for line in lines:
                self._commands.put((time.monotonic(), json.loads(line)))
        os._exit(0)  # the front has gone; the other thread may be in a batch, or hang

    def _say(self, answer: dict[str, Any]) -> None:
        self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, received: float, command: dict[str, Any]) -> dict[str, Any]:
        """Any error is an answer: the front decides what becomes of the batch, and of this process."""
        try:
            started = time.monotonic()
            more = getattr(self, f"_{command['do']}")(command, received)
            return {"job": command["job"], "seconds": time.monotonic() - started, **more}
        except CnnaError as error:
            return {"job": command["job"], "error": str(error), "kind": name_of(error)}
        except Exception as error:
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
        slot = self._slots[command["slot"]]
        slot.fit(command["bytes"])
        outputs = self._runner.run(command["key"], slot.read(command["inputs"]), received)
        return {"outputs": slot.write({name: [y] for name, y in outputs.items()}, command["outputs_at"])}


def main() -> int:
    """`python -m cnna.serve.boards.worker '{"control": FD, "slots": [FD, ...], "board": {...}}'`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the front ends this one in order
    given = json.loads(sys.argv[1])
    control = socket.socket(fileno=given["control"])
    spec, slots = BoardSpec(**given["board"]), [Slot(file) for file in given["slots"]]
    with suppress(BrokenPipeError, ConnectionResetError):  # the front has gone
        if spec.kind == CPU:
            from cnna.serve.boards.cpu_worker import CpuWorker

            CpuWorker(control, spec, slots).serve()
        else:
            Worker(control, runner_for(spec), slots).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
