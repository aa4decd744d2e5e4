"""`Board`: the virtual ZCU102 without its network: files, memory, registers and the accelerator, as `services` and tests use it."""

import json
from typing import Any

import numpy as np

from cnna.sim.board import image
from cnna.sim.board.backend import Backend
from cnna.sim.board.design import ACCELERATOR, LEDS, Design
from cnna.sim.board.dram import Dram
from cnna.sim.board.fabric import Fabric, Leds, Slave, Window, processing_system
from cnna.sim.board.files import Files
from cnna.sim.board.refused import invalid


class Board:
    """One board, whose logic can hold one design only: the one that the backend is."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self.dram = Dram(backend.data, backend.base)
        self.files = Files(self._load)
        self.leds = Leds(int(design.cell(LEDS).parameters["C_GPIO_WIDTH"]))
        slaves: dict[str, Slave] = {ACCELERATOR: backend, LEDS: self.leds}
        logic = [Window(w.slave_cell, w.base, w.size, slaves[w.slave_cell], True) for w in design.registers()]
        self.fabric = Fabric(processing_system() + logic)
        self._loaded: bytes | None = None

    def close(self) -> None:
        """Lets go of the memory and ends the accelerator."""
        self.dram.data = np.empty(0, np.uint8)
        self.backend.close()

    def _load(self, name: str, data: bytes) -> None:
        """Programs the logic. RefusedError: the image is no virtual one, or another design's.

        The image that is there already leaves the logic as it is while anybody has memory: two clients may both download it.
        """
        found = image.read_image(data)
        wanted: dict[str, Any] = json.loads(json.dumps(image.describe(self.design)))
        if found is None:
            raise invalid(f"{name} is no virtual image: a real bitstream needs a real board; cnna board image writes a virtual one")
        if differs := image.difference(found, wanted):
            command = f"cnna board image --config {self.design.config.name} --variant {self.design.variant}"
            raise invalid(f"{name} is not this board's image ({differs}); this one is: {command}")
        if data == self._loaded and self.dram.owners():
            return
        self.backend.reset()
        self.leds.value = 0
        self.fabric.programmed, self._loaded = True, data
