"""The turn at a board's accelerator for processes that reach it over the network: a lease, kept in three files of the board's.

A stock PYNQ.remote server writes and reads whole files and has nothing that tests and sets. Mutual exclusion needs no more, and no
bound on how long an access takes (Lamport, "A fast mutual exclusion algorithm", 1987): whoever finds the turn free writes a claim,
sees that nobody has begun meanwhile, says that it begins, and sees that the claim still stands. It then has a lease, which looking
at its claim again prolongs; it looks before it acts on an old one. Whoever may have overtaken a holder (one without signs of life,
or one that began meanwhile) waits until no lease from before its claim can last.

    turn    the last claim; written by claims alone, so a holder that finds its own there has been overtaken by nobody
    given   the last claim that was given back: where it is the one in `turn`, the turn is free
    beat    who began last, and its signs of life; no two writes of it are alike
"""

import json
import threading
import time
import uuid
from contextlib import suppress
from typing import Any, NamedTuple

from cnna.host.board.deferred_signals import signals_deferred
from cnna.spec.errors import RunError, TurnLostError

LOOK_SECONDS = 0.02  # between two looks at a file that is being written
WRITING_SECONDS = 0.5  # that it is looked at so
SETTLE_SECONDS = 0.02  # between claim and begin: for speed alone, so that of two who come together one goes on at once
BEAT_SECONDS, DEAD_SECONDS = 1.0, 5.0  # between signs of life; without any for so long, a holder may be overtaken
LEASE_SECONDS = 2.0  # from when a holder began to look at its claim and found it
PASS_SECONDS = 4.0  # from a claim that may have overtaken a holder; what is more than a lease is for accesses under way
MOST_ANSWERS = 5  # of the board that come too late to act on
RECORD_BYTES = 2048  # of every file: two that are written at once do not mix, since a server writes from the beginning
WHO_LETTERS = 150


