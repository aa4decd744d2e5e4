"""The memory of a simulated `spec.device.Device`: an allocator that only counts up, and copies, over bytes that numpy sees."""

import numpy as np
from numpy.typing import NDArray

from cnna.spec.ddr import PLANNED
from cnna.spec.errors import RunError
from cnna.spec.progress import Played

PAGE_BYTES = 4096
# Of a simulated memory, like a ZCU102's upper PS DDR: code that loses the high half of an address is caught.
DDR_BASE = 0x8_0000_0000


class SimulatedMemory:
    """A memory whose first byte, `data[0]`, has bus address `base`."""

    def __init__(self, data: NDArray[np.uint8], base: int) -> None:
        self.data, self.base, self._next = data, base, base
        self.playing: Played | None = None  # what runs on the devices that share this memory
        self.ddr = PLANNED

    def allocate(self, size_bytes: int) -> int:
        """Address of fresh memory, aligned to 4096 bytes. RunError: there is not enough."""
        address = self._next
        if address + size_bytes > self.base + len(self.data):
            raise RunError(f"the simulated memory of {len(self.data)} bytes has no room for {size_bytes} more")
        self._next += -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
        return address

    def release_all(self) -> None:
        """Makes all memory free again. Addresses that were given out before are void."""
        self._next = self.base

    def store(self, address: int, data: bytes | np.ndarray) -> None:
        """Copies bytes into memory. RunError: some lie outside it."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.data[self._slice(address, raw.size)] = raw

    def load(self, address: int, size_bytes: int) -> bytes:
        """Copies bytes out of memory. RunError: some lie outside it."""
        return self.data[self._slice(address, size_bytes)].tobytes()

    def _slice(self, address: int, size: int) -> slice:
        start = address - self.base
        if start < 0 or start + size > len(self.data):
            raise RunError(f"bytes {address:#x}..{address + size:#x} are outside the simulated memory")
        return slice(start, start + size)
