"""`Backend`: the accelerator behind the virtual board: the emulator or the simulated RTL. `open_backend` opens one by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board.dma import Sink, Source
from cnna.sim.board.emulator_backend import EmulatorBackend
from cnna.sim.board.rtl_backend import RtlBackend
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.memory import DDR_BASE
from cnna.spec.config import Config

BACKENDS = ("rtl", "emulator")

Say = Callable[[str], None]


class Streams(Sink, Source, Protocol):
    """The accelerator's end of both streams."""


class Backend(Protocol):
    """One accelerator as a slave of the fabric (`fabric.Slave`), and the memory that its masters see."""

    data: NDArray[np.uint8]
    base: int

    @property
    def streams(self) -> Streams | None:
        """The ends of the accelerator's, where it has them."""

    def read(self, offset: int) -> int:
        """A register. RefusedError: the bus answers with an error, or the simulation has died."""

    def write(self, offset: int, value: int) -> None:
        """Sets a register. RefusedError: as `read`."""

    def reset(self) -> None:
        """What loading an image does to it."""

    def close(self) -> None:
        """Ends it."""


def open_backend(
    name: str,
    config: Config,
    memory_bytes: int,
    cache: Path | None = None,
    say: Say | None = None,
    base: int = DDR_BASE,
    ddr: dict[str, int] | None = None,
) -> Backend:
    """One of BACKENDS, its memory from bus address `base` on; `ddr`: of `sim.rtl.ddr.SETTINGS`, for the RTL.

    ToolError, RunError: the simulator cannot be built or started.
    """
    if name == "emulator":
        return EmulatorBackend(EmulatorDevice(config, memory_bytes, base=base))
    from cnna.sim.rtl.cosim import CosimDevice

    return RtlBackend(CosimDevice(config, memory_bytes, cache=cache, say=say, base=base, ddr=ddr))
