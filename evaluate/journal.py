"""The journal of an evaluation: a file with the record of each sample, from which an evaluation that was ended goes on.

Its first line says of which evaluation it is. Each further line is a sample: its number, and a record for each model, or why it
was left out. A line ends with its check, so that one that was changed is found. What was being written when a process was killed
is dropped. A benchmark keeps its rows in the same way.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import IO, Any

from cnna.evaluate.tasks.task import Record
from cnna.spec.errors import UserError
from cnna.spec.json_text import json_text

EVALUATION, BENCHMARK = "evaluation", "benchmark"
COMMANDS = {EVALUATION: "cnna eval", BENCHMARK: "cnna bench"}  # by what a journal is of
CHECK = "check"  # the key of a line's check, which is made of the line without it


@dataclass(frozen=True)
class Entry:
    """One sample: a record for each model, or why it was left out."""

    records: tuple[Record, ...] = ()
    skipped: str | None = None


class Journal:
    """An open journal. about: what the evaluation is, by the names that a message calls its parts. of: what it is of, in a word.

    entries: those that it holds, by the sample's number. UserError: it is of another evaluation, is no journal, cannot be written,
    or another process writes it.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], of: str = EVALUATION) -> None:
        self.path, self.entries, self._of = path, dict[int, Entry](), of
        about = json.loads(json_text(dict(about)))
        try:
            self._file: IO[bytes] = path.open("a+b", buffering=0)  # what could not be written is not tried again later
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}; --journal F names another file") from None
        head = {"kind": f"cnna {of} journal", "about": about}
        try:
            self._lock()
            self._file.seek(0)
            kept = self._file.read()
            if _line(head).startswith(kept):  # it is new, or its disk was full at once
                self._file.truncate(0)
                self._write(head)
            else:
                self._read(kept, about)
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
            self._write({**line, CHECK: _check(line)})
        self.entries |= entries

    def remove(self) -> None:
        """Deletes the file: the evaluation is done."""
        self.path.unlink(missing_ok=True)

    _begun = 0

    def _lock(self) -> None:
        if not S_ISREG(os.fstat(self._file.fileno()).st_mode):
            raise UserError(f"{self.path}: no file that can be gone on with; --journal F names another")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another process makes this {self._of} now; wait for it, or give --journal F") from None

    def _read(self, kept: bytes, about: Mapping[str, Any]) -> None:
        whole, newline, _ = kept.rpartition(b"\n")
        lines = whole.split(b"\n")
        try:
            head = json.loads(lines[0])
            if head["kind"] != f"cnna {self._of} journal":
                raise ValueError
            other = dict(head["about"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f"{self.path}: no journal of {COMMANDS[self._of]}; give --journal another name") from None
        if wrong := [name for name in about if other.get(name) != about[name]]:
            raise UserError(
                f"{self.path}: the journal of another {self._of} (other {wrong[0]}); give another --journal, or remove the file"
            )
        for number, line in enumerate(lines[1:], 2):
            found = _entry(line)
            if found is None:
                raise UserError(f"{self.path}: line {number} has been changed; remove the file, or give another --journal")
            self.entries[found[0]] = found[1]
        self._begun = len(self.entries)
        self._file.truncate(len(whole) + len(newline))

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            left = memoryview(_line(line))
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise UserError(f"{self.path}: {(error.strerror or str(error)).lower()}") from None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def _line(line: Mapping[str, Any]) -> bytes:
    """A line of the file."""
    return json_text(line, separators=(",", ":")).encode() + b"\n"


def _check(line: Mapping[str, Any]) -> int:
    return zlib.crc32(_line(line))


def _entry(text: bytes) -> tuple[int, Entry] | None:
    """A sample's number and its entry; None: the line is not as it was written."""
    try:
        line = json.loads(text)
        if line.pop(CHECK) != _check(line):
            return None
        return int(line["n"]), Entry(tuple(line.get("records", ())), line.get("skipped"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
