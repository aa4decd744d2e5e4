"""Ray's process on a host, kept until it ends or a signal comes. What it prints is kept back, and shown in one line if it fails."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cnna.spec.errors import RunError, UserError

JOIN_SECONDS, TRY_SECONDS = 60.0, 2.0  # for the head to be there, and between two looks
END_SECONDS = 30.0  # for Ray to end in order
TRIES = 4
STARTED = "Ray runtime started"  # what `ray start` prints when the host is in the cluster
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PLACE = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+\s+[A-Z]+ \S+ -- ")  # of a line of Ray's log
OWN = {"RAY_USAGE_STATS_ENABLED": "0"}  # Ray's own: no reports to its makers
Say = Callable[[str], None]


def reachable(address: str, seconds: float = TRY_SECONDS) -> bool:
    """Whether something listens at ADDRESS:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=seconds).close()
    except OSError:
        return False
    return True


def check_place(head: str | None, join: str | None, seconds: float = JOIN_SECONDS, say: Say = lambda line: None) -> None:
    """Waits for the head that is to be joined. UserError: none comes, or one is there where one should begin."""
    if head is not None:
        if reachable(head):
            raise UserError(f"--head {head}: something listens there already; give --join to join that cluster, or another port")
        return
    assert join is not None
    end, told = time.monotonic() + seconds, False
    while not reachable(join):
        if time.monotonic() > end:
            raise UserError(f"--join {join}: no cluster answers there after {seconds:g} s; start the first host with --head")
        if not told:
            say(f"waits for the head at {join}")
        told = True
        time.sleep(min(TRY_SECONDS, seconds))


class HostProcess:
    """A running command, and the last lines of what it has printed."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lines: deque[str] = deque(maxlen=40)
        self._stopped = False
        self.started = threading.Event()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **OWN},
            start_new_session=True,  # Ctrl-C reaches it by `stop` alone
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.append(PLACE.sub("", COLOUR.sub("", line)).strip())
                if STARTED in line:
                    self.started.set()

    def stop(self) -> None:
        """Asks it to end."""
        self._stopped = True
        self._process.terminate()

    def wait(self, on_start: Callable[[], None], seconds: float = END_SECONDS) -> str | None:
        """Returns when it has ended, with all that it has started: why it ended of itself; None: it was asked to."""
        told, asked = False, 0.0
        while self._process.poll() is None:
            if self.started.wait(0.2) and not told:
                on_start()
                told = True
            if self._stopped:
                asked = asked or time.monotonic()
                if time.monotonic() > asked + seconds:
                    break
            if told:
                time.sleep(0.2)
        self._end_group()
        return None if self._stopped else self._cause()

    def _end_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=2.0)

    def _cause(self) -> str:
        """What it said last, of an exception its last line."""
        last = next((line for line in reversed(self._lines) if line), "it said nothing")
        return f"{last[:200]} (exit code {self._process.returncode}; its logs are in /tmp/ray/session_latest/logs)"


def run_host(command: Sequence[str], ready: str, tries: int = TRIES, say: Say = lambda line: None) -> int:
    """Keeps the command running until SIGINT or SIGTERM; returns the exit code. RunError: it ended of itself.

    ready: is printed when the host is in the cluster. tries: Ray gives up after half a minute, too soon for a busy computer.
    """
    for left in reversed(range(tries)):
        process = HostProcess(command)
        with _ended_by_signals(process):
            cause = process.wait(lambda: print(ready, flush=True))
        if cause is None:
            return 0
        if process.started.is_set():
            raise RunError(f"the host has left the cluster: {cause}")
        if left:
            say(f"Ray did not start, and is started again: {cause}")
    raise RunError(f"Ray did not start: {cause}")


@contextmanager
def _ended_by_signals(process: HostProcess) -> Iterator[None]:
    """SIGINT and SIGTERM stop the process; afterwards they do what they did before."""
    before = {number: signal.signal(number, lambda *_: process.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)
