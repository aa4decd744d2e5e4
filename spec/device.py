"""What a driver needs of a device: registers, memory and waiting. The emulator, the simulated RTL and boards are devices.

Every device is a `Device`. Some simulated devices are also a `Recorder` or a `Profiler`: ask with `isinstance`.
"""

import time
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cnna.spec.artifact import ProgramPiece
from cnna.spec.config import Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import RunError, TimedOutError
from cnna.spec.progress import Played, standing
from cnna.spec.regmap import REGISTERS, offset

LOOK_SECONDS = 1e-3  # between two reads of STATUS during a soft reset


class Device(Protocol):
    """One accelerator and its DDR. Addresses are bus addresses in bytes."""

    name: str  # what figures and messages call it
    config: Config  # read from the capability registers
    ddr: DdrSpeed  # the speed of its DDR
    playing: Played | None  # the program started last: whoever starts one sets this; messages about time-outs use it

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
        """Frees the device and ends its processes."""


@runtime_checkable
class MovesCached(Protocol):
    """A device that has better memory for what the host writes and reads at every run."""

    def allocate_moved(self, size_bytes: int) -> int:
        """As `Device.allocate`."""


@runtime_checkable
class Recorder(Protocol):
    """A device that can record every word that it writes, for `--check`. `sim.check` knows the form of each device's record."""

    def start_log(self) -> None:
        """Records every write from now on, and drops earlier records."""


@runtime_checkable
class Profiler(Protocol):
    """A device that can say where the clocks of the last run went."""

    def profile(self, program: ProgramPiece) -> list[dict[str, Any]]:
        """The cycles, stalls by cause and DDR bytes of each layer of the program that ran last."""

    def timeline(self) -> list[tuple[int, str, int]]:
        """(clock since the last start, engine, units finished by then), each time an engine finishes units, in order of time."""

    def weights(self, program: ProgramPiece) -> list[tuple[int, int]]:
        """The clocks of the first and the last beat that each weight command of the program brought."""


def soft_reset(device: Device, settle_seconds: float) -> None:
    """Stops what runs, and clears everything but the registers that the host sets. TimedOutError: a burst has no answer."""
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
    """The part of a device that `state_of` needs."""

    playing: Played | None

    def read(self, offset: int) -> int:
        """A register."""


def state_of(device: Readable) -> str:
    """`progress.standing` of a device, for the message of a time-out. It says so if the registers cannot be read either."""
    try:
        return standing(lambda name: REGISTERS[name].unpack(device.read(offset(name))), device.playing)
    except RunError as error:
        return f"and its registers cannot be read: {error}"
