"""The virtual board's physically contiguous memory: the contents of the DDR, and the owners of its buffers."""

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board.refused import exhausted, invalid, missing
from cnna.spec.ddr import PAGE_BYTES, first_fit


@dataclass(frozen=True)
class Buffer:
    """The bytes address..address+size-1. owner: the connection that allocated them."""

    name: str
    address: int
    size: int
    owner: str


class Dram:
    """Memory from bus address `base` on, with the contents `data`. Allocates whole pages, at the lowest address that fits."""

    def __init__(self, data: NDArray[np.uint8], base: int) -> None:
        self.data, self.base = data, base
        self._lock = threading.Lock()
        self._buffers: dict[str, Buffer] = {}
        self._count = 0

    def allocate(self, size: int, owner: str) -> Buffer:
        """A new buffer, whose bytes are not cleared. RefusedError: no gap is large enough, or the size is invalid."""
        if size <= 0:
            raise invalid(f"cannot allocate {size} bytes")
        with self._lock:
            address = self._gap(-(-size // PAGE_BYTES) * PAGE_BYTES)
            self._count += 1
            buffer = Buffer(str(self._count), address, size, owner)
            self._buffers[buffer.name] = buffer
            return buffer

    def free(self, name: str) -> None:
        """Frees a buffer. RefusedError: there is none of that name."""
        with self._lock:
            if self._buffers.pop(name, None) is None:
                raise self._missing(name)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name. RefusedError: there is none."""
        buffer = self._buffers.get(name)
        if buffer is None:
            raise self._missing(name)
        return buffer

    def owners(self) -> set[str]:
        """The connections that own a buffer."""
        with self._lock:
            return {buffer.owner for buffer in self._buffers.values()}

    def free_all(self, owner: str) -> int:
        """Frees all buffers of a connection. Returns the number of bytes."""
        with self._lock:
            gone = [buffer for buffer in self._buffers.values() if buffer.owner == owner]
            for buffer in gone:
                del self._buffers[buffer.name]
        return sum(buffer.size for buffer in gone)

    @property
    def used_bytes(self) -> int:
        """Bytes allocated."""
        with self._lock:
            return sum(buffer.size for buffer in self._buffers.values())

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """A view of some bytes. RefusedError: they are not all within the memory."""
        start = address - self.base
        if start < 0 or size < 0 or start + size > len(self.data):
            raise invalid(f"bytes {address:#x}..{address + size:#x} are outside the memory")
        return self.data[start : start + size]

    def _gap(self, size: int) -> int:
        taken = [(b.address, b.address + -(-b.size // PAGE_BYTES) * PAGE_BYTES) for b in self._buffers.values()]
        address = first_fit(taken, self.base, self.base + len(self.data), size)
        if address is not None:
            return address
        used = sum(end - begin for begin, end in taken)
        raise exhausted(
            f"out of contiguous memory: {size:,} bytes requested; {len(taken)} buffers take {used:,} of {len(self.data):,}; "
            "free some, or give the board more (--memory)"
        )

    @staticmethod
    def _missing(name: str) -> Exception:
        return missing(f"there is no buffer {name!r}: it was freed, or the board was restarted since")
