"""The user's cache folder: where it is, and how long what stands in it stays.

Everything in it can be made again. An entry (a file, or a simulator's folder) is as old as its last use; whoever adds one drops
those of its kind that nobody has used for KEEP_DAYS, and the oldest beyond KEEP_ENTRIES.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

KEEP_DAYS = 30
KEEP_ENTRIES = 100  # of a kind; a simulator of `tiny` takes 20 MB
REST_HOURS = 12  # after its last use in which an entry stays whatever the count: somebody may be about to open it


def default_cache() -> Path:
    """Where simulators are kept unless told otherwise: below XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cnna"


def use(entry: Path) -> bool:
    """Whether the entry is there; if so it counts as used now."""
    try:
        os.utime(entry)
    except FileNotFoundError:
        return False
    return True


def prune(entries: Iterable[Path], drop: Callable[[Path], None] | None = None) -> None:
    """Drops old entries of one kind. `drop` removes one (default: at once)."""
    now = time.time()
    used = sorted(((_used(entry), entry) for entry in entries), reverse=True)
    for rank, (at, entry) in enumerate(used):
        hours = (now - at) / 3600
        if hours > 24 * KEEP_DAYS or (rank >= KEEP_ENTRIES and hours > REST_HOURS):
            (drop or remove)(entry)


def remove(entry: Path) -> None:
    """The entry is gone, whoever else removes it too."""
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def _used(entry: Path) -> float:
    """Seconds since the epoch of its last use; now, if another process has just removed it."""
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:
        return time.time()
