"""Runs a simulator in a process of its own, for `cosim.py`, and talks to its server (`server.py`) over a socket.

A request is a JSON line, and so is its answer. Before the answer, lines with `clocks` and `seconds` may report progress.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from cnna.sim.rtl.build import Say
from cnna.sim.rtl.cache import NO_CODE_FROM_HERE
from cnna.sim.rtl.lifetime import SIGNALLED
from cnna.spec.errors import RunError

START_SECONDS = 300  # how long a start of the simulator may take on a busy machine
STOP_SECONDS = 30  # on a busy machine the rest of a waveform takes a while to write
LOG_LINES = 15  # number of lines of the simulator's output that an error shows
REPORT_SECONDS = 2.0
TRACE = "trace.fst"  # the waveform, in the folder of the run
TRACE_ARGUMENT = "cnna_trace"  # the plusarg that names it, as the top of the testbench reads it

ClockCount = Callable[[int], None]  # takes the clocks since the simulation began


class DiedError(RunError):
    """A signal has ended the simulator."""

    def __init__(self, number: int, message: str = "") -> None:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        super().__init__(message or f"the simulator has died of {name}")
        self.number = number


class Simulator:
    """A running simulator, until `close`. build: the folder of its program. run: the folder of its log and waveform.

    RunError: it does not start; DiedError: because of a signal.
    """

    def __init__(self, build: Path, run: Path, traced: bool, say: Say, count: ClockCount | None = None) -> None:
        self._run, self._say, self._count = run, say, count
        path = run / "socket"
        path.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "cnna.sim.rtl.runner",
            "run",
            str(build),
            str(run),
            "cnna.sim.server",
            f"+cnna_socket={path}",
        ]
        if traced:
            command.append(f"+{TRACE_ARGUMENT}={run / TRACE}")
        self._connection: socket.socket | None = None
        with socket.socket(socket.AF_UNIX) as listener, (run / "simulator.log").open("w") as log:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(0.2)
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | NO_CODE_FROM_HERE,
            )
            try:
                self.connect(listener)
                self._answer()
            except BaseException:
                self.close()
                raise

    def ask(self, do: str, **arguments: Any) -> Any:
        """Sends one request to the server and returns the answer. RunError: the answer is an error. DiedError: a signal."""
        if self._connection is None:
            raise RunError("the simulator is closed")
        try:
            self._connection.sendall(json.dumps({"do": do, **arguments}).encode() + b"\n")
            return self._answer()
        except (BrokenPipeError, ConnectionResetError):
            raise self._dead("the simulator has died") from None

    def close(self) -> None:
        """Ends the simulator. It ends by itself when the connection closes; otherwise it is killed with all its children."""
        timeout = STOP_SECONDS if self._connection is not None else 0
        if self._connection is not None:
            self._lines.close()
            self._connection.close()
            self._connection = None
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def connect(self, listener: socket.socket) -> None:
        """Waits until the server connects. RunError: it does not."""
        until = time.monotonic() + START_SECONDS
        while self._connection is None:
            try:
                self._connection = listener.accept()[0]
                self._connection.settimeout(None)
                self._lines = self._connection.makefile("r")
            except TimeoutError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise self._dead("the simulator did not start") from None

    def _answer(self) -> Any:
        try:
            return answer_of(self._lines, self._say, self._count)
        except EOFError:
            raise self._dead("the simulator has died") from None

    def _dead(self, what: str) -> RunError:
        """The error of a simulator that has ended, or does not answer: of the signal, or with the end of its log."""
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            code = 0
        return DiedError(code - SIGNALLED) if code > SIGNALLED else RunError(f"{what}:\n{self._tail()}")

    def _tail(self) -> str:
        try:
            return "\n".join((self._run / "simulator.log").read_text(errors="replace").splitlines()[-LOG_LINES:])
        except OSError:
            return ""


def answer_of(lines: TextIO, say: Say, count: ClockCount | None) -> Any:
    """The value of the server's next answer; what it reports before goes to `count` or, now and then, to `say`.

    RunError: the answer is an error. EOFError: there is none.
    """
    told = time.monotonic()
    while line := lines.readline():
        message = json.loads(line)
        if "error" in message:
            raise RunError(message["error"])
        if "value" in message:
            return message["value"]
        if count:
            count(message["total"])
        elif time.monotonic() - told > REPORT_SECONDS:
            told = time.monotonic()
            rate = message["clocks"] / message["seconds"]
            say(f"simulating: {message['clocks']:,} clocks in {message['seconds']:.0f} s, {rate:,.0f} clocks/s")
    raise EOFError
