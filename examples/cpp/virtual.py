"""Plays the accelerator for host.cpp where there is no board: its registers and its DDR are two files that both map.

.venv/bin/python examples/cpp/virtual.py FOLDER [--config tiny]    # makes FOLDER/registers and FOLDER/ddr; Ctrl-C ends it

The emulator (`cnna.sim.emulator`) computes. Memory tells nobody of an access, so this program looks at CTRL again and again: it
copies what the host has written to the emulator, runs it, and writes back what a host reads, STATUS last. What real hardware does
at once takes up to a millisecond here: after a reset, a host must wait until STATUS reads 0. Counters of clocks stay 0.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.memory import DDR_BASE
from cnna.spec.config import Config, preset
from cnna.spec.errors import CnnaError
from cnna.spec.regmap import REGISTERS, SPACE_BYTES, offset, there

DDR_BYTES = 16 << 20
LOOK_SECONDS = 1e-3
CTRL, STATUS = offset("CTRL") // 4, offset("STATUS") // 4
SET_BY_HOST = [r for r in REGISTERS.values() if r.block == "general" and all(field.access == "rw" for field in r.fields)]


class Virtual:
    """An accelerator behind the files `registers` and `ddr` of a folder."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.registers = np.memmap(folder / "registers", np.uint32, "w+", shape=(SPACE_BYTES // 4,))
        self.ddr = np.memmap(folder / "ddr", np.uint8, "w+", shape=(DDR_BYTES,))
        self.device = EmulatorDevice(config, DDR_BYTES)
        self._hosts = [r for r in SET_BY_HOST if config.streams or not r.name.startswith("STREAM_")]
        self._show(all_of=True)

    def look(self) -> None:
        """Does what CTRL asks for, if the host has written to it."""
        if asked := int(self.registers[CTRL]):
            self.registers[CTRL] = 0
            for register in self._hosts:
                self.device.write(register.offset, int(self.registers[register.offset // 4]))
            self.device.data[:] = self.ddr
            self.device.write(offset("CTRL"), asked)
            self.ddr[:] = self.device.data
            self._show()

    def _show(self, all_of: bool = False) -> None:
        """Writes the words that a host reads, at first all of them; STATUS last, since a host waits for it."""
        for register in there(self.device.config.codebook):
            if register.offset != offset("STATUS") and (all_of or register not in SET_BY_HOST) and register.name != "CTRL":
                self.registers[register.offset // 4] = self.device.read(register.offset)
        self.registers[STATUS] = self.device.read(offset("STATUS"))


def main() -> None:
    """Plays until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Plays the accelerator for host.cpp.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", default="tiny")
    args = parser.parse_args()
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        board = Virtual(args.folder, preset(args.config))
        print(
            f"registers and ddr are in {args.folder}; ./host MODEL {args.folder}/registers {args.folder}/ddr {DDR_BASE:#x}",
            flush=True,
        )
        while True:
            board.look()
            time.sleep(LOOK_SECONDS)
    except CnnaError as error:
        parser.exit(error.exit_code, f"virtual.py: {error}\n")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
