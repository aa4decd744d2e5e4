"""What a process must see below pynq's local classes: run `stand_in(FOLDER)` before pynq is imported.

Paths of the kernel lead into the folder of a `LocalBoard`. Three things besides: only root may map /dev/mem, pynq asks for an Arm
processor, and a bus carries one write after another, where memory would let the second overtake the first. Nothing else of pynq or
Python is changed.
"""

import builtins
import ctypes
import io
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.host.local_pynq import pyxrt_stand_in, xrt_core_stand_in
from tests.host.mapped_board import AT_WORK, CTRL, STATUS, seen

KERNEL = (
    "/dev/mem",
    "/dev/uio",
    "/lib/firmware",
    "/proc/device-tree",
    "/proc/interrupts",
    "/sys/class/fpga_manager",
    "/sys/class/uio",
)
FIRMWARE = "/sys/class/fpga_manager/fpga0/firmware"
LOOK_SECONDS = 1e-3


def inside(folder: Path, path: str) -> Path:
    """The file of a board's folder that stands for one of the kernel's."""
    return folder / path.removeprefix("/")


def stand_in(folder: Path) -> None:
    """Puts this process onto the board of a folder, as root."""
    found = find_spec("pynq")
    assert found is not None
    assert found.origin is not None
    # What pynq has read last, of all boards of this machine.
    kept = str(Path(found.origin).parent / "pl_server" / "_current_metadata.pkl")

    def there(path: Any) -> Any:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if text == kept:
            return str(folder / Path(kept).name)
        return str(inside(folder, text)) if isinstance(text, str) and text.startswith(KERNEL) else path

    def led(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path=".", *rest, **named: call(there(path), *rest, **named)

    stock_open = io.open

    def opened(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if path == FIRMWARE and "w" in mode:
            return _Firmware(inside(folder, FIRMWARE))
        return stock_open(there(path), mode, *rest, **named)

    for place, name in ((os, "open"), (os, "stat"), (os, "listdir"), (os, "remove")):
        setattr(place, name, led(getattr(place, name)))
    for module in (builtins, io):
        vars(module)["open"] = opened
    os.geteuid = lambda: 0
    machine = os.uname_result((*os.uname()[:4], "aarch64"))  # pynq sets clocks on its boards' processors alone
    os.uname, platform.machine = lambda: machine, lambda: machine.machine
    os.environ |= {"XILINX_XRT": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(folder / "tmp")}
    os.chdir(folder)  # pynq leaves loaded.xclbin behind
    sys.modules["pyxrt"] = pyxrt_stand_in.module(folder)
    stock_library = ctypes.CDLL
    core = xrt_core_stand_in.Library(folder)
    vars(ctypes)["CDLL"] = lambda name, *rest, **named: (
        core if str(name).endswith(xrt_core_stand_in.FILE) else stock_library(name, *rest, **named)
    )
    _keep_order(folder)


def _keep_order(folder: Path) -> None:
    """Lets pynq's own writes to registers return once the accelerator has taken them."""
    from pynq import MMIO
    from pynq.pl_server import global_state

    global_state.STATE_DIR = str(folder)
    stock = MMIO.write_mm

    def write_mm(self: Any, offset: int, data: Any) -> None:
        stock(self, offset, data)
        while offset // 4 in (CTRL, STATUS) and len(self.array) > AT_WORK and not seen(self.array):
            time.sleep(LOOK_SECONDS / 50)

    MMIO.write_mm = write_mm


class _Firmware(io.StringIO):
    """The FPGA manager's file, a write to which returns when the image is loaded."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._path.with_name("asked").write_text(self.getvalue())
            while self._path.with_name("asked").exists():
                time.sleep(LOOK_SECONDS)
        super().close()
