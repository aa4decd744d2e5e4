"""The turn at a board's accelerator for processes that reach it over the network: a lease, kept in three files on the board.

A stock PYNQ.remote server reads and writes whole files and has no test-and-set. Mutual exclusion needs neither that nor a bound on
the time of an access (Lamport, "A fast mutual exclusion algorithm", 1987). A process that finds the turn free does four steps. It
writes a claim, checks that no other process has begun meanwhile, announces that it begins, and checks that its claim still stands.
It then has a lease. Each check of the claim renews the lease, and an expired lease must be renewed before the next access. A
process that may have overtaken a holder (one without signs of life, or one that began meanwhile) waits until no lease from before
its claim can be valid.

    turn    the last claim. Only claims are written to it, so nobody has overtaken a holder that finds its own claim there
    given   the last claim that was given back. If it equals the one in `turn`, the turn is free
    beat    the process that began last, and its signs of life. No two writes of it are equal
"""

import json
import threading
import time
import uuid
from contextlib import suppress
from typing import Any, NamedTuple

from cnna.host.board.deferred_signals import signals_deferred
from cnna.spec.errors import RunError, TurnLostError

LOOK_SECONDS = 0.02  # between two reads of a file that is being written
WRITING_SECONDS = 0.5  # how long such a file is read again and again
SETTLE_SECONDS = 0.02  # between claim and begin; only for speed: if two processes claim together, one can begin at once
BEAT_SECONDS, DEAD_SECONDS = 1.0, 5.0  # between signs of life; after so long without any, a holder may be overtaken
LEASE_SECONDS = 2.0  # from the beginning of a check that found the claim unchanged
PASS_SECONDS = 4.0  # wait after a claim that may have overtaken a holder: a lease, and some time for accesses under way
MOST_ANSWERS = 5  # after so many answers of the board that came too late, the holder gives up
RECORD_BYTES = 2048  # of every file: a server writes from the beginning, so two writes of equal length never mix
WHO_LETTERS = 150


def _now() -> float:
    """Seconds of a clock that continues while the machine sleeps, if it has one (Linux)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Record(NamedTuple):
    """A file: its bytes (None: there is no such file) and its fields (empty while it is being written)."""

    raw: bytes | None
    fields: dict[str, Any]

    @property
    def turn(self) -> str | None:
        """The claim in the file."""
        return self.fields.get("turn")


class RemoteTurn:
    """A `turn.Turn` over the network. files: has pynq's read_file, write_file and exists_file. path: of the file `turn`."""

    certain = False

    def __init__(self, files: Any, path: str) -> None:
        self.files, self.path, self.passed = files, path, True
        self._token, self._count, self._beats = uuid.uuid4().hex, 0, 0
        self.claim = ""  # the last claim of this object
        self.until = 0.0  # when the lease ends
        self._lost: str | None = None  # the process to which the turn was lost
        self._lock = threading.Lock()  # for the threads of a holder
        self.given = threading.Event()
        self._known: set[str] = set()  # files that are known to exist
        self._seen: tuple[object, float] = None, 0.0  # the last sign of life of another process, and when it came

    def take(self, who: str) -> bool:
        """Tries once. It takes a few accesses if the turn is free, and PASS_SECONDS if another process may have to be overtaken."""
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
        except BaseException:  # Ctrl-C: otherwise others would wait for this claim
            self.given.set()
            with suppress(Exception):
                if free and self._is_alone(beat):
                    self._write("given", turn=claim)
            raise

    def _begin(self, claim: str, owner: Record, beat: Record | None) -> bool:
        """Whether this object has the turn, after its claim was written.

        owner and beat were read before the claim was written. beat: None if the turn was not free.
        """
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
        self.claim = claim
        self.until = began + LEASE_SECONDS
        self._lost = None
        self.given = threading.Event()
        threading.Thread(target=self._live, args=(claim, self.given), name="turn", daemon=True).start()
        return True

    def _is_alone(self, before: Record) -> bool:
        """Whether no process has begun since the file `beat` was read."""
        return before.raw != b"" and self._read("beat").raw == before.raw

    def check(self, sure: bool = False) -> None:
        """TurnLostError: another process has taken the turn. During a lease, the board is asked only if `sure` is set.

        RunError: the board takes longer to answer than a lease lasts.
        """
        asked = 0
        while self._lost is None and (sure > asked or _now() >= self.until):  # a late answer may be out of date
            if asked == MOST_ANSWERS:
                raise RunError(f"the board has taken more than {LEASE_SECONDS:g} s to answer, {asked} times: check the network")
            with self._lock:
                self._renew(self.claim)
            asked += 1
        if self._lost is not None:
            raise TurnLostError(
                f"the turn at the accelerator was lost to {self._lost}: this process stood still for more than {LEASE_SECONDS:g} s "
                "(a debugger, a machine that slept, the network); its results are void, run it again"
            )

    def give(self) -> None:
        """Gives the turn back in the file `given`, unless it was lost."""
        with self._lock:
            self.given.set()
            self.until = 0.0
            if self._lost is None:
                self._write("given", turn=self.claim)

    def holder(self) -> str:
        """The name that the holder has given itself."""
        return str(self._read("turn").fields.get("who", "somebody"))

    def _is_dead(self, owner: Record, beat: Record) -> bool:
        sign = owner.raw, beat.raw
        if sign != self._seen[0]:
            self._seen = sign, time.monotonic()
        return time.monotonic() - self._seen[1] >= DEAD_SECONDS

    def _renew(self, claim: str) -> None:
        """Begins a new lease if the claim still stands; otherwise notes which process has the turn."""
        began = _now()
        owner = self._read("turn")
        if owner.turn == claim:
            self.until = began + LEASE_SECONDS
        else:
            self._lost = str(owner.fields.get("who", "a process without a name"))

    def _live(self, claim: str, given: threading.Event) -> None:
        """Gives signs of life and renews the lease, until the turn is given back or lost."""
        while not given.wait(BEAT_SECONDS):
            with self._lock:
                if given.is_set():
                    return
                try:
                    self._beat(claim)
                    self._renew(claim)
                except Exception:  # the next access to the board fails too, with a message
                    continue
                if self._lost is not None:
                    return

    def _beat(self, claim: str) -> None:
        self._beats += 1
        self._write("beat", turn=claim, beats=self._beats)

    def _read(self, name: str) -> Record:
        """Reads a file. A stock server empties a file before it writes, so an empty one is read again for a while."""
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
        except Exception:  # the type depends on `files`; if the file still exists, the error is raised again
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
