"""Reads and writes files for commands. A file is written whole or not at all, and a failure is one line with the file's name.

An output may also be a special file, such as `/dev/null`, `/dev/stdout` or a named pipe. It is written directly.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cnna.spec.errors import UserError


def default_cache() -> Path:
    """The folder where cnna keeps what it can make again: below XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cnna"


def read_bytes(path: Path) -> bytes:
    """The content of a file. UserError: it is missing, a folder or not readable."""
    try:
        return Path(path).read_bytes()
    except ValueError:  # a name with a NUL
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: {_reason(error)}") from None


def write_text(path: Path, text: str) -> None:
    """Writes text in UTF-8, as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes another file and renames it, so that no reader sees half a file. UserError: it cannot be written."""
    with writing(path) as file:
        file.write(data)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that is open for writing. It gets the name `path` when the block ends without an error; a link stays a link."""
    path = Path(path)
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        check_writable(path)
        if _is_special(path):
            with path.open("wb") as file:
                yield file
            return
        with part.open("wb") as file:
            yield file
        os.replace(part, target)
    except OSError as error:
        raise UserError(f"{path}: {_reason(error)}") from None
    finally:
        with suppress(OSError):  # a file system that is read-only says so of a file that is not there, in place of what went wrong
            part.unlink(missing_ok=True)


def check_folder(path: Path) -> None:
    """UserError: `make_folder` could not make the folder, or nothing can be written into it. Call it before long work."""
    there = _nearest(Path(path))
    if not there.is_dir():
        raise UserError(f"{there}: is a file, not a folder to write into")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{there}: nothing can be written into this folder; name another one")


def make_folder(path: Path) -> None:
    """Makes the folder, and the folders above it, if they do not exist. UserError: it cannot be made."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{_nearest(path)}: is a file, not a folder to write into") from None
    except OSError as error:
        raise UserError(f"{path}: {_reason(error)}") from None


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def check_writable(path: Path | None) -> None:
    """UserError: an output cannot be written; the message says why. Call it before long work. None stands for no output."""
    if path is None:
        return
    path = Path(path)
    if os.path.isdir(path):
        raise UserError(f"{path}: is a folder, not a file to write")
    if _is_special(path):
        if not os.access(path, os.W_OK):
            raise UserError(f"{path}: is not writable")
        return
    folder = (Path(os.path.realpath(path)) if path.is_symlink() else path).parent
    if not folder.is_dir():
        wrong = f"{folder} is a file, not a folder" if folder.exists() else f"the folder {folder} does not exist; make it first"
        raise UserError(f"{path}: {wrong}")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path}: the folder {folder} is not writable")


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[Path]) -> None:
    """UserError: an output (by option) cannot be written, is an input too, or is the same file as another output.

    Call it before any work. The message says which file it is, and what to do.
    """
    inputs, seen = list(inputs), dict[str, Path]()
    for option, path in outputs.items():
        try:
            check_writable(path)
            if any(_same(path, other) for other in inputs):
                raise UserError(f"{path}: {option} would write over this input; give it another name")
            for earlier, other in seen.items():
                if _same(path, other) and not _is_special(path):
                    raise UserError(f"{path}: both {earlier} and {option} would write this file; give one another name")
        except OSError as error:
            raise UserError(f"{path}: {_reason(error)}") from None
        seen[option] = path


def check_ending(option: str, path: Path, endings: Sequence[str]) -> None:
    """UserError: a name says that the file is of another format than what an option writes. A name may also say nothing."""
    if endings and path.suffix and path.suffix.lower() not in endings and not _is_special(path):
        raise UserError(f"{option} {path}: its name must end in {' or '.join(endings)}, which says what is written")


def _is_special(path: Path) -> bool:
    """Whether the path is a device or a pipe, which a rename would replace."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # Path's fail for too long a name


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are the same file, which may not exist yet."""
    return os.path.realpath(one) == os.path.realpath(other) or (one.exists() and other.exists() and one.samefile(other))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
