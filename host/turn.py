"""Who may use a board's accelerator now: one process at a time, and whoever waits too long is told who has it.

On the board itself a locked file says so, which the kernel unlocks when its process ends. A process elsewhere has only the board's
files to write and read, over the network: it writes who it is, waits longer than such a write takes, and looks whether that still
stands there (Fischer's algorithm). While it holds the turn it writes again and again; a holder that does not has died.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from cnna.host.errors import RunError, reason_of

LOOK_SECONDS = 0.02  # between two looks at whether the turn is free
SETTLE_SECONDS = 0.05  # that a write to a board's file may take
BEAT_SECONDS, DEAD_SECONDS = 1.0, 5.0


class Turn(Protocol):
    """A lock among processes. `take` answers whether it has it now; `holder` says who has.

    `passed`: once it has been taken, whether anybody else has had it since this one had it last.
    """

    passed: bool

    def take(self, who: str) -> bool:
        """Tries once."""

    def give(self) -> None:
        """Lets the next one have it."""

    def holder(self) -> str:
        """Who has it, in words."""


class LocalTurn:
    """Of processes on one machine: a lock on a file, which says who has it or had it last, and by which object."""

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

    def give(self) -> None:
        """Closing the file unlocks it."""
        self._file.close()
        self._file = None

    def holder(self) -> str:
        """As it calls itself."""
        return self.path.read_text().partition("\n")[0] or "somebody"


class RemoteTurn:
    """Of processes that reach the board over the network. `files` has pynq's read_file, write_file and exists_file."""

    def __init__(self, files: Any, path: str) -> None:
        self.files, self.path, self.passed = files, path, True
        self._token, self._who, self._beats = uuid.uuid4().hex, "", 0
        self._writing = threading.Lock()
        self._given = threading.Event()
        self._seen: tuple[dict[str, Any], float] = {}, 0.0  # another's last sign of life, and when it came

    def take(self, who: str) -> bool:
        """One try: about SETTLE_SECONDS where the turn is free."""
        now = self._read()
        if now.get("token", self._token) != self._token:
            if now != self._seen[0]:
                self._seen = now, time.monotonic()
            if time.monotonic() - self._seen[1] < DEAD_SECONDS:
                return False
        self.passed = now.get("token", now.get("last")) != self._token
        self._who, self._given = who, threading.Event()
        self._write()
        time.sleep(SETTLE_SECONDS)
        if self._read().get("token") != self._token:
            return False
        threading.Thread(target=self._beat, args=(self._given,), name="turn", daemon=True).start()
        return True

    def give(self) -> None:
        """Leaves in the file who had it."""
        with self._writing:
            self._given.set()
            self.files.write_file(self.path, json.dumps({"last": self._token}).encode())

    def holder(self) -> str:
        """As it calls itself."""
        return str(self._read().get("who", "somebody"))

    def _read(self) -> dict[str, Any]:
        """The file: `token`, `who` and `beats` of who has the turn, or the token of who had it `last`."""
        text = self.files.read_file(self.path).decode() if self.files.exists_file(self.path).exists else ""
        return dict(json.loads(text)) if text.strip() else {}

    def _write(self) -> None:
        self._beats += 1
        self.files.write_file(self.path, json.dumps({"token": self._token, "who": self._who, "beats": self._beats}).encode())

    def _beat(self, given: threading.Event) -> None:
        """Signs of life until the turn is given away, or the board cannot be reached."""
        while not given.wait(BEAT_SECONDS):
            with self._writing:
                if given.is_set():
                    return
                try:
                    self._write()
                except Exception:  # whoever uses the board next learns it, and why
                    return


class Turns:
    """A turn for the threads of this process too; `patience_seconds` is how long one waits.

    `taken` is called with each turn first, told whether another process or object has had it since.
    """

    def __init__(self, turn: Turn, patience_seconds: float = 60.0) -> None:
        self.turn, self.patience_seconds = turn, patience_seconds
        self.taken: Callable[[bool], None] = lambda passed: None
        self._lock, self._who = threading.Lock(), ""
        self._thread: int | None = None  # of this process, which has it

    @contextmanager
    def mine(self, what: str) -> Iterator[None]:
        """Waits for the turn and keeps it for the block. RunError: it did not come in time, or would wait for this very thread."""
        if self._thread == threading.get_ident():  # an open stream's, say: nobody but this thread could end it
            raise RunError(f"this thread has the accelerator already: {self._who}; end or close its open stream first, then go on")
        until = time.monotonic() + self.patience_seconds
        who = f"{describe_process()}, {what}"
        if not self._lock.acquire(timeout=self.patience_seconds):
            raise RunError(self._busy(self._who))
        try:
            self._who, self._thread = who, threading.get_ident()
            while not self._take(who):
                if time.monotonic() > until:
                    raise RunError(self._busy(self.turn.holder()))
                time.sleep(LOOK_SECONDS)
            try:
                self.taken(self.turn.passed)
                yield
            finally:
                with suppress(Exception):  # of a board that cannot be reached any more, nobody waits for
                    self.turn.give()
        finally:
            self._thread = None
            self._lock.release()

    def _take(self, who: str) -> bool:
        try:
            return self.turn.take(who)
        except Exception as error:
            if isinstance(error, OSError) and error.filename:  # a file of another user, say
                raise RunError(f"the turn of the board cannot be taken: {error.filename}: {error.strerror}") from None
            raise RunError(f"the board cannot be reached: {reason_of(error)}") from None

    def _busy(self, holder: str) -> str:
        return f"the accelerator was busy for {self.patience_seconds:g} s: {holder} has it; wait for it, or end it"


def describe_process() -> str:
    """This process, for whoever waits for it."""
    return f"process {os.getpid()} on {socket.gethostname()}"
