"""Child processes that do not outlive their parent (Linux)."""

import ctypes
import os
import signal
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Has the kernel tell this process when its parent ends, however that happens; it then ends with its whole process group.

    For the leader of a session, whose group is what it has started.
    """
    parent = os.getppid()
    signal.signal(signal.SIGTERM, _end_group)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has already gone
        _end_group()


def _end_group(number: int = signal.SIGTERM, frame: FrameType | None = None) -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    os._exit(1)  # not reached: the group holds this process
