"""Finds the file by which Linux tells a program of the accelerator's interrupt: a UIO device. Without one, STATUS is polled.

bitstreams/build.tcl connects `interrupt` to the first of the lines from the PL to the processor. PYNQ's images bring a device
for that line (`fabric`); on others a device tree overlay makes one (docs/board.md). Where an AXI interrupt controller is between,
its own registers would have to be set for every interrupt; that is not done.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cnna.spec.boards import PL_PS_IRQ0


@dataclass(frozen=True)
class Places:
    """Where Linux shows its UIO devices and interrupts."""

    classes: Path = Path("/sys/class/uio")
    interrupts: Path = Path("/proc/interrupts")
    devices: Path = Path("/dev")


@dataclass(frozen=True)
class Interrupt:
    """The UIO device of the accelerator's interrupt. path: its file; None: there is none, and `why` says the reason."""

    path: Path | None
    why: str = ""

    def open(self) -> int:
        """A file descriptor for the run loop, which closes it; -1: STATUS is polled."""
        try:
            return -1 if self.path is None else os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return -1

    def __str__(self) -> str:
        """For `cnna board info`."""
        return f"by interrupt, through {self.path}" if self.path else f"by polling: {self.why}"


HERE = Places()
POLLED = Interrupt(None, "the registers are not those of this machine")


def interrupt_of(base: int, controller: str = "", places: Places = HERE) -> Interrupt:
    """The device whose interrupt is the accelerator's line, else the one whose registers are at `base`.

    controller: the AXI interrupt controller between the accelerator and the processor, if there is one.
    """
    if controller:
        return Interrupt(None, f"{controller}, an AXI interrupt controller, is between accelerator and processor")
    named = list(_named(places.classes))  # several may have one name: a device tree's name of a node, without its address
    names = _names_of(PL_PS_IRQ0, places.interrupts)
    of_line = [entry for entry, name in named if name in names]
    at_base = [entry for entry, _ in named if _first_address(entry) == base]
    paths = [places.devices / entry.name for entry in (*of_line, *at_base)]
    for path in paths:
        if (file := (found := Interrupt(path)).open()) >= 0:
            os.close(file)
            return found
    if paths:
        return Interrupt(None, f"{paths[0]} is not there, or this user may not read and write it")
    return Interrupt(None, f"Linux has no UIO device for interrupt {PL_PS_IRQ0} (docs/board.md)")


def _named(classes: Path) -> Iterator[tuple[Path, str]]:
    """The UIO devices, by their numbers, and their names."""
    with suppress(OSError):
        for entry in sorted(classes.iterdir(), key=lambda entry: (len(entry.name), entry.name)):
            if name := _read(entry / "name"):
                yield entry, name


def _first_address(entry: Path) -> int | None:
    """The bus address of a device's first window."""
    try:
        return int(_read(entry / "maps" / "map0" / "addr"), 0)
    except ValueError:
        return None


def _names_of(number: int, interrupts: Path) -> list[str]:
    """The names that drivers gave an interrupt: '45:  0  0  GICv2 121 Level  fabric', or 'fabric, other' where two share it."""
    found = re.findall(rf"\s{number}\s+(?:Level|Edge)\s+(.+)", _read(interrupts))
    return [name.strip() for names in found for name in names.split(",")]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
