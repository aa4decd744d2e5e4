"""The turn to use a board's accelerator: one process at a time. A process that waits too long is told which one has it.

Processes on the board lock a file, which the kernel unlocks when its owner ends. `remote_turn` is for processes on other machines,
which can only read and write files of the board over the network.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from cnna.spec.errors import RunError, reason_of

MOST_BYTES = 1 << 16  # of the file: a line for people, and a token
LOOK_SECONDS = 0.02  # between two attempts to take the turn

Asked = TypeVar("Asked")


class Turn(Protocol):
    """A lock among processes.

    passed: after `take`, whether anybody else has had the turn since this object last had it. certain: whether it cannot be lost.
    """

    passed: bool
    certain: bool

    def take(self, who: str) -> bool:
        """Tries once. Returns whether this object has the turn now."""

    def check(self, sure: bool = False) -> None:
        """TurnLostError: another process has taken the turn from this object. sure: asks the board even if that takes long."""

    def give(self) -> None:
        """Gives the turn back."""

    def holder(self) -> str:
        """The name of the process that has the turn."""


class LocalTurn:
    """The turn of processes on one machine: a lock on a file, which names the process and object that have it or had it last."""

    certain = True

    def __init__(self, path: Path) -> None:
        self.path, self.passed = path, True
        self._file: int | None = None
        self._process = 0  # that has the turn
        self._token = uuid.uuid4().hex

    def take(self, who: str) -> bool:
        """Tries once, without waiting."""
        import fcntl

        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)  # Python's own files take longer than a run's host
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found, name = os.pread(file, MOST_BYTES, 0), f"{who}\n{self._token}".encode()
            self.passed = found.partition(b"\n")[2] != self._token.encode()
            if found != name:
                os.ftruncate(file, 0)
                os.pwrite(file, name, 0)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file, self._process = file, os.getpid()
        return True

    def check(self, sure: bool = False) -> None:
        """Never fails, because the kernel takes a lock from nobody."""

    def give(self) -> None:
        """Gives the turn back. A fork has the open file too: it cannot keep the lock, nor give back what its parent has."""
        import fcntl

        file, self._file = self._file, None
        assert file is not None
        if self._process == os.getpid():
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)

    def holder(self) -> str:
        """The name that the holder has given itself."""
        return self.path.read_text().partition("\n")[0] or "somebody"


class Turns:
    """Shares a turn among the threads of this process too. wait_seconds: how long `mine` waits by default.

    taken: called at the beginning of every turn. Its argument says whether another process or object has had a turn in between.
    """

    def __init__(self, turn: Turn, wait_seconds: float = 60.0) -> None:
        self.turn, self.wait_seconds = turn, wait_seconds
        self.taken: Callable[[bool], None] = lambda passed: None
        self._lock, self._who = threading.Lock(), ""
        self._thread: int | None = None  # the thread of this process that has the turn
        self._held = self._broken = False  # broken: that thread must end its turn

    @contextmanager
    def mine(self, what: str, wait_seconds: float | None = None) -> Iterator[None]:
        """Waits for the turn and keeps it for the block. RunError: the wait took too long, or this thread already has the turn."""
        if self.ours:  # it would wait for itself, for example for its own open stream
            raise RunError(f"this thread has the accelerator already: {self._who}; end or close its open stream first")
        limit = self.wait_seconds if wait_seconds is None else wait_seconds
        until = time.monotonic() + limit
        who = f"{describe_process()}, {what}"
        if not self._lock.acquire(timeout=limit):
            raise RunError(_busy(limit, self._who))
        try:
            self._who, self._thread = who, threading.get_ident()
            while not self._take(who):
                self.heed()
                if time.monotonic() > until:
                    raise RunError(_busy(limit, self.turn.holder()))
                time.sleep(LOOK_SECONDS)
            try:
                self._held = True
                self.taken(self.turn.passed)
                yield
            finally:
                self._held = False
                with suppress(Exception):  # if the board cannot be reached, nobody can wait for the turn either
                    self.turn.give()
        finally:
            self._thread, self._broken = None, False
            self._lock.release()

    def break_off(self, thread: int) -> None:
        """Ends the turn of a thread, or its wait for one, as Ctrl-C does in the main thread. Nothing happens if it has none."""
        self._broken = self._thread == thread

    def heed(self) -> None:
        """KeyboardInterrupt: this thread's turn was broken off. Whoever waits in a turn asks again and again."""
        if self._broken and self.ours:
            raise KeyboardInterrupt

    @property
    def ours(self) -> bool:
        """Whether this very thread has the turn."""
        return self._thread == threading.get_ident()

    @property
    def free(self) -> bool:
        """Whether no thread of this process has the turn, or waits for it at the board."""
        return not self._lock.locked()

    @property
    def certain(self) -> bool:
        """Whether a turn that was taken cannot be lost."""
        return self.turn.certain

    def check(self, sure: bool = False) -> None:
        """TurnLostError: this process has lost the turn that it took. Does nothing outside of `mine`.

        RunError: the board cannot be reached, so it is unknown who has the turn.
        """
        if self._held:
            self._asked(partial(self.turn.check, sure))

    def _take(self, who: str) -> bool:
        return self._asked(partial(self.turn.take, who))

    @staticmethod
    def _asked(ask: Callable[[], Asked]) -> Asked:
        try:
            return ask()
        except RunError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.filename:  # for example a file of another user
                raise RunError(f"the turn of the board cannot be taken: {error.filename}: {error.strerror}") from None
            raise RunError(f"the board cannot be reached: {reason_of(error)}") from None


def describe_process() -> str:
    """The name of this process, for the messages of others that wait for it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _busy(wait_seconds: float, holder: str) -> str:
    return f"the accelerator was busy for {wait_seconds:g} s: {holder} has it; wait for it, or end it"
