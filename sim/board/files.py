"""The virtual board's file system: a few files that pynq reads, and memory for those that it writes. It never uses the host's disk.

Writing a name to the FPGA manager's `firmware` loads that file from `/lib/firmware`, as Linux does.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cnna.sim.board.refused import exhausted, invalid, missing
from cnna.spec.boards import ZCU102, Board

FIRMWARE = "/lib/firmware/"
MANAGER = "/sys/class/fpga_manager/fpga0/"
WRITABLE = (FIRMWARE, "/tmp/")
ROOM_BYTES = 256 << 20
VERSION = "Linux version 6.6.40-xilinx (virtual) (aarch64-xilinx-linux-gcc) #1 SMP\n"

SENSORS = {  # made up, and always the same: 42 °C and 6.75 W
    **{f"/sys/class/hwmon/hwmon{number}/name": name for number, name in enumerate((b"ina226_u79\n", b"ina226_u81\n"))},
    **{f"/sys/class/hwmon/hwmon{number}/power1_input": power for number, power in enumerate((b"4250000\n", b"2500000\n"))},
    "/sys/bus/iio/devices/iio:device0/name": b"xilinx-ams\n",
    "/sys/bus/iio/devices/iio:device0/in_temp20_raw": b"41462\n",
    "/sys/bus/iio/devices/iio:device0/in_temp20_offset": b"-36058\n",
    "/sys/bus/iio/devices/iio:device0/in_temp20_scale": b"7.771514892\n",
}
PATH_BYTES = 4096  # the longest name, as in Linux

Load = Callable[[str, bytes], None]  # takes an image's name and content; raises if the image is refused


class Coming:
    """The bytes of one file that is being received. They take up room before the file is kept."""

    def __init__(self, files: "Files") -> None:
        self._files, self.size = files, 0

    def more(self, path: str, size: int) -> None:
        """Reserves room for more bytes of that file. RefusedError: there is no room, or the name is too long."""
        self._files.reserve(self, path, size)


class Files:
    """Whole files by path."""

    def __init__(self, load: Load, board: Board = ZCU102) -> None:
        self._load = load
        self._fixed: Mapping[str, bytes] = {
            **SENSORS,
            "/proc/version": VERSION.encode(),
            "/proc/device-tree/chosen/pynq_board": board.name.encode() + b"\0",
            "/proc/device-tree/compatible": b"".join(name.encode() + b"\0" for name in board.compatible),
        }
        self._written: dict[str, bytes] = {}
        self._flags, self._state = b"0\n", b"unknown\n"
        self._lock, self._coming = threading.Lock(), set[Coming]()

    def exists(self, path: str) -> bool:
        """Whether the path is a file, or a folder that holds one."""
        path = path.rstrip("/") or "/"
        return any(known == path or known.startswith(f"{path}/") or path == "/" for known in self._all()) or f"{path}/" in WRITABLE

    def read(self, path: str) -> bytes:
        """The content of a file. RefusedError: there is no such file."""
        files = self._all()
        if path not in files:
            raise missing(f"{path}: no such file")
        return files[path]

    @contextmanager
    def coming(self) -> Iterator[Coming]:
        """Yields a file that is received in pieces within the block. Its bytes take up room like those of written files."""
        coming = Coming(self)
        with self._lock:
            self._coming.add(coming)
        try:
            yield coming
        finally:
            with self._lock:
                self._coming.remove(coming)

    def reserve(self, coming: Coming, path: str, size: int) -> None:
        """Reserves room for more bytes of a file. RefusedError: there is no room, or the name is too long."""
        if len(path.encode()) > PATH_BYTES:
            raise invalid(f"a file name has {len(path.encode())} bytes; the limit is {PATH_BYTES}")
        with self._lock:
            under_way = sum(other.size for other in self._coming)
            if self._used(path) + under_way + size > ROOM_BYTES:
                raise self._full(path)
            coming.size += size

    def write(self, path: str, data: bytes) -> None:
        """Replaces the content of a file. RefusedError: no such place, no room, or (for `firmware`) a wrong image."""
        if path == MANAGER + "flags":
            self._flags = data.strip() + b"\n"
        elif path == MANAGER + "firmware":
            self._program(data.decode(errors="replace").strip("\0\n "))
        elif path.startswith(WRITABLE):
            with self._lock:
                if self._used(path) + len(path) + len(data) > ROOM_BYTES:
                    raise self._full(path)
                self._written[path] = data
        else:
            raise missing(f"{path}: cannot be written on the virtual board; these can: {', '.join(WRITABLE)}")

    def _used(self, path: str) -> int:
        """Bytes of all files with their names, without the file that a new one replaces."""
        return sum(len(name) + len(content) for name, content in list(self._written.items()) if name != path)

    @staticmethod
    def _full(path: str) -> Exception:
        return exhausted(f"{path}: no space left on the board ({ROOM_BYTES >> 20} MiB for files)")

    def _program(self, name: str) -> None:
        """Loads an image, and removes its file. pynq does not upload a name that exists, but the next image may be another."""
        data = self._written.pop(FIRMWARE + name, None)
        if data is None:
            raise missing(f"{FIRMWARE}{name}: no such file")
        self._state = b"write error\n"
        self._load(name, data)
        self._state = b"operating\n"

    def _all(self) -> dict[str, bytes]:
        manager = {MANAGER + "flags": self._flags, MANAGER + "state": self._state, MANAGER + "firmware": b""}
        return {**self._fixed, **self._written, **manager}
