"""A board whose registers and memory are files, for programs that map them: the emulator looks at them from a thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import Config, preset
from cnna.spec.regmap import SPACE_BYTES

from ...host.mapped_board import Page

TINY = preset("tiny")
ADDRESS, DDR_BYTES = 0x8_0000_0000, 1 << 22


@contextmanager
def shared_board(folder: Path, config: Config = TINY, ddr_bytes: int = DDR_BYTES) -> Iterator[list[str]]:
    """The words by which a program is told where its accelerator is."""
    emulator = EmulatorDevice(config, ddr_bytes, base=ADDRESS)
    emulator.data = emulator.state.ddr = np.memmap(folder / "ddr", np.uint8, "w+", shape=(ddr_bytes,))
    page = Page(emulator, np.memmap(folder / "registers", np.uint32, "w+", shape=(SPACE_BYTES // 4,)))
    try:
        yield [str(folder / "registers"), str(folder / "ddr"), hex(ADDRESS)]
    finally:
        page.close()
