"""The user's cache folder (`spec.files.default_cache`): how long entries stay, and which programs in it may be run.

Everything in it can be made again. The age of an entry (a file, or a simulator's folder) counts from its last use. Adding an entry
removes entries of its kind that were not used for KEEP_DAYS, and the oldest beyond KEEP_ENTRIES. Programs in the cache are run. So
it belongs to this user alone, and a program whose digest differs from that of the build is not run.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cnna.spec.errors import UserError

KEEP_DAYS = 30
KEEP_ENTRIES = 100  # number of entries of each kind that are kept; a simulator of `tiny` takes 20 MB
NO_CODE_FROM_HERE = {"PYTHONSAFEPATH": "1"}  # for programs that are started in a user's folder: its `random.py` is not theirs
FRESH_HOURS = 12  # an entry used within this time is always kept, because a process may be about to open it


def private(folder: Path) -> Path:
    """Makes the folder, for this user alone, if there is none. UserError: others can write into it, but its programs are run."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise UserError(
            f"{folder}: {(error.strerror or str(error)).lower()}; --cache names another folder for simulators"
        ) from None
    if status.st_uid != os.geteuid():
        raise UserError(f"{folder}: belongs to another user, who could change the programs in it; name another folder with --cache")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        remedy = f"name another with --cache, or, if you trust the contents of this one, run chmod -R go-w {folder}"
        raise UserError(f"{folder}: other users can write into it, but programs in it are run: {remedy}")
    return folder


def seal(program: Path) -> None:
    """Writes the program's digest to a file beside it."""
    _seal_of(program).write_text(_digest(program))


def is_sealed(program: Path) -> bool:
    """Whether the program exists and has the digest that `seal` wrote."""
    try:
        return _seal_of(program).read_text() == _digest(program)
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _seal_of(program: Path) -> Path:
    return program.with_name(f"{program.name}.sha256")


def _digest(program: Path) -> str:
    return hashlib.sha256(program.read_bytes()).hexdigest()


def use(entry: Path) -> bool:
    """Marks an entry as used now. Returns whether it exists."""
    try:
        os.utime(entry)
    except FileNotFoundError:
        return False
    return True


def prune(entries: Iterable[Path], drop: Callable[[Path], None] | None = None) -> None:
    """Removes old entries of one kind. drop: removes one of them; by default, `remove`."""
    now = time.time()
    used = sorted(((_used(entry), entry) for entry in entries), reverse=True)
    for rank, (at, entry) in enumerate(used):
        hours = (now - at) / 3600
        if hours > 24 * KEEP_DAYS or (rank >= KEEP_ENTRIES and hours > FRESH_HOURS):
            (drop or remove)(entry)


def remove(entry: Path) -> None:
    """Removes an entry, even if another process removes it at the same time."""
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def _used(entry: Path) -> float:
    """The time of an entry's last use, in seconds since the epoch; the present time if another process has just removed it."""
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:
        return time.time()
