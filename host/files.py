"""Files that commands read and write: whole or not at all, and every failure one line with the file's name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cnna.host.errors import UserError


def read_bytes(path: Path) -> bytes:
    """The file's content. UserError: missing, a folder, not readable."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {_reason(error)}") from None


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 by rename."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes by rename, so that no reader sees half a file. UserError: it cannot be written."""
    with writing(path) as file:
        file.write(data)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file open for writing that takes the name `path` only when the block ends without an error."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        check_writable(path)
        with part.open("wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise UserError(f"{path}: {_reason(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """The folder and those above it, where they are not there. UserError: it cannot be made."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: {_reason(error)}") from None


def check_writable(path: Path | None) -> None:
    """Refuses, before long work, an output that could not be written. UserError: why. None is no output."""
    if path is None:
        return
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: is a folder, not a file to write")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path}: the folder {path.parent} is not writable")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
