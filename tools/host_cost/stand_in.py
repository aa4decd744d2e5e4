"""A board for the measured program: pynq's own MMIO and buffers over memory of this process, where a plugin plays the accelerator.

It runs under QEMU, on numpy alone. pynq's package itself is not imported, since it looks for a board.
"""

import mmap
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from stages import BUFFERS, CLEAN_LINES, LINE_BYTES, REGISTERS, mark, mark_region

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.cached_memory import CachedMemory, proof_of
from cnna.host.native.cache import own_cache
from cnna.spec.config import Config
from cnna.spec.errors import RunError
from cnna.spec.identity import capability_words
from cnna.spec.regmap import PLACES, SPACE_BYTES, offset
from cnna.spec.regmap import REGISTERS as FIELDS

PAGE = 4096
CORES = 4  # of a ZCU102, whatever this machine has


class _Bo:
    """Stands for XRT's buffer object. Its `sync` is one call of native code, and the kernel cleans or drops every line."""

    def __init__(self, size: int) -> None:
        self.lines = -(-size // LINE_BYTES)

    def sync(self, direction: int) -> None:
        """Counted, not done: emulation of user code has no caches."""
        mark(CLEAN_LINES, self.lines)


class _Memory:
    """What a pynq buffer belongs to."""


class _Device:
    """A local pynq device. Its `flush` and `invalidate` are those of pynq's devices under XRT."""

    def __init__(self, pool_bytes: int) -> None:
        self._registers = mmap.mmap(-1, SPACE_BYTES)
        self._pool, self._next = mmap.mmap(-1, pool_bytes), 0
        self._cached = mmap.mmap(-1, pool_bytes)  # memory like any other to the processor
        self.words = np.frombuffer(self._registers, np.uint32)
        self._bytes = np.frombuffer(self._pool, np.uint8)
        for region, memory in ((REGISTERS, self.words), (BUFFERS, self._bytes)):
            mark_region(region, memory.ctypes.data, memory.nbytes)

    def has_capability(self, name: str) -> bool:
        """As pynq's `EmbeddedDevice`."""
        return name == "MEMORY_MAPPED"

    def mmap(self, base: int, size: int) -> Any:
        """The registers."""
        return self.words

    def allocate_cached(self, size: int) -> Any:
        """A pynq buffer as `cacheable=1` gives it."""
        return self.allocate(size, self._cached)

    def allocate(self, size: int, pool: Any = None) -> Any:
        """A pynq buffer of bytes."""
        from pynq.buffer import PynqBuffer

        start, self._next = self._next, self._next + -(-size // PAGE) * PAGE
        memory = self._pool if pool is None else pool
        buffer = PynqBuffer((size,), np.uint8, buffer=memory, offset=start, device=self, device_address=PAGE + start, bo=_Bo(size))
        buffer.freed, buffer.memory = True, _Memory()  # it has nothing to give back
        return buffer

    def flush(self, bo: _Bo, at: int, address: int, size: int) -> None:
        """To the accelerator."""
        try:
            bo.sync(0)
        except Exception as error:
            raise RuntimeError(f"Buffer Flush Failed: {error}") from error

    def invalidate(self, bo: _Bo, at: int, address: int, size: int) -> None:
        """From the accelerator."""
        try:
            bo.sync(1)
        except Exception as error:
            raise RuntimeError(f"Buffer Invalidate Failed: {error}") from error


def open_board(config: Config, pynq: Path, pool_bytes: int, cached: bool = False) -> BoardDevice:
    """The board. pynq: the folder of pynq's package. cached: a self-test has proved that memory may be. RunError: nobody plays the
    accelerator.
    """
    package = ModuleType("pynq")
    package.__path__ = [str(pynq)]
    sys.modules["pynq"] = package  # so that its modules can be imported without its __init__
    from pynq.mmio import MMIO

    device = _Device(pool_bytes)
    for name, word in capability_words(config).items():
        device.words[offset(name) >> 2] = word
    device.words[offset("QUEUE") >> 2] = FIELDS["QUEUE"].pack(places=PLACES)
    mmio = MMIO(PAGE, SPACE_BYTES, device)
    mmio.write(offset("CTRL"), FIELDS["CTRL"].pack(start=1))
    if not FIELDS["STATUS"].unpack(mmio.read(offset("STATUS")))["done"]:
        raise RunError("the plugin does not play the accelerator: its arguments or QEMU's guest base are wrong")
    mmio.write(offset("STATUS"), FIELDS["STATUS"].pack(done=1))
    board = BoardDevice(mmio, device, device.allocate, uncached=True, caching=_caching(device) if cached else None)
    board.threads = CORES
    return board


def _caching(device: _Device) -> CachedMemory:
    own = own_cache()
    assert own is not None, "without the native library nothing maintains the cache"
    proof = proof_of(None, "", Path(tempfile.mkdtemp()))
    proof.keep()
    return CachedMemory(device.allocate_cached, own, proof)
