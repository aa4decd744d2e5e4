"""`VirtualBoard`: a board without its network: files, memory, registers and the accelerator. `services` and tests use it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board import image
from cnna.sim.board.blocks import Design
from cnna.sim.board.cells import ACCELERATOR, DMA, LEDS
from cnna.sim.board.design import design
from cnna.sim.board.dma import Dma, Sink, Source
from cnna.sim.board.dram import Dram
from cnna.sim.board.emulator_backend import EmulatorBackend
from cnna.sim.board.fabric import Fabric, Leds, Slave, SlaveWindow, processing_system
from cnna.sim.board.files import Files
from cnna.sim.board.refused import RefusedError, invalid
from cnna.sim.board.rtl_backend import RtlBackend
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.memory import DDR_BASE
from cnna.spec.boards import HIGH, LOW, board_of
from cnna.spec.config import Config
from cnna.spec.ddr import PL, PL_DDR_BASE, PL_DDR_BYTES
from cnna.spec.regmap import REGISTERS, offset

BACKENDS = ("rtl", "emulator")

Say = Callable[[str], None]


class Streams(Sink, Source, Protocol):
    """The accelerator's ends of both streams."""


class Backend(Protocol):
    """One accelerator as a slave of the fabric (`fabric.Slave`), with the memory that its masters see."""

    data: NDArray[np.uint8]
    base: int

    @property
    def streams(self) -> Streams | None:
        """The accelerator's ends of the streams; None if it has no streams."""

    def read(self, offset: int) -> int:
        """Reads a register. RefusedError: the bus answers with an error, or the simulation has died."""

    def write(self, offset: int, value: int) -> None:
        """Sets a register. RefusedError: as `read`."""

    def reset(self) -> None:
        """Resets the accelerator, as loading an image does."""

    def close(self) -> None:
        """Ends the backend."""


def open_backend(
    name: str,
    config: Config,
    memory_bytes: int,
    cache: Path | None = None,
    say: Say | None = None,
    base: int = DDR_BASE,
    ddr: dict[str, int] | None = None,
) -> Backend:
    """Opens one of BACKENDS, with memory from bus address `base` on.

    ddr: settings of the RTL's memory, from `sim.rtl.linked_models.SETTINGS`. ToolError, RunError: the simulator cannot be built or
    started.
    """
    if name == "emulator":
        return EmulatorBackend(EmulatorDevice(config, memory_bytes, base=base))
    from cnna.sim.rtl.cosim import CosimDevice

    return RtlBackend(CosimDevice(config, memory_bytes, cache=cache, say=say, base=base, ddr=ddr))


PL_DDR = {"bytes_per_clock": PL.bytes_per_cycle}


def open_board(config: Config, variant: str, backend: str, memory_bytes: int, cache: Path | None = None) -> "VirtualBoard":
    """A board with one of BACKENDS and `memory_bytes` of memory for the host. ToolError, RunError: as `open_backend`."""
    made = design(config, variant)
    if variant == "pl":
        return VirtualBoard(
            made, open_backend(backend, made.config, PL_DDR_BYTES, cache, base=PL_DDR_BASE, ddr=PL_DDR), memory_bytes
        )
    base = DDR_BASE if HIGH in board_of(config).windows else LOW[1] + LOW[2] - memory_bytes
    return VirtualBoard(made, open_backend(backend, made.config, memory_bytes, cache, base=base))


class VirtualBoard:
    """One board. Its logic can hold only one design, that of the backend.

    If the accelerator works on the PS's DDR, the host allocates in the backend's memory. Otherwise the host has memory of its own.
    """

    def __init__(self, design: Design, backend: Backend, ps_bytes: int = 1 << 30) -> None:
        self.design, self.backend = design, backend
        apart = design.variant == "pl"  # only used pages cost memory
        self.dram = Dram(np.zeros(ps_bytes, np.uint8), DDR_BASE) if apart else Dram(backend.data, backend.base)
        self.files = Files(self._load, board_of(design.config))
        self.leds = Leds(int(design.cell(LEDS).parameters["C_GPIO_WIDTH"]))
        slaves: dict[str, Slave] = {ACCELERATOR: backend, LEDS: self.leds}
        if backend.streams:
            slaves[DMA] = self.dma = Dma(self.dram, backend.streams, backend.streams)
        logic = [SlaveWindow(w.slave_cell, w.base, w.size, slaves[w.slave_cell], True) for w in design.registers()]
        self.fabric = Fabric(processing_system() + logic)
        self._loaded: bytes | None = None

    def close(self) -> None:
        """Frees the memory and ends the accelerator."""
        self.dram.data = np.empty(0, np.uint8)
        self.backend.close()

    def busy(self) -> bool:
        """Whether the accelerator runs a program, which may write to the memory of the client that started it."""
        try:
            status = REGISTERS["STATUS"].unpack(self.backend.read(offset("STATUS")))
        except RefusedError:  # its simulation has died
            return False
        return bool(status["busy"] or status["resetting"])

    def _load(self, name: str, data: bytes) -> None:
        """Programs the logic. RefusedError: the image is not virtual, or is of another design.

        If the same image is already loaded and a client has memory, the logic stays as it is, because two clients may both download
        it.
        """
        found = image.read_image(data)
        wanted: dict[str, Any] = json.loads(json.dumps(image.describe(self.design)))
        if found is None:
            raise invalid(
                f"{name} is not a virtual image: a real bitstream needs a real board; cnna board image writes a virtual one"
            )
        if differs := image.difference(found, wanted):
            command = f"cnna board image --config {self.design.config.name} --variant {self.design.variant}"
            raise invalid(f"{name} is not this board's image ({differs}); this one is: {command}")
        if data == self._loaded and self.dram.owners():
            return
        self.backend.reset()
        if self.backend.streams:
            self.dma.reset()
        self.leds.value = 0
        self.fabric.programmed, self._loaded = True, data
