"""A board for tests of the driver, without pynq: the emulator behind an MMIO object and buffers with caches of their own."""

import itertools
import os
from types import SimpleNamespace

import numpy as np

from cnna.host.board_device import BoardDevice
from cnna.hw.config import preset
from cnna.sim.board.board import Board
from cnna.sim.emulator import EmulatorDevice

_numbers = itertools.count()


class Buffer(np.ndarray):
    """What `pynq.allocate` gives: the host sees its own copy until `flush` or `invalidate`."""

    def flush(self) -> None:
        self.device.store(self.physical_address, np.asarray(self))

    def invalidate(self) -> None:
        self[:] = np.frombuffer(self.device.load(self.physical_address, self.size), np.uint8)

    def freebuffer(self) -> None:
        self.freed.append(self.physical_address)


class ServedBoard(BoardDevice):
    """The accelerator of a `sim.board.board.Board`, in the same process: what pynq does in between is left out."""

    def __init__(self, board: Board) -> None:
        window = board.design.registers()[0]
        mmio = SimpleNamespace(
            base_addr=os.getpid() << 24 | next(_numbers),
            read=lambda offset: board.fabric.read(window.base + offset),
            write=lambda offset, value: board.fabric.write(window.base + offset, value),
        )
        self.board, self.freed = board, []
        board.fabric.programmed = True
        super().__init__(mmio, None, self._buffer)

    def _buffer(self, size: int) -> Buffer:
        made = self.board.dram.allocate(size, "test:1")
        buffer = np.zeros(size, np.uint8).view(Buffer)
        buffer.physical_address, buffer.freed = made.address, self.freed
        buffer.device = SimpleNamespace(
            store=lambda address, data: self.board.dram.view(address, size).__setitem__(slice(None), data),
            load=lambda address, count: self.board.dram.view(address, count).tobytes(),
        )
        return buffer


class EmulatedBoard(BoardDevice):
    """`emulator` is behind it; `room` bytes of contiguous memory; `freed` lists addresses given back."""

    def __init__(self, room: int = 1 << 24, parameters: dict[str, str] | None = None) -> None:
        self.emulator, self.room, self.freed = EmulatorDevice(preset("tiny"), room), room, []
        base = os.getpid() << 24 | next(_numbers)  # of a lock file that no other test has
        mmio = SimpleNamespace(base_addr=base, read=self.emulator.read, write=self.emulator.write)
        super().__init__(mmio, None, self._buffer, parameters)

    def _buffer(self, size: int) -> Buffer:
        buffer = np.full(size, 0xAA, np.uint8).view(Buffer)
        buffer.device, buffer.freed = self.emulator, self.freed
        buffer.physical_address = self.emulator.allocate(size)
        return buffer
