"""The virtual board's file system: a few files that pynq reads, and room in memory for those it writes; never the host's disk.

Writing a name to the FPGA manager's `firmware` loads that file of `/lib/firmware`, as Linux does.
"""

from collections.abc import Callable, Mapping

from cnna.sim.board.design import BOARD
from cnna.sim.board.refused import exhausted, missing

FIRMWARE = "/lib/firmware/"
MANAGER = "/sys/class/fpga_manager/fpga0/"
WRITABLE = (FIRMWARE, "/tmp/")
ROOM_BYTES = 256 << 20
VERSION = "Linux version 6.6.40-xilinx (virtual) (aarch64-xilinx-linux-gcc) #1 SMP\n"

Load = Callable[[str, bytes], None]  # name and content of an image; raises where it is refused


class Files:
    """Whole files by path. RefusedError: what the method says."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._fixed: Mapping[str, bytes] = {
            "/proc/version": VERSION.encode(),
            "/proc/device-tree/chosen/pynq_board": BOARD.encode() + b"\0",
            "/proc/device-tree/compatible": b"xlnx,zynqmp-zcu102-rev1.0\0xlnx,zynqmp-zcu102\0xlnx,zynqmp\0",
        }
        self._written: dict[str, bytes] = {}
        self._flags, self._state = b"0\n", b"unknown\n"

    def exists(self, path: str) -> bool:
        """Whether it is a file, or a folder that holds one."""
        path = path.rstrip("/") or "/"
        return any(known == path or known.startswith(f"{path}/") or path == "/" for known in self._all()) or f"{path}/" in WRITABLE

    def read(self, path: str) -> bytes:
        """A file's content. Not there."""
        files = self._all()
        if path not in files:
            raise missing(f"{path}: no such file")
        return files[path]

    def write(self, path: str, data: bytes) -> None:
        """Replaces a file's content. No such place, no room; of `firmware`: the image is refused."""
        if path == MANAGER + "flags":
            self._flags = data.strip() + b"\n"
        elif path == MANAGER + "firmware":
            self._program(data.decode(errors="replace").strip("\0\n "))
        elif path.startswith(WRITABLE):
            used = sum(len(content) for name, content in self._written.items() if name != path)
            if used + len(data) > ROOM_BYTES:
                raise exhausted(f"{path}: no space left on the board ({ROOM_BYTES >> 20} MiB for files)")
            self._written[path] = data
        else:
            raise missing(f"{path}: no such place to write on the virtual board; {', '.join(WRITABLE)} are there")

    def _program(self, name: str) -> None:
        """Takes the file away too: pynq does not upload what is there, and the next image of this name may be another."""
        data = self._written.pop(FIRMWARE + name, None)
        if data is None:
            raise missing(f"{FIRMWARE}{name}: no such file")
        self._state = b"write error\n"
        self._load(name, data)
        self._state = b"operating\n"

    def _all(self) -> dict[str, bytes]:
        manager = {MANAGER + "flags": self._flags, MANAGER + "state": self._state, MANAGER + "firmware": b""}
        return {**self._fixed, **self._written, **manager}
