"""Stands for XRT's C library `libxrt_core` below the local classes of pynq 3: its buffers are those of `pyxrt_stand_in`."""

import ctypes
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.host.local_pynq import pyxrt_stand_in

FILE = "lib/libxrt_core.so"  # in XRT's folder
NO_BUFFER = 0xFFFF_FFFF
DONE = ("xclClose", "xclGetDeviceInfo2", "xclLoadXclBin", "xclLockDevice", "xclProbe", "xclSyncBO", "xclUnlockDevice")


class Library:
    """What pynq 3 calls of the library. It sets the types of each function before the call, which are those of Python here."""

    def __init__(self, folder: Path) -> None:
        kind, numbers = pyxrt_stand_in.module(folder).bo, itertools.count(1)
        buffers: dict[int, Any] = {}

        def allocate(_device: object, size: int, _kind: int, _flags: int) -> int:
            try:
                made = kind(None, size, 0, 0)
            except RuntimeError:
                return NO_BUFFER
            number = next(numbers)
            buffers[number] = made
            return number

        def describe(_device: object, number: int, found: Any) -> int:
            found.size, found.paddr = buffers[number].size(), buffers[number].address()
            return 0

        self._calls: dict[str, Callable[..., Any]] = {
            **dict.fromkeys(DONE, lambda *_: 0),
            "xclOpen": lambda *_: 1,
            "xclAllocBO": allocate,
            "xclMapBO": lambda _, number, __: ctypes.addressof(ctypes.c_char.from_buffer(buffers[number].map())),
            "xclGetBOProperties": describe,
            "xclFreeBO": lambda _, number: buffers.pop(number, None) and None,
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._calls:
            raise AttributeError(f"nothing stands for {name}")
        return self._calls[name]
