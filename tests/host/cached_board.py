"""A mapped board whose cached memory is not coherent: host and accelerator have a copy each, and a model of a cache between them.

A forgotten line changes an answer, because the model does what a cache may do at any time. It evicts dirty lines, which writes
them to the accelerator's copy. It fetches clean lines of what the accelerator writes, before a run and after it.
"""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.cached_memory import CachedMemory, Proof
from cnna.host.native.cache import Cache
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import Config, preset
from cnna.spec.regmap import REGISTERS, offset

from .emulated_board import lock_base
from .mapped_board import MappedBoard, Page

LINE = 64
Bytes = NDArray[np.uint8]


class Region(NamedTuple):
    """Both copies of one buffer, and what the host's copy was when its lines were last equal to DDR, or fetched from it."""

    address: int  # in the host's memory
    bus: int
    host: Bytes
    device: Bytes
    clean: Bytes


class CacheModel:
    """The processor's cache. forget: "clean" or "invalidate": each call forgets one line, in turn."""

    def __init__(self, seed: int, forget: str) -> None:
        self.forget, self.regions, self._calls = forget, list[Region](), 0
        self.invalidated_bytes = 0
        self._random, self._moving = np.random.default_rng(seed), threading.Lock()

    def add(self, region: Region) -> None:
        """Memory that somebody else had before: all of its lines are dirty."""
        region.host[:] = self._random.integers(0, 256, region.host.size)
        region.clean[:] = ~region.host
        self.regions.append(region)

    def clean(self, address: int, size: int) -> None:
        """DC CVAC: lines are written to DDR, and stay."""
        with self._moving:
            for region, line in self._lines(address, size, "clean"):
                self._write_back(region, line)

    def invalidate(self, address: int, size: int) -> None:
        """DC CIVAC: a dirty line is written to DDR, then each is fetched from there."""
        with self._moving:
            self.invalidated_bytes += size
            for region, line in self._lines(address, size, "invalidate"):
                if self._dirty(region, line):
                    self._write_back(region, line)
                self._fetch(region, line)

    def stir(self, written: int) -> None:
        """What a cache may do at any time. written: the bus address of what the accelerator writes."""
        with self._moving:
            for region in self.regions:
                for at in range(0, region.host.size, LINE):
                    line = slice(at, at + LINE)
                    if self._dirty(region, line) and self._random.integers(2):
                        self._write_back(region, line)
                    elif region.bus == written and not self._dirty(region, line) and self._random.integers(2):
                        self._fetch(region, line)

    def _lines(self, address: int, size: int, call: str) -> list[tuple[Region, slice]]:
        """The lines that hold some bytes, but the forgotten one."""
        region = next(r for r in self.regions if r.address <= address < r.address + r.host.size)
        first = (address - region.address) // LINE * LINE
        lines = [slice(at, at + LINE) for at in range(first, address - region.address + size, LINE)]
        if call == self.forget:
            self._calls += 1
            lines.pop(self._calls % len(lines))
        return [(region, line) for line in lines]

    @staticmethod
    def _dirty(region: Region, line: slice) -> bool:
        return not np.array_equal(region.host[line], region.clean[line])

    @staticmethod
    def _write_back(region: Region, line: slice) -> None:
        region.clean[line] = region.host[line]  # first: the host may write meanwhile
        region.device[line] = region.clean[line]

    @staticmethod
    def _fetch(region: Region, line: slice) -> None:
        region.host[line] = region.clean[line] = region.device[line]


class Stirred(EmulatorDevice):
    """An emulator beside a cache, which does as it likes before and after each run."""

    cache: CacheModel

    def write(self, at: int, value: int) -> None:
        started = at == offset("CTRL") and bool(REGISTERS["CTRL"].unpack(value)["start"])
        written = self.read(offset("SEG_OUTPUT_LO")) | self.read(offset("SEG_OUTPUT_HI")) << 32
        if started:
            self.cache.stir(written)
        super().write(at, value)
        if started:
            self.cache.stir(written)


class CachedBuffer(np.ndarray):
    """The host's copy of a buffer, as `pynq.allocate` gives it with cacheable=1."""

    physical_address: int
    board: "CachedBoard"

    def flush(self) -> None:
        """As the kernel does it, for the whole buffer."""
        self.board.model.clean(self.ctypes.data, self.size)

    def invalidate(self) -> None:
        """As the kernel does it, for the whole buffer."""
        self.board.model.invalidate(self.ctypes.data, self.size)

    def freebuffer(self) -> None:
        self.board.model.regions = [r for r in self.board.model.regions if r.bus != self.physical_address]
        self.board.freed.append(self.physical_address)


class CachedBoard(MappedBoard):
    """A mapped board with memory of both kinds. folder: of its proof, which stands if it is `proved`. shift: bytes of a buffer's
    first line before it.
    """

    def __init__(
        self, folder: Path, proved: bool = True, seed: int = 0, forget: str = "", shift: int = 0, config: Config | None = None
    ) -> None:
        self.emulator, self.freed = Stirred(config or preset("tiny"), 1 << 22), list[int]()
        self.emulator.cache = self.model = CacheModel(seed, forget)
        self.page, self.shift = Page(self.emulator), shift
        mmio = SimpleNamespace(base_addr=lock_base(), read=self.page.read, write=self.page.write, array=self.page.array)
        proof = Proof(folder, {"board": "a model"})
        if proved:
            proof.keep()
        caching = CachedMemory(self._cached, Cache(LINE, self.model.clean, self.model.invalidate), proof)
        BoardDevice.__init__(self, mmio, None, self._buffer, uncached=True, caching=caching)

    def _cached(self, size: int) -> Any:
        seen = self._buffer(size)
        room = np.zeros(size + 2 * LINE, np.uint8)
        start = -room.ctypes.data % LINE + self.shift
        buffer = room[start : start + size].view(CachedBuffer)
        buffer.physical_address, buffer.board = seen.physical_address, self
        host = np.asarray(buffer)
        self.model.add(Region(host.ctypes.data, buffer.physical_address, host, np.asarray(seen), np.empty_like(host)))
        return buffer
