"""A board for processes with pynq's local classes: the kernel's files in a folder, and the emulator behind the registers' page."""

import json
import shutil
import stat
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cnna.sim.board.cells import ACCELERATOR
from cnna.sim.board.design import design
from cnna.sim.board.fabric import processing_system
from cnna.sim.board.image import read_image
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import Config, preset
from cnna.spec.regmap import SPACE_BYTES

from ..mapped_board import Page
from .below_pynq import FIRMWARE, LOOK_SECONDS, inside
from .pyxrt_stand_in import BASE, MEMORY, PAGE_BYTES, ROOM_BYTES, taken

SECONDS = 300
PS_BYTES = 0x100  # of each window of the PS that holds more than 0
START = """
import os, sys
from pathlib import Path
from tests.host.local_pynq.below_pynq import stand_in
stand_in(Path(sys.argv[1]))
import cnna, numpy as np, pynq
from cnna.host.model import native_runs
loops = []
opened = native_runs.Loop.__init__
native_runs.Loop.__init__ = lambda self, *rest, **named: (opened(self, *rest, **named), loops.append(self))[0]
"""


class LocalBoard:
    """A board of a folder, until `close`. page: its registers; None: no image is loaded yet."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.page = folder, None  # type: Path, Page | None
        self.base = next(window.base for window in design(preset("tiny")).registers() if window.slave_cell == ACCELERATOR)
        self._furnish()
        with (folder / MEMORY).open("wb") as file:
            file.truncate(BASE + ROOM_BYTES)  # which takes no room on a disk before somebody writes
        for window in processing_system():  # clocks and port widths, as a booted board has them
            words = [window.slave.read(at) for at in range(0, PS_BYTES, 4)]
            np.memmap(folder / MEMORY, np.uint32, "r+", window.base, (len(words),))[:] = words
        self._registers = np.memmap(folder / MEMORY, np.uint32, "r+", self.base, (SPACE_BYTES // 4,))
        self._ddr = np.memmap(folder / MEMORY, np.uint8, "r+", BASE, (ROOM_BYTES,))
        self._over = False
        self._manager = threading.Thread(target=self._load, daemon=True)
        self._manager.start()

    def close(self) -> None:
        """Ends the board's threads. AssertionError: a process that has ended left memory taken."""
        self._over = True
        self._manager.join()
        if self.page is not None:
            self.page.close()
        with taken(self.folder) as known:
            assert not known, "memory is still allocated"

    def start(self, code: str, *arguments: object) -> "subprocess.Popen[str]":
        """A process that runs code on the board."""
        line = [sys.executable, "-W", "ignore", "-c", START + code, str(self.folder), *map(str, arguments)]
        return subprocess.Popen(line, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, code: str, *arguments: object) -> Any:
        """What code prints, as JSON."""
        with self.start(code, *arguments) as process:
            said, failed = process.communicate(timeout=SECONDS)
        assert not process.returncode, said + failed
        return json.loads(said)

    def program(self, config: Config) -> None:
        """Loads an image of a configuration, as anybody may who is root: registers are as after a reset."""
        if self.page is not None:
            self.page.close()
        emulator = EmulatorDevice(config, PAGE_BYTES)
        emulator.data = emulator.state.ddr = self._ddr
        self._registers[:] = 0
        self.page = Page(emulator, self._registers)

    def _furnish(self) -> None:
        """Makes what pynq looks for."""
        manager = inside(self.folder, FIRMWARE).parent
        for path in (
            manager,
            *(inside(self.folder, name) for name in ("/lib/firmware", "/sys/class/uio", "/dev", "tmp", "bin", "/proc")),
        ):
            path.mkdir(parents=True, exist_ok=True)
        for name, text in (("firmware", ""), ("flags", "0\n"), ("state", "operating\n")):
            (manager / name).write_text(text)
        inside(self.folder, "/proc/interrupts").write_text("           CPU0\n")
        tree = inside(self.folder, "/proc/device-tree/chosen")
        tree.mkdir(parents=True)
        (tree / "pynq_board").write_text("ZCU102")
        (inside(self.folder, "/dev/mem")).symlink_to(self.folder / MEMORY)
        found = find_spec("pynq")
        assert found is not None
        assert found.origin is not None
        # xclbinutil writes what XRT is told of memory; pynq's own file names the PS's DDR, and this design has no other
        shutil.copy(Path(found.origin).parent / "pl_server" / "default.xclbin", self.folder / "bin")
        for name, line in (
            ("xclbinutil", f"cp {self.folder}/bin/default.xclbin t.xclbin"),
            ("xbutil", "echo XRT Build Version: 2.13.0"),
        ):
            tool = self.folder / "bin" / name
            tool.write_text(f"#!/bin/sh\n{line}\n")
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)

    def _load(self) -> None:
        """The FPGA manager."""
        asked = inside(self.folder, FIRMWARE).with_name("asked")
        while not self._over:
            if asked.exists() and (name := asked.read_text()):
                image = read_image((inside(self.folder, "/lib/firmware") / name).read_bytes())
                assert image is not None
                self.program(preset(image["config"]["name"]))
                asked.unlink()
            time.sleep(LOOK_SECONDS)
