"""The turn to use a board's accelerator: one process at a time. A process that waits too long is told which one has it.

Processes on the board lock a file, which the kernel unlocks when its owner ends. `remote_turn` is for processes on other machines,
which can only read and write files of the board over the network.
"""

import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cnna.spec.errors import RunError, reason_of

MOST_BYTES = 1 << 16  # of the file: a line for people, and a token
LOOK_SECONDS = 0.02  # between two attempts to take the turn
LOOK_AT_FILE_SECONDS = 1.0  # between two looks whether the turn's file has been removed


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
    """The turn of processes on one machine: a lock on a file, which names the process and object that have it or had it last.

    The file stays open between two turns, without the lock: opening it takes longer than the rest of a turn. file, name, seen: the
    open file; what it says after a turn of this object, for `who`; when somebody last looked whether the file is still there. The
    library takes a turn by these too (`host/model/at_once.py`).
    """

    certain = True

    def __init__(self, path: Path) -> None:
        import fcntl  # which another machine that reaches a board over the network may lack

        self._flock, self._lock, self._unlock = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN
        self.path, self.passed = path, True
        self.file: int | None = None
        self._closed: Callable[[], Any] = lambda: None  # closes the file
        self.seen = -LOOK_AT_FILE_SECONDS
        self._token = uuid.uuid4().hex
        self.who, self.name = "", b""

    def take(self, who: str) -> bool:
        """Tries once, without waiting."""
        if who != self.who:
            self.who, self.name = who, f"{who}\n{self._token}".encode()
        while True:
            file = self._opened()
            try:
                self._flock(file, self._lock)
                if self.is_there(file):
                    self._note(file)
                    return True
                self._close()  # somebody has removed or moved the file, and others lock another one of its name
            except BlockingIOError:
                return False
            except BaseException:
                self._flock(file, self._unlock)
                raise

    def check(self, sure: bool = False) -> None:
        """Never fails, because the kernel takes a lock from nobody."""

    def give(self) -> None:
        """Gives the turn back. A fork has none to give: what its parent has is the parent's."""
        if self.file is not None:
            self._flock(self.file, self._unlock)

    def is_there(self, file: int) -> bool:
        """Whether the file has still its name. A look takes as long as the rest of a turn, so there is one in a while."""
        now = time.monotonic()
        if now - self.seen < LOOK_AT_FILE_SECONDS:
            return True
        self.seen = now
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(file))
        except FileNotFoundError:
            return False

    def forget(self, file: int) -> None:
        """Closes a file, if it is still the one that is open; whoever else has it open keeps the lock."""
        if self.file == file:
            self._close()

    def _note(self, file: int) -> None:
        """Writes the holder's name, unless it stands there since the last turn."""
        name = self.name
        self.passed = False
        if os.pread(file, len(name) + 1, 0) != name:
            found = os.pread(file, MOST_BYTES, 0)
            self.passed = found.partition(b"\n")[2] != self._token.encode()
            os.ftruncate(file, 0)
            os.pwrite(file, name, 0)

    def _opened(self) -> int:
        if self.file is None:
            self.seen = -LOOK_AT_FILE_SECONDS
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._closed = closed = weakref.finalize(self, os.close, self.file)
            closed.atexit = False  # a run that goes on until the very end keeps its turn
            # A fork would keep the lock of a parent that is killed.
            os.register_at_fork(after_in_child=partial(_forget, weakref.ref(self), self.file))
        return self.file

    def _close(self) -> None:
        self._closed()
        self.file = None

    def holder(self) -> str:
        """The name that the holder has given itself, in the file that this object waits for; by its path there may be another."""
        return os.pread(self._opened(), MOST_BYTES, 0).decode(errors="replace").partition("\n")[0] or "somebody"


