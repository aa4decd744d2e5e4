"""Classes by number or by name: the file of `--labels`, and what a label in the data stands for."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes
from cnna.spec.names import in_line, nearest

DIGITS = 18  # of a label that is a number


def read_labels(path: Path) -> tuple[str, ...]:
    """The names of the classes, one a line, or a list in JSON. DataError: the file is no text, or has no name."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        names = _listed(path, text) or tuple(line.strip() for line in text.splitlines())
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file with the name of one class a line") from None
    while names and not names[-1]:
        names = names[:-1]
    if not names:
        raise DataError(f"{path}: has no name; write the name of one class a line")
    return names


def _listed(path: Path, text: str) -> tuple[str, ...]:
    """The names in a JSON list of them; none if the text is none. DataError: it is JSON of another kind."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(found, list | dict):  # a single name may be JSON by chance, such as `5`
        return ()
    if isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise DataError(f'{path}: in JSON, names are a list of texts, such as ["cat", "dog"]')
    return tuple(found)


def number_of(label: str, classes: Sequence[str] | None, where: str) -> int:
    """The class that a label names: a number as it is, a name by its place among the classes.

    DataError: there is no such class; `where` begins the line.
    """
    text = label.strip()
    if classes and text in classes:
        if classes.count(text) > 1:
            raise DataError(f"{where}: several classes are called {text!r}; give numbers as labels")
        return classes.index(text)
    whole = text.removesuffix(".0")  # as a table's column of numbers is written where one of them is missing
    if whole.isdecimal() and whole.isascii() and len(whole) <= DIGITS:
        return int(whole)
    if not classes:
        raise DataError(
            f"{where}: the label {text!r:.60} is no whole number from 0 up; --labels F (one name a line) says which class a name is"
        )
    likely = nearest(text, classes)
    meant = f"; did you mean {likely[0]}?" if likely else f"; there are {in_line(classes)}"
    raise DataError(f"{where}: there is no class {text!r}{meant}")


def identity_of(files: Iterable[Path], *contents: bytes) -> str:
    """A digest of contents, and of the names, sizes and times of files."""
    found = hashlib.sha256()
    for content in contents:
        found.update(hashlib.sha256(content).digest())
    for file in files:
        try:
            status = file.stat()
            found.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        except (OSError, ValueError):  # such as a name with a NUL
            found.update(f"{file}\0missing\n".encode())
    return found.hexdigest()


def digest_of_file(path: Path) -> str:
    """The digest of a file's content, which is read a piece at a time. DataError: it cannot be read."""
    found = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return found.hexdigest()
