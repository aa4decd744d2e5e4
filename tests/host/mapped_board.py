"""A board whose registers and memory the process has mapped, as on a real board: the native run loop drives it.

Memory tells nobody of an access. So a thread looks at the registers' page again and again, carries what the host has written to the
emulator, and shows what a host reads. A STATUS other than 0 carries a mark that hosts ignore: a host writes words without it.
"""

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, SPACE_BYTES, offset, there

from .emulated_board import lock_base

LOOK_SECONDS = 20e-6
CTRL, STATUS, FINISHED, MARK = offset("CTRL") // 4, offset("STATUS") // 4, offset("FINISHED") // 4, 1 << 31
AT_WORK = SPACE_BYTES // 4 - 1  # no register: is not 0 while the thread does what CTRL asks for
BY_HOST = [
    r
    for r in REGISTERS.values()
    if r.block == "general" and r.name not in ("CTRL", "STATUS") and all(f.access == "rw" for f in r.fields)
]


class MappedBuffer(np.ndarray):
    """Memory of the board as `pynq.allocate` gives it: not cached, so that both sides see it at once."""

    physical_address: int
    freed: list[int]

    def flush(self) -> None:
        """Does nothing, as pynq does for such memory."""

    def invalidate(self) -> None:
        """Does nothing, as pynq does for such memory."""

    def freebuffer(self) -> None:
        self.freed.append(self.physical_address)


class Page:
    """The registers as a page of memory, and the thread behind it. `stuck`: programs are started, and never end.

    array: the page, where others map it too. FINISHED is shown last, since a host with a queue waits for it.
    """

    def __init__(self, emulator: EmulatorDevice, array: NDArray[np.uint32] | None = None) -> None:
        self.emulator, self.stuck, self.starts, self.resets = emulator, False, 0, 0
        self.array = np.zeros(SPACE_BYTES // 4, np.uint32) if array is None else array
        self._hosts = [r for r in BY_HOST if not r.name.startswith("STREAM_")]
        own = [REGISTERS[name] for name in ("CTRL", "STATUS", "FINISHED")]
        self._shown = [r for r in there(emulator.config.codebook) if r not in self._hosts and r not in own]
        for register in self._hosts:
            self.array[register.offset // 4] = emulator.read(register.offset)
        self._show()
        self._over = False
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over = True
        self._thread.join()

    def read(self, at: int) -> int:
        """As pynq's MMIO reads, without the mark."""
        return int(self.array[at // 4]) & ~(MARK if at // 4 == STATUS else 0)

    def write(self, at: int, value: int) -> None:
        """As pynq's MMIO writes; returns when the accelerator has seen it, as a bus does."""
        self.array[at // 4] = value
        while at // 4 in (CTRL, STATUS) and not seen(self.array):
            time.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        while not self._over:
            if (word := int(self.array[STATUS])) and not word & MARK:
                self.emulator.write(offset("STATUS"), word)
                self._show()
            if asked := int(self.array[CTRL]):
                self.array[AT_WORK] = 1
                for register in self._hosts:
                    self.emulator.write(register.offset, int(self.array[register.offset // 4]))
                self.array[CTRL] = 0  # now, because the host may write again meanwhile
                self._controlled(asked)
                self.array[AT_WORK] = 0
            time.sleep(LOOK_SECONDS)

    def _controlled(self, asked: int) -> None:
        fields = REGISTERS["CTRL"].unpack(asked)
        started = bool(fields["start"] or fields["queue"])
        self.starts += started
        self.resets += fields["soft_reset"]
        if started and self.stuck:
            self.array[STATUS] = MARK | REGISTERS["STATUS"].pack(busy=1)
        else:
            self.emulator.write(offset("CTRL"), asked)
            self._show()

    def _show(self) -> None:
        """STATUS and FINISHED last, since a host waits for them."""
        for register in self._shown:
            self.array[register.offset // 4] = self.emulator.read(register.offset)
        status = self.emulator.read(offset("STATUS"))
        self.array[STATUS] = status and MARK | status
        self.array[FINISHED] = self.emulator.read(offset("FINISHED"))


def seen(array: NDArray[np.uint32]) -> bool:
    """Whether the accelerator has taken what a host wrote to CTRL and STATUS."""
    return not array[CTRL] and not array[AT_WORK] and (not array[STATUS] or bool(array[STATUS] & MARK))


class MappedBoard(BoardDevice):
    """A board with the emulator behind a page of registers; `freed` lists addresses given back."""

    def __init__(self, room: int = 1 << 22) -> None:
        self.emulator, self.freed = EmulatorDevice(preset("tiny"), room), list[int]()
        self.page = Page(self.emulator)
        mmio = SimpleNamespace(base_addr=lock_base(), read=self.page.read, write=self.page.write, array=self.page.array)
        super().__init__(mmio, None, self._buffer, uncached=True)

    def shut(self) -> None:
        """Ends the thread behind the registers."""
        self.page.close()

    def _buffer(self, size: int) -> Any:
        address = self.emulator.allocate(size)
        start = address - self.emulator.base
        if start + size > len(self.emulator.data):
            raise RunError("no memory")
        buffer = self.emulator.data[start : start + size].view(MappedBuffer)
        buffer.physical_address, buffer.freed = address, self.freed
        return buffer
