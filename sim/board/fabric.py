"""The virtual board's registers by physical address: those of the programmable logic, and those of the PS that pynq sets.

The accelerator is a `Slave` like the others (`board.Backend`).
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from cnna.sim.board.cells import IOPLL_FEEDBACK
from cnna.sim.board.refused import RefusedError, early, invalid


class Slave(Protocol):
    """32-bit registers at byte offsets. RefusedError: no such register, or the access is refused."""

    def read(self, offset: int) -> int:
        """A register's word."""

    def write(self, offset: int, value: int) -> None:
        """Sets a register."""


class SlaveWindow(NamedTuple):
    """The addresses base..base+size-1 of a slave. logic: whether it exists only after an image has been downloaded."""

    name: str
    base: int
    size: int
    slave: Slave
    logic: bool


class KeptRegisters:
    """Registers that keep the value written to them."""

    def __init__(self, words: Mapping[int, int] | None = None) -> None:
        self.words = dict(words or {})

    def read(self, offset: int) -> int:
        """The word that was written last, or 0."""
        return self.words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Keeps the word."""
        self.words[offset] = value


class Leds:
    """An axi_gpio whose pins are outputs. Its data register has one bit for each pin."""

    def __init__(self, width: int) -> None:
        self.width, self.value = width, 0

    def read(self, offset: int) -> int:
        """The pins; other registers read 0."""
        return self.value if offset == 0 else 0

    def write(self, offset: int, value: int) -> None:
        """Sets the pins. Writes to other registers do nothing, as in a core with outputs only."""
        if offset == 0:
            self.value = value & ((1 << self.width) - 1)


def processing_system() -> list[SlaveWindow]:
    """Clock and port-width registers of the PS, as a booted board has them: IOPLL at 1.5 GHz, PL clocks at 100 MHz."""
    pll = 1 << 16 | IOPLL_FEEDBACK << 8  # DIV2, FBDIV
    pl_clock = 1 << 24 | 1 << 16 | 15 << 8  # CLKACT, DIVISOR1, DIVISOR0
    crl = KeptRegisters({0x20: pll, 0x30: pll, 0xC0: pl_clock, 0xC4: pl_clock, 0xC8: pl_clock, 0xCC: pl_clock})
    crf = KeptRegisters({0x20: pll, 0x2C: pll, 0x38: pll, 0x60: 1 << 8})
    windows = [SlaveWindow("CRL_APB", 0xFF5E_0000, 0x1000, crl, False), SlaveWindow("CRF_APB", 0xFD1A_0000, 0x1000, crf, False)]
    for name, base in (("FPD_SLCR", 0xFD61_0000), ("LPD_SLCR", 0xFF41_0000)):
        windows.append(SlaveWindow(name, base, 0x1_0000, KeptRegisters(), False))
    return windows + [SlaveWindow(f"AFIFM{i}", 0xFD36_0000 + i * 0x1_0000, 0x1000, KeptRegisters(), False) for i in range(6)]


class Fabric:
    """All windows. Accesses are aligned 32-bit words. programmed: whether an image is loaded."""

    def __init__(self, windows: list[SlaveWindow]) -> None:
        self.windows = windows
        self.programmed = False

    def check(self, base: int, size: int) -> None:
        """RefusedError: not all of these addresses are within one window."""
        self._window(base, max(size, 4))

    def read(self, address: int) -> int:
        """Reads a word. RefusedError: no window has this address."""
        window = self._ready(address)
        return window.slave.read(address - window.base)

    def write(self, address: int, value: int) -> None:
        """Sets a word. RefusedError: as `read`."""
        window = self._ready(address)
        window.slave.write(address - window.base, value & 0xFFFF_FFFF)

    def _ready(self, address: int) -> SlaveWindow:
        window = self._window(address, 4)
        if window.logic and not self.programmed:
            raise early(f"{window.name} at {address:#x} does not answer: no image is loaded; download cnna.bit first")
        return window

    def _window(self, base: int, size: int) -> SlaveWindow:
        if base % 4:
            raise invalid(f"address {base:#x} is not a multiple of 4")
        for window in self.windows:
            if window.base <= base and base + size <= window.base + window.size:
                return window
        raise _nothing(base, size, self.windows)


def _nothing(base: int, size: int, windows: list[SlaveWindow]) -> RefusedError:
    known = ", ".join(f"{window.name} {window.base:#x}..{window.base + window.size - 1:#x}" for window in windows if window.logic)
    return invalid(f"addresses {base:#x}..{base + size - 1:#x} are not mapped; the programmable logic has {known}")