def _now() -> float:
    """Seconds that go on while the machine sleeps, where it has such a clock (Linux)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Record(NamedTuple):
    """A file: its bytes (None: there is no such file), and what they say (nothing, while it is being written)."""

    raw: bytes | None
    fields: dict[str, Any]

    @property
    def turn(self) -> str | None:
        """The claim that it is about."""
        return self.fields.get("turn")


class RemoteTurn:
    """As `turn.Turn`. `files` has pynq's read_file, write_file and exists_file; `path` is of the file `turn`."""

    certain = False

    def __init__(self, files: Any, path: str) -> None:
        self.files, self.path, self.passed = files, path, True
        self._token, self._count, self._beats = uuid.uuid4().hex, 0, 0
        self.claim = ""  # the last that was ours
        self.until = 0.0  # of the lease
        self._lost: str | None = None  # to whom
        self._lock = threading.Lock()  # between a holder's threads
        self.given = threading.Event()
        self._known: set[str] = set()  # files that are there
        self._seen: tuple[object, float] = None, 0.0  # another's last sign of life, and when it came

    def take(self, who: str) -> bool:
        """One try: a few accesses where the turn is free; PASS_SECONDS where another may have to be overtaken."""
        beat = self._read("beat")
        owner = self._read("turn")
        free = owner.raw is None or (owner.turn is not None and self._read("given").turn == owner.turn)
        if not free and not self._is_dead(owner, beat):
            return False
        self._count += 1
        claim = f"{self._token}.{self._count}"
        self._write("turn", turn=claim, who=who[:WHO_LETTERS])
        try:
            return self._begin(claim, owner, beat if free else None)
        except BaseException:  # Ctrl-C: a claim that stands would keep others waiting
            self.given.set()
            with suppress(Exception):
                if free and self._is_alone(beat):
                    self._write("given", turn=claim)
            raise

    def _begin(self, claim: str, owner: Record, beat: Record | None) -> bool:
        """With a claim that is written: whether the turn is ours. `owner`, and `beat` where it was free, as they were before."""
        time.sleep(SETTLE_SECONDS)
        if self._read("turn").turn != claim:
            return False
        alone = beat is not None and self._is_alone(beat)
        if not alone:
            time.sleep(PASS_SECONDS)
        self._beat(claim)
        began = _now()
        if self._read("turn").turn != claim:
            return False
        self.passed = not alone or owner.turn != self.claim
        self.claim, self.until, self._lost, self.given = claim, began + LEASE_SECONDS, None, threading.Event()
        threading.Thread(target=self._live, args=(claim, self.given), name="turn", daemon=True).start()
        return True

    def _is_alone(self, before: Record) -> bool:
        """Whether nobody has begun since the file `beat` was read."""
        return before.raw != b"" and self._read("beat").raw == before.raw

    def check(self, sure: bool = False) -> None:
        """TurnLostError: it is another's meanwhile. While the lease lasts the board is only asked if one must be `sure`.

        RunError: the board takes longer to answer than a lease lasts.
        """
        asked = 0
        while self._lost is None and (sure > asked or _now() >= self.until):  # an answer that was long under way is an old one
            if asked == MOST_ANSWERS:
                raise RunError(f"the board has taken more than {LEASE_SECONDS:g} s to answer, {asked} times: look at the network")
            with self._lock:
                self._renew(self.claim)
            asked += 1
        if self._lost is not None:
            raise TurnLostError(
                f"the turn at the accelerator was lost to {self._lost}: this process stood still for more than {LEASE_SECONDS:g} s "
                "(a debugger, a machine that slept, the network), and what it computes is void; run it again"
            )

    def give(self) -> None:
        """Says so in the file for it, unless it was lost."""
        with self._lock:
            self.given.set()
            self.until = 0.0
            if self._lost is None:
                self._write("given", turn=self.claim)

    def holder(self) -> str:
        """As it calls itself."""
        return str(self._read("turn").fields.get("who", "somebody"))

    def _is_dead(self, owner: Record, beat: Record) -> bool:
        sign = owner.raw, beat.raw
        if sign != self._seen[0]:
            self._seen = sign, time.monotonic()
        return time.monotonic() - self._seen[1] >= DEAD_SECONDS

    def _renew(self, claim: str) -> None:
        """A lease from now on, if the claim stands; else notes who has come."""
        began = _now()
        owner = self._read("turn")
        if owner.turn == claim:
            self.until = began + LEASE_SECONDS
        else:
            self._lost = str(owner.fields.get("who", "a process that has not said its name"))

    def _live(self, claim: str, given: threading.Event) -> None:
        """Signs of life, and the lease prolonged, until the turn is given away or lost, or the board cannot be reached."""
        while not given.wait(BEAT_SECONDS):
            with self._lock:
                if given.is_set():
                    return
                try:
                    self._beat(claim)
                    self._renew(claim)
                except Exception:  # whoever uses the board next learns it, and why
                    continue
                if self._lost is not None:
                    return

    def _beat(self, claim: str) -> None:
        self._beats += 1
        self._write("beat", turn=claim, beats=self._beats)

    def _read(self, name: str) -> Record:
        """A file. A stock server empties it before it writes, so one that is empty is looked at again for a while."""
        until = time.monotonic() + WRITING_SECONDS
        while True:
            raw = self._bytes(self._path(name))
            try:
                fields = json.loads(raw) if raw else {}
            except ValueError:
                fields = None
            if not isinstance(fields, dict):
                raw, fields = b"", {}
            if raw != b"" or time.monotonic() > until:
                return Record(raw, fields)
            time.sleep(LOOK_SECONDS)

    def _bytes(self, path: str) -> bytes | None:
        if path not in self._known and not self._exists(path):
            return None
        try:
            with signals_deferred():
                raw = bytes(self.files.read_file(path))
        except Exception:  # of whatever way leads to the files: a file that has gone is none, anything else is raised again
            self._known.discard(path)
            if self._exists(path):
                raise
            return None
        self._known.add(path)
        return raw

    def _write(self, name: str, **fields: object) -> None:
        with signals_deferred():
            self.files.write_file(self._path(name), json.dumps(fields).encode().ljust(RECORD_BYTES))

    def _exists(self, path: str) -> bool:
        with signals_deferred():
            return bool(self.files.exists_file(path).exists)

    def _path(self, name: str) -> str:
        return self.path if name == "turn" else f"{self.path}.{name}"
