"""Child processes and temporary folders that end with their owner, even if the owner is killed (Linux).

The owner of a folder holds a lock on a file in it. A killed process cannot remove its folders. So a process that makes the next
folder of that name removes the folders whose lock nobody holds any more.
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG = 1
SIGNALLED = 128  # added to the number of the signal that ended a process, in the exit code of the one that ran it
_HELD = ".held"  # the locked file; a folder without it is left alone
_GRACE_SECONDS = 60.0  # an owner locks that file within this time after making it


def die_with_parent() -> None:
    """Lets the kernel signal this process when its parent ends. This process then ends with its whole process group.

    It must be the leader of a session, so that its group holds exactly the processes that it has started.
    """
    parent = os.getppid()
    signal.signal(signal.SIGTERM, _end_group)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent has already ended
        _end_group()


def _end_group(number: int = signal.SIGTERM, frame: FrameType | None = None) -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    os._exit(1)  # not reached: the group holds this process


class Scratch:
    """A new empty folder `path` in `parent` (default: the system's temporary folder), named `prefix` and some letters."""

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        sweep(prefix, parent)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self.lock = os.open(self.path / _HELD, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Removes the folder with everything in it."""
        if self.lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.lock)
            self.lock = -1


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yields a `Scratch` folder for the length of a block."""
    folder = Scratch(prefix, parent)
    try:
        yield folder.path
    finally:
        folder.close()


def sweep(prefix: str, parent: Path) -> None:
    """Removes this user's folders of that name whose owners have ended."""
    name = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}")  # the form of names from tempfile.mkdtemp
    for folder in parent.glob(f"{prefix}*"):
        if name.fullmatch(folder.name) and _is_left(folder / _HELD):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left(held: Path) -> bool:
    """Whether the owner that made this file has ended."""
    try:
        file = os.open(held, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # the file does not exist, or is another user's
        return False
    try:
        status = os.fstat(file)
        if status.st_uid != os.getuid() or time.time() - status.st_mtime < _GRACE_SECONDS:
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)
