"""The worker process of one board: reads commands from a socket, one JSON object a line, and answers each with one line.

{"job": 1, "do": "load", "key": "digits/3/tiny-b4", "path": ..., "golden": ...}     {"job": 1, "seconds": 0.2}
{"job": 2, "do": "run", "key": ..., "slot": 0, "bytes": 8192, "inputs": [...], "outputs_at": 4096}
                                                             {"job": 2, "seconds": 0.003, "outputs": [...]}
{"job": 3, "do": "unload", "key": ...}                        {"job": 3, "seconds": 0}

An error is {"job": 2, "error": "...", "user": true | false}. Job 0 is the worker's own start; its answer names the board's
configuration, where the board has one. Lines without a job may come at any time: {"said": "..."} is for the log, {"alive": true}
says that a long command goes on, {"waits": 20} that it waits so long at most for something else, {"sensors": {"watts": 9.5,
"celsius": 41.0}} what the board shows. It ends when the socket does, so no worker outlives its front.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from cnna.serve.boards.alternating import Alternating, Command, Commands
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.pynq_runner import Pynq
from cnna.serve.boards.runner import runner_for
from cnna.serve.boards.slot import Slot
from cnna.serve.models import golden
from cnna.serve.models.signature import Arrays, signature_of
from cnna.spec.artifact import load
from cnna.spec.errors import CnnaError, UserError

END: Command = {"do": "end"}
END_SECONDS = 2.0  # for the end in order of a board that others may wait for


class Worker:
    """Runs commands one after another, or two in overlap on a PYNQ board. A thread reads them, so that their time of arrival is
    known.
    """

    def __init__(self, control: socket.socket, spec: BoardSpec, slots: list[Slot]) -> None:
        self._control, self._spec, self._slots, self._saying = control, spec, slots, threading.Lock()
        self._commands = Commands()
        self._alternating: Alternating | None = None

    def serve(self) -> None:
        """Answers until the socket ends, and the process with it."""
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._open()
        except Exception as error:
            self._failed({"job": 0}, error)
            return
        while (command := self._commands.get()) is not None and command is not END:
            if self._alternating is not None and self._alternating.takes(command):
                self._commands.back(command)
                self._alternating.serve()
            else:
                self._answer(command)
        if self._alternating is not None:
            self._alternating.board.close()

    def _open(self) -> None:
        """Opens the board, and says that commands may come."""
        if self._spec.kind == "pynq":
            board = Pynq(self._spec)
            self._runner = runner_for(self._spec, self._tell, board)
            more = self._tell, self._inputs, self._answer, self._done, self._failed
            self._alternating = Alternating(board, self._runner, self._commands, *more)
            self._say({"job": 0, "seconds": 0.0, "config": board.config})
            threading.Thread(target=board.sense, args=(self._tell,), daemon=True).start()
        else:
            self._runner = runner_for(self._spec, self._tell)
            self._say({"job": 0, "seconds": 0.0})

    def _read(self) -> None:
        with self._control.makefile("rb") as lines:
            for line in lines:
                self._commands.put({**json.loads(line), "received": time.monotonic()})
        if self._alternating is not None:  # the front has gone; others may wait for the board
            self._commands.put(END)
            time.sleep(END_SECONDS)
        os._exit(0)  # the other thread may be in a batch, or hang

    def _say(self, answer: dict[str, Any]) -> None:
        with self._saying:
            self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _tell(self, **message: Any) -> None:
        self._say(message)

    def _answer(self, command: Command) -> None:
        """Any error is an answer: the front decides what becomes of the batch, and of this process."""
        try:
            started = time.monotonic()
            if command["do"] == "run":
                outputs = self._runner.run(command["key"], self._inputs(command), command["received"])
                self._done(command, outputs, time.monotonic() - started)
            else:
                getattr(self, f"_{command['do']}")(command)
                self._say({"job": command["job"], "seconds": time.monotonic() - started})
        except (BrokenPipeError, ConnectionResetError):  # the front has gone
            raise
        except Exception as error:
            self._failed(command, error)

    def _failed(self, command: Command, error: Exception) -> None:
        known = isinstance(error, CnnaError)
        said = str(error) if known else f"internal error: {type(error).__name__}: {error}"
        self._say({"job": command["job"], "error": said, "user": isinstance(error, UserError)})

    def _done(self, command: Command, outputs: Arrays, seconds: float) -> None:
        written = self._slots[command["slot"]].write({name: [y] for name, y in outputs.items()}, command["outputs_at"])
        self._say({"job": command["job"], "seconds": seconds, "outputs": written})

    def _inputs(self, command: Command) -> Arrays:
        slot = self._slots[command["slot"]]
        slot.fit(command["bytes"])
        return slot.read(command["inputs"])

    def _load(self, command: Command) -> None:
        known = {}
        if command["golden"] is not None:
            signature = signature_of(command["path"], load(command["path"]).manifest)
            known = golden.read(Path(command["golden"]), signature).inputs
        self._runner.load(command["key"], command["path"], known)

    def _unload(self, command: Command) -> None:
        self._runner.unload(command["key"])


def main() -> int:
    """`python -m cnna.serve.boards.worker '{"control": FD, "slots": [FD, ...], "board": {...}}'`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the front ends this one in order
    given = json.loads(sys.argv[1])
    control = socket.socket(fileno=given["control"])
    with suppress(BrokenPipeError, ConnectionResetError):  # the front has gone
        Worker(control, BoardSpec(**given["board"]), [Slot(file) for file in given["slots"]]).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