class Turns:
    """Shares a turn among the threads of this process too. wait_seconds: how long `mine` waits by default.

    taken: called at the beginning of every turn. Its argument says whether another process or object has had a turn in between.
    """

    def __init__(self, turn: Turn, wait_seconds: float = 60.0) -> None:
        self.turn, self.wait_seconds = turn, wait_seconds
        self.taken: Callable[[bool], None] = lambda passed: None
        self._lock, self._who = threading.Lock(), ""
        self._thread: int | None = None  # the thread of this process that has the turn
        self.held = self._broken = False  # held: at the board. broken: that thread must end its turn
        self._names: tuple[tuple[int, str], str] = ((0, ""), "")

    def mine(self, what: str, wait_seconds: float | None = None) -> "Mine":
        """Waits for the turn and keeps it for the block. RunError: the wait took too long, or this thread already has the turn."""
        return Mine(self, what, self.wait_seconds if wait_seconds is None else wait_seconds)

    def begin(self, what: str, limit: float) -> None:
        """Waits for the turn, which lasts until `end`; if this fails, there is none to end. RunError: as of `mine`."""
        left = limit if self._lock.acquire(False) else self._await_thread(limit)
        try:
            self._thread = threading.get_ident()
            who = self._who = self._named(what)
            if not self._take(who):
                self._await(who, limit, left)
            self.held = True
            self.taken(self.turn.passed)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Gives the turn back, for whoever began it: another thread may do so, because it may end the iterator of a stream."""
        try:
            if self.held:
                self.held = False
                self.turn.give()
        except Exception:  # if the board cannot be reached, nobody can wait for the turn either
            return
        finally:
            self._thread, self._broken = None, False
            self._lock.release()

    def enter(self) -> bool:
        """Marks the turn as this thread's, unless another one has it. Then the library asks for it at the board for one run.

        `adopt` follows where the library has kept the turn, and `leave` where it has not.
        """
        if not self._lock.acquire(False):
            return False
        self._thread = threading.get_ident()
        return True

    def leave(self) -> None:
        """The end of `enter`: the turn is nobody's."""
        self._thread, self._broken = None, False
        self._lock.release()

    def adopt(self) -> None:
        """Goes on with a turn that the library has kept, until `end`."""
        self.held = True

    def check_free(self) -> None:
        """RunError: this thread has the turn, and would wait for itself, for example for its own open stream."""
        if self._thread == threading.get_ident():
            raise RunError(f"this thread has the accelerator already: {self._who}; end or close its open stream first")

    def _await_thread(self, limit: float) -> float:
        """Waits until no other thread of this process has the turn. Returns what is left of the limit."""
        began = time.monotonic()
        if not self._lock.acquire(timeout=limit):
            raise RunError(_busy(limit, self._who))
        return limit - (time.monotonic() - began)

    def _await(self, who: str, limit: float, left: float) -> None:
        until = time.monotonic() + left
        while True:
            self.heed()
            if time.monotonic() > until:
                raise RunError(_busy(limit, self.turn.holder()))
            time.sleep(LOOK_SECONDS)
            if self._take(who):
                return

    def _named(self, what: str) -> str:
        """The name of this process and what it does, which are nearly always those of the last turn."""
        if self._names[0] != (key := (os.getpid(), what)):
            self._names = key, f"{describe_process()}, {what}"
        return self._names[1]

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
        if self.held:
            try:
                self.turn.check(sure)
            except Exception as error:
                raise self._said(error) from None

    def _take(self, who: str) -> bool:
        try:
            return self.turn.take(who)
        except Exception as error:
            raise self._said(error) from None

    @staticmethod
    def _said(error: Exception) -> RunError:
        """An error of a turn in words."""
        if isinstance(error, RunError):
            return error
        if isinstance(error, OSError) and error.filename:  # for example a file of another user
            return RunError(f"the turn of the board cannot be taken: {error.filename}: {error.strerror}")
        return RunError(f"the board cannot be reached: {reason_of(error)}")


class Mine:
    """The block of a turn: a `with` of its own, since one of a generator takes longer than the turn."""

    __slots__ = ("limit", "turns", "what")

    def __init__(self, turns: Turns, what: str, limit: float) -> None:
        self.turns, self.what, self.limit = turns, what, limit

    def __enter__(self) -> None:
        self.turns.check_free()
        self.turns.begin(self.what, self.limit)

    def __exit__(self, *raised: object) -> None:
        self.turns.end()


def _forget(turn: "weakref.ref[LocalTurn]", file: int) -> None:
    """In a fork: closes its copy of the turn's file."""
    if (found := turn()) is not None:
        found.forget(file)


def describe_process() -> str:
    """The name of this process, for the messages of others that wait for it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _busy(wait_seconds: float, holder: str) -> str:
    return f"the accelerator was busy for {wait_seconds:g} s: {holder} has it; wait for it, or end it"
