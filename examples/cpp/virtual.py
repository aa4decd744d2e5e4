"""Plays the accelerator for host.cpp where there is no board: its registers and its DDR are two files that both map.

.venv/bin/python examples/cpp/virtual.py FOLDER [--config tiny]    # makes FOLDER/registers and FOLDER/ddr; Ctrl-C ends it

The emulator (`cnna.sim.emulator`) computes. Memory tells nobody of an access, so this program looks at CTRL again and again: it
copies what the host has written to the emulator, runs it, and writes back what a host reads, STATUS last. What real hardware does
at once takes up to a millisecond here: after a reset, a host must wait until STATUS reads 0, and after a queued start until
CTRL.queue reads 0. Queued starts wait until the host has asked for nothing for some milliseconds. Counters of clocks stay 0.
"""

import argparse
import time
from collections import deque
from pathlib import Path

import numpy as np

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.memory import DDR_BASE
from cnna.spec.config import Config, preset
from cnna.spec.errors import CnnaError
from cnna.spec.regmap import PLACES, REGISTERS, SPACE_BYTES, offset, there

DDR_BYTES = 16 << 20
LOOK_SECONDS, PAUSE_SECONDS = 1e-3, 5e-3
CTRL, STATUS = offset("CTRL") // 4, offset("STATUS") // 4
SET_BY_HOST = [r for r in REGISTERS.values() if r.block == "general" and all(field.access == "rw" for field in r.fields)]


class Virtual:
    """An accelerator behind the files `registers` and `ddr` of a folder.

    It plays the first of the starts that wait once the host has asked for nothing for `pause_seconds`. most_waiting: there were at
    once.
    """

    def __init__(self, folder: Path, config: Config, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.registers = np.memmap(folder / "registers", np.uint32, "w+", shape=(SPACE_BYTES // 4,))
        self.ddr = np.memmap(folder / "ddr", np.uint8, "w+", shape=(DDR_BYTES,))
        self.device = EmulatorDevice(config, DDR_BYTES)
        self.pause_seconds, self.most_waiting = pause_seconds, 0
        self._hosts = [r for r in SET_BY_HOST if config.streams or not r.name.startswith("STREAM_")]
        self._waiting: deque[dict[int, int]] = deque()  # what each start takes: words by offset
        self._dropped, self._asked = 0, 0.0  # by an error; when the host last asked for something
        self._show(all_of=True)

    def look(self) -> None:
        """Does what CTRL asks for, if the host has written to it; else it plays one of the starts that wait."""
        asked = REGISTERS["CTRL"].unpack(int(self.registers[CTRL]))
        words = {register.offset: int(self.registers[register.offset // 4]) for register in self._hosts}
        if asked["queue"]:
            self._queue(words)
        elif any(asked.values()):
            self._waiting.clear()
            self._dropped = 0
            self.registers[CTRL] = 0
            self._play(words, REGISTERS["CTRL"].pack(**asked))
        elif self._waiting and time.monotonic() - self._asked > self.pause_seconds:
            self._play(self._waiting.popleft(), REGISTERS["CTRL"].pack(start=1))

    def _queue(self, words: dict[int, int]) -> None:
        """Lets a start wait; an error drops it."""
        if REGISTERS["STATUS"].unpack(int(self.registers[STATUS]))["error"]:
            self._dropped += 1
        else:
            self._waiting.append(words)
        self.most_waiting = max(self.most_waiting, len(self._waiting))
        self._asked = time.monotonic()
        self._show()
        self.registers[CTRL] = 0  # the host may write registers again

    def _play(self, words: dict[int, int], asked: int) -> None:
        """The host may write an input meanwhile, so what the program has written is taken over, and no other byte."""
        for at, word in words.items():
            self.device.write(at, word)
        self.device.data[:] = self.ddr
        self.device.write(offset("CTRL"), asked)
        first = (words[offset("SEG_OUTPUT_LO")] | words[offset("SEG_OUTPUT_HI")] << 32) - DDR_BASE
        output = slice(max(0, first), max(0, first) + words[offset("SEG_OUTPUT_BYTES")])
        self.ddr[output] = self.device.data[output]
        if REGISTERS["STATUS"].unpack(self.device.read(offset("STATUS")))["error"]:
            self._dropped += len(self._waiting)
            self._waiting.clear()
        self._show()

    def _show(self, all_of: bool = False) -> None:
        """Writes the words that a host reads, at first all of them; STATUS last, since a host waits for it."""
        for register in there(self.device.config.codebook):
            if register.offset != offset("STATUS") and (all_of or register not in SET_BY_HOST) and register.name != "CTRL":
                self.registers[register.offset // 4] = self.device.read(register.offset)
        queue = {"pending": len(self._waiting), "dropped": self._dropped, "places": PLACES}
        self.registers[offset("QUEUE") // 4] = REGISTERS["QUEUE"].pack(**queue)
        self.registers[STATUS] = self.device.read(offset("STATUS")) | REGISTERS["STATUS"].pack(busy=int(bool(self._waiting)))


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
