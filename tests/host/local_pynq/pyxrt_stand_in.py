"""Stands for XRT's Python module `pyxrt` below pynq's local classes: buffers are pages of the file that stands for /dev/mem.

As the kernel does, it takes back the buffers of a process that has ended. A board's memory starts at `BASE`.
"""

import ctypes
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from cnna.sim.emulator.memory import DDR_BASE as BASE

PAGE_BYTES, ROOM_BYTES = 4096, 16 << 20
MEMORY, TAKEN = "mem", "taken.json"  # files of a board's folder: physical memory, and who has which pages of it

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)


@contextmanager
def taken(folder: Path) -> Iterator[dict[str, Any]]:
    """What processes have taken of a board's memory, by address: pages and process. One process at a time may change it."""
    with (folder / TAKEN).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or "{}")
        living = {address: one for address, one in known.items() if Path(f"/proc/{one['process']}").exists()}
        yield living
        file.truncate(0)
        file.write(json.dumps(living))


def module(folder: Path) -> ModuleType:
    """The module, for the board of a folder."""

    class Buffer:
        """`pyxrt.bo`: pages of physical memory, mapped once."""

        flags = SimpleNamespace(normal=0, cacheable=1)

        def __init__(self, device: object, size: int, flags: int, group: int) -> None:
            pages, first = -(-size // PAGE_BYTES), 0
            with taken(folder) as known:
                for address, one in sorted((int(address), one) for address, one in known.items()):
                    if address - BASE >= (first + pages) * PAGE_BYTES:
                        break
                    first = (address - BASE) // PAGE_BYTES + one["pages"]
                if (first + pages) * PAGE_BYTES > ROOM_BYTES:
                    raise RuntimeError("bad_alloc: no contiguous memory")
                self._address, self._size = BASE + first * PAGE_BYTES, size
                known[str(self._address)] = {"pages": pages, "process": os.getpid()}
            self._process = os.getpid()

        def map(self) -> memoryview:
            file = os.open(folder / MEMORY, os.O_RDWR)
            at = _libc.mmap(None, self._size, 3, 1, file, self._address)  # PROT_READ | PROT_WRITE, MAP_SHARED
            os.close(file)
            assert at != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
            return memoryview((ctypes.c_uint8 * self._size).from_address(at)).cast("B")  # pynq calls munmap itself

        def size(self) -> int:
            return self._size

        def address(self) -> int:
            return self._address

        def sync(self, direction: int) -> None:
            """Does nothing: processes of one machine see each other's writes."""

        def __del__(self) -> None:
            if os.getpid() == self._process:  # a fork has no buffers of its own
                with taken(folder) as known:
                    known.pop(str(self._address), None)

    class XrtDevice:
        """`pyxrt.device`."""

        def __init__(self, index: int) -> None:
            self.loaded = b""

        def get_info(self, which: str) -> str:
            return which

        def load_xclbin(self, path: str) -> None:
            self.loaded = Path(path).read_bytes()

    infos = "bdf dynamic_regions electrical host m2m max_clock_frequency_mhz mechanical memory name pcie_info thermal vmr"
    made = ModuleType("pyxrt")
    vars(made).update(
        bo=Buffer,
        device=XrtDevice,
        xrt_info_device=SimpleNamespace(**{name: name for name in infos.split()}),
        xclBOSyncDirection=SimpleNamespace(XCL_BO_SYNC_BO_TO_DEVICE=0, XCL_BO_SYNC_BO_FROM_DEVICE=1),
    )
    return made
