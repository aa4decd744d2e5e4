"""Boards for tests of the driver, without pynq: the emulator behind an MMIO object and buffers with caches of their own."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Protocol

import numpy as np
import pytest

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.mover import reset_dma
from cnna.host.board.stream_device import StreamDevice
from cnna.sim.board.board import VirtualBoard, open_board
from cnna.sim.board.cells import ACCELERATOR, DMA
from cnna.sim.board.rtl_backend import RtlBackend
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.config import preset
from cnna.spec.regmap import REGISTERS, offset

STANDING = (  # what every time-out must say after the model of hand_made.py was started
    "at program write", "layer copy", "engines:", "STATUS", "ERROR none", "ERROR_INFO", "port 0: 0 reads, 0 writes outstanding",
)  # fmt: skip

_numbers = itertools.count()


@contextmanager
def hanging(board: BoardDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No run that begins in the block is seen to end."""
    read, finished = board.mmio.read, board.read(offset("FINISHED"))
    ends = REGISTERS["STATUS"].pack(done=1, error=1)

    def seen(at: int) -> int:
        return finished if at == offset("FINISHED") else int(read(at)) & ~(ends if at == offset("STATUS") else 0)

    with monkeypatch.context() as patch:
        patch.setattr(board.mmio, "read", seen)
        yield


class Memory(Protocol):
    """The memory that the accelerator sees."""

    def store(self, address: int, data: np.ndarray) -> None: ...

    def load(self, address: int, size_bytes: int) -> bytes: ...


class Dram:
    """The memory of a virtual board."""

    def __init__(self, board: VirtualBoard) -> None:
        self.board = board

    def store(self, address: int, data: np.ndarray) -> None:
        self.board.dram.view(address, data.size)[:] = data

    def load(self, address: int, size_bytes: int) -> bytes:
        return self.board.dram.view(address, size_bytes).tobytes()


class Buffer(np.ndarray):
    """A buffer as `pynq.allocate` gives it: the host sees its own copy until `flush` or `invalidate`."""

    device: Memory
    physical_address: int
    free: Callable[[], None]
    freed: list[int]  # addresses given back, of all buffers of its board

    def flush(self) -> None:
        self.device.store(self.physical_address, np.asarray(self))

    def invalidate(self) -> None:
        self[:] = np.frombuffer(self.device.load(self.physical_address, self.size), np.uint8)

    def freebuffer(self) -> None:
        self.freed.append(self.physical_address)
        self.free()


class Served:
    """Stands for pynq in front of a driver, for the accelerator of a `sim.board.board.VirtualBoard` in the same process."""

    def __init__(self, board: VirtualBoard) -> None:
        self.board, self.freed = board, list[int]()
        board.fabric.programmed = True

    def mmio(self, cell: str, base: int) -> SimpleNamespace:
        """The registers of a cell; `base` names the file of the turn."""
        window = next(window for window in self.board.design.registers() if window.slave_cell == cell)
        return SimpleNamespace(
            base_addr=base,
            read=lambda offset: self.board.fabric.read(window.base + offset),
            write=lambda offset, value: self.board.fabric.write(window.base + offset, value),
        )

    def buffer(self, size: int) -> Buffer:
        """A buffer, as `pynq.allocate` gives it."""
        made = self.board.dram.allocate(size, "test:1")
        buffer = np.zeros(size, np.uint8).view(Buffer)
        buffer.physical_address, buffer.freed = made.address, self.freed
        buffer.device = Dram(self.board)
        buffer.free = lambda: self.board.dram.free(made.name)
        return buffer


class ServedBoard(BoardDevice):
    """The accelerator of a board in the same process; what pynq does in between is left out."""

    def __init__(self, board: VirtualBoard) -> None:
        self.board, self.served = board, Served(board)
        super().__init__(self.served.mmio(ACCELERATOR, lock_base()), None, self.served.buffer)


class StreamedBoard(StreamDevice):
    """The same for a board of variant `pl`. `base`: that of another process on the same board."""

    def __init__(
        self, board: VirtualBoard | None = None, base: int | None = None, parameters: dict[str, str] | None = None
    ) -> None:
        self.board = board or open_board(preset("tiny"), "pl", "emulator", 16 << 20)
        self.base = lock_base() if base is None else base
        self.served = Served(self.board)
        super().__init__(self.served.mmio(ACCELERATOR, self.base), None, self.served.buffer, self._open_dma, parameters)

    def _open_dma(self) -> SimpleNamespace:
        mmio = self.served.mmio(DMA, self.base)
        reset_dma(mmio)
        return SimpleNamespace(sendchannel=Channel(mmio, 0), recvchannel=Channel(mmio, 0x30), read=mmio.read, write=mmio.write)


class Channel:
    """One direction of `pynq.lib.dma.DMA`, as its simple mode works."""

    def __init__(self, mmio: SimpleNamespace, base: int) -> None:
        self.mmio, self.base, self.transferred, self._first = mmio, base, 0, True
        mmio.write(base, 1)

    def transfer(self, buffer: Buffer) -> None:
        status = self.mmio.read(self.base + 4)
        if status & 1 or not (status & 2 or self._first):
            raise RuntimeError("DMA channel not started" if status & 1 else "DMA channel not idle")
        self._first, self._buffer = False, buffer
        if not self.base:
            buffer.flush()
        self.mmio.write(self.base + 0x18, buffer.physical_address & 0xFFFF_FFFF)
        self.mmio.write(self.base + 0x1C, buffer.physical_address >> 32)
        self.mmio.write(self.base + 0x28, buffer.nbytes)

    def wait(self) -> None:
        assert self.mmio.read(self.base + 4) & 2, "it would wait for ever"
        if self.base:
            self._buffer.invalidate()
        self.transferred = self.mmio.read(self.base + 0x28)


@contextmanager
def short_resets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives up soon on soft resets that the bus holds up. Only for a bus that is silent: a loaded machine may need seconds."""
    with monkeypatch.context() as patch:
        patch.setattr("cnna.host.board.board_device.SETTLE_SECONDS", 0.3)
        yield


@contextmanager
def simulated(backend: RtlBackend) -> Iterator[CosimDevice]:
    """The simulator of a board while its clock rests: for faults and delays, of which the board knows nothing."""
    with backend.exclusive() as device:
        assert isinstance(device, CosimDevice)
        yield device


def lock_base() -> int:
    """The base of a lock file that no other test has."""
    return os.getpid() << 24 | next(_numbers)


class EmulatedBoard(BoardDevice):
    """A board with the `emulator` behind it and `room` bytes of contiguous memory; `freed` lists addresses given back."""

    def __init__(self, room: int = 1 << 24, parameters: dict[str, str] | None = None) -> None:
        self.emulator, self.room, self.freed = EmulatorDevice(preset("tiny"), room), room, list[int]()
        mmio = SimpleNamespace(base_addr=lock_base(), read=self.emulator.read, write=self.emulator.write)
        super().__init__(mmio, None, self._buffer, parameters)

    def _buffer(self, size: int) -> Buffer:
        buffer = np.full(size, 0xAA, np.uint8).view(Buffer)
        buffer.device, buffer.freed = self.emulator, self.freed
        buffer.physical_address, buffer.free = self.emulator.allocate(size), lambda: None
        return buffer
