"""The journal of an evaluation: a file with the record of each sample, from which an evaluation that was ended goes on.

Its first line says of which evaluation it is. Each further line is a sample: its number, and a record for each model, or why it
was left out. What was being written when a process was killed is dropped.
"""

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from cnna.evaluate.tasks.task import Record
from cnna.spec.errors import UserError
from cnna.spec.json_text import json_text

KIND = "cnna evaluation journal"


@dataclass(frozen=True)
class Entry:
    """One sample: a record for each model, or why it was left out."""

    records: tuple[Record, ...] = ()
    skipped: str | None = None


class Journal:
    """An open journal. about: what the evaluation is, by the names that a message calls its parts.

    entries: those that it holds, by the sample's number. UserError: it is of another evaluation, is no journal, cannot be written,
    or another process writes it.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.entries = path, dict[int, Entry]()
        about = json.loads(json_text(dict(about)))
        try:
            self._file: IO[bytes] = path.open("a+b")
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}; --journal F names another file") from None
        try:
            self._lock()
            self._file.seek(0)
            kept = self._file.read()
            if kept:
                self._read(kept, about)
            else:
                self._write({"kind": KIND, "about": about})
        except BaseException:
            self._file.close()
            raise

    @property
    def begun(self) -> int:
        """How many samples it held when it was opened."""
        return self._begun

    def add(self, entries: Mapping[int, Entry]) -> None:
        """Keeps more samples. UserError: the disk is full."""
        for number, entry in entries.items():
            line = {"n": number, **({"skipped": entry.skipped} if entry.skipped is not None else {"records": list(entry.records)})}
            self._write(line)
        self.entries |= entries

    def remove(self) -> None:
        """Deletes the file: the evaluation is done."""
        self.path.unlink(missing_ok=True)

    _begun = 0

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another process makes this evaluation now; wait for it, or give --journal F") from None

    def _read(self, kept: bytes, about: Mapping[str, Any]) -> None:
        whole, newline, _ = kept.rpartition(b"\n")
        lines = whole.split(b"\n")
        try:
            head = json.loads(lines[0])
            if head["kind"] != KIND:
                raise ValueError
            other = head["about"]
            found = {int(line["n"]): line for line in map(json.loads, lines[1:])}
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{self.path}: no journal of cnna eval; give --journal another name") from None
        if wrong := [name for name in about if other.get(name) != about[name]]:
            raise UserError(
                f"{self.path}: the journal of another evaluation (other {wrong[0]}); give another --journal, or remove the file"
            )
        self.entries = {n: Entry(tuple(line.get("records", ())), line.get("skipped")) for n, line in found.items()}
        self._begun = len(self.entries)
        self._file.truncate(len(whole) + len(newline))

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._file.write(json_text(line, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: {(error.strerror or str(error)).lower()}") from None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
