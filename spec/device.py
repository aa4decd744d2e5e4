"""What a driver needs of a device: registers, memory and waiting. The emulator, the simulated RTL and boards are ones."""

import time
from typing import Protocol

import numpy as np

from cnna.spec.config import Config
from cnna.spec.errors import RunError, TimedOutError
from cnna.spec.planned import DdrSpeed
from cnna.spec.progress import Played, standing
from cnna.spec.regmap import REGISTERS, offset

LOOK_SECONDS = 1e-3  # between two looks at whether a soft reset has ended


class Device(Protocol):
    """One accelerator with the DDR it sees. Addresses are bus addresses in bytes."""

    config: Config  # read from the capability registers
    ddr: DdrSpeed  # what is behind it
    playing: Played | None  # what was started last: whoever starts it says so here, for time-outs to tell

    def read(self, offset: int) -> int:
        """The 32-bit register at a byte offset."""

    def write(self, offset: int, value: int) -> None:
        """Sets the 32-bit register at a byte offset. RunError: the bus answers with an error."""

    def allocate(self, size_bytes: int) -> int:
        """Address of fresh memory, aligned to 4096 bytes."""

    def store(self, address: int, data: bytes | np.ndarray) -> None:
        """Copies bytes into memory."""

    def load(self, address: int, size_bytes: int) -> bytes:
        """Copies bytes out of memory."""

    def wait(self) -> None:
        """Returns when STATUS has done or error set. RunError: the device itself has died."""

    def close(self) -> None:
        """Frees the device; ends its processes."""


def soft_reset(device: Device, settle_seconds: float) -> None:
    """Stops what runs and clears all but the registers that the host sets. TimedOutError: a burst on the bus is never answered."""
    device.write(offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1))
    until = time.monotonic() + settle_seconds
    while REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["resetting"]:
        if time.monotonic() > until:
            raise TimedOutError(
                f"a soft reset has not ended after {settle_seconds:g} s: the bus owes an answer; load the overlay again; "
                f"{state_of(device)}"
            )
        time.sleep(LOOK_SECONDS)


class Readable(Protocol):
    """What `state_of` needs of a device."""

    playing: Played | None

    def read(self, offset: int) -> int:
        """A register."""


def state_of(device: Readable) -> str:
    """`progress.standing` of a device, for its time-outs: where its registers cannot be read either, that."""
    try:
        return standing(lambda name: REGISTERS[name].unpack(device.read(offset(name))), device.playing)
    except RunError as error:
        return f"and its registers cannot be read: {error}"
