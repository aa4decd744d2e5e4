"""Whose turn it is to use a board's accelerator: one process at a time. A process that waits too long is told which one has it.

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
from typing import Any, Protocol, TypeVar

from cnna.spec.errors import RunError, reason_of

LOOK_SECONDS = 0.02  # between two looks at whether the turn is free

Asked = TypeVar("Asked")


class Turn(Protocol):
    """A lock among processes. `take` answers whether it has it now; `holder` says who has.

    `passed`: once it has been taken, whether anybody else has had it since this one had it last. `certain`: it cannot be lost.
    """

    passed: bool
    certain: bool

    def take(self, who: str) -> bool:
        """Tries once."""

    def check(self, sure: bool = False) -> None:
        """TurnLostError: it was taken, but another has it meanwhile. `sure`: whoever knows is asked, whatever it costs."""

    def give(self) -> None:
        """Lets the next one have it."""

    def holder(self) -> str:
        """Who has it, in words."""


class LocalTurn:
    """Of processes on one machine: a lock on a file, which says who has it or had it last, and by which object."""

    certain = True

    def __init__(self, path: Path) -> None:
        self.path, self.passed = path, True
        self._file: Any = None
        self._token = uuid.uuid4().hex

    def take(self, who: str) -> bool:
        """One try, without waiting."""
        import fcntl

        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self.passed = file.read().partition("\n")[2] != self._token
        file.seek(0)
        file.truncate()
        file.write(f"{who}\n{self._token}")
        file.flush()
        self._file = file
        return True

    def check(self, sure: bool = False) -> None:
        """The kernel takes it from nobody."""

    def give(self) -> None:
        """Closing the file unlocks it."""
        self._file.close()
        self._file = None

    def holder(self) -> str:
        """As it calls itself."""
        return self.path.read_text().partition("\n")[0] or "somebody"


class Turns:
    """Shares a turn among the threads of this process too. `patience_seconds` is how long `mine` waits by default.

    `taken` is called at the beginning of every turn; its argument says whether another process or object has had a turn since.
    """

    def __init__(self, turn: Turn, patience_seconds: float = 60.0) -> None:
        self.turn, self.patience_seconds = turn, patience_seconds
        self.taken: Callable[[bool], None] = lambda passed: None
        self._lock, self._who = threading.Lock(), ""
        self._thread: int | None = None  # of this process, which has it
        self._held = False

    @contextmanager
    def mine(self, what: str, patience_seconds: float | None = None) -> Iterator[None]:
        """Waits for the turn and keeps it for the block. RunError: it did not come in time, or this very thread has it."""
        if self.ours:  # for an open stream, say: only this thread could end it
            raise RunError(f"this thread has the accelerator already: {self._who}; end or close its open stream first, then go on")
        patience = self.patience_seconds if patience_seconds is None else patience_seconds
        until = time.monotonic() + patience
        who = f"{describe_process()}, {what}"
        if not self._lock.acquire(timeout=patience):
            raise RunError(_busy(patience, self._who))
        try:
            self._who, self._thread = who, threading.get_ident()
            while not self._take(who):
                if time.monotonic() > until:
                    raise RunError(_busy(patience, self.turn.holder()))
                time.sleep(LOOK_SECONDS)
            try:
                self._held = True
                self.taken(self.turn.passed)
                yield
            finally:
                self._held = False
                with suppress(Exception):  # a board that cannot be reached has nobody waiting
                    self.turn.give()
        finally:
            self._thread = None
            self._lock.release()

    @property
    def ours(self) -> bool:
        """Whether this very thread has it."""
        return self._thread == threading.get_ident()

    @property
    def certain(self) -> bool:
        """Whether a turn that was taken cannot be lost."""
        return self.turn.certain

    def check(self, sure: bool = False) -> None:
        """TurnLostError: this process has the turn no more, though it has not given it back. Nothing, outside of `mine`.

        RunError: nobody can say, since the board cannot be reached.
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
            if isinstance(error, OSError) and error.filename:  # a file of another user, say
                raise RunError(f"the turn of the board cannot be taken: {error.filename}: {error.strerror}") from None
            raise RunError(f"the board cannot be reached: {reason_of(error)}") from None


def describe_process() -> str:
    """This process, for whoever waits for it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _busy(patience_seconds: float, holder: str) -> str:
    return f"the accelerator was busy for {patience_seconds:g} s: {holder} has it; wait for it, or end it"
