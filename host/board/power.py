"""The power that a board draws, from INA226 sensors, and the temperature of its chip, from the system monitor, as Linux shows them.

Sensors are files under /sys, which may be another machine's (`remote`). A board without them has no values, never a guess.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cnna.host.board.overlay import is_virtual

HWMON = "/sys/class/hwmon/hwmon"
SENSORS = 40  # highest number of sensors tried; a ZCU102 has 18 INA226 and some other sensors
KIND = "ina226"
IIO = "/sys/bus/iio/devices/iio:device"
MONITORS = 10  # highest number of these devices tried
MONITOR = "ams"  # in the name of the system monitor's driver: ams, or xilinx-ams in newer kernels
# PS, the side of the PS that is far from it, and PL: in newer kernels a channel has its number, in older ones a name too
CHANNELS = ("in_temp7", "in_temp8", "in_temp20", "in_temp0_ps_temp", "in_temp1_remote_temp", "in_temp2_pl_temp")

Read = Callable[[str], bytes | None]  # takes a path; returns the file's content, or None if there is no such file


class Sensors:
    """The sensors of one board, looked for once. rails: by sensor name the file of its power; channels: of temperatures."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.rails = _rails(read)
        self.channels = _channels(read)

    def watts(self) -> dict[str, float]:
        """By sensor name, such as `ina226_u79`; the schematic says which rail that is."""
        found = {label: (self._read(path) or b"").strip() for label, path in self.rails.items()}
        return {label: int(text) / 1e6 for label, text in found.items() if text.isdigit()}

    def celsius(self) -> float | None:
        """The hottest place of the chip that is measured. A monitor that does not work reads 0, which stands for -280 °C."""
        found = []
        for channel in self.channels:
            raw, shift, scale = (_number(self._read(f"{channel}_{part}")) for part in ("raw", "offset", "scale"))
            if raw and shift is not None and scale is not None:
                found.append((raw + shift) * scale / 1e3)
        return round(max(found), 1) if found else None


def rails(read: Read) -> dict[str, float]:
    """Watts by sensor name. Empty if the kernel shows no sensor."""
    return Sensors(read).watts()


def local(path: str) -> bytes | None:
    """`Read` for files of this machine."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def remote(files: Any) -> Read:
    """`Read` for files of a board over PYNQ.remote. files: has pynq's exists_file and read_file."""

    def read(path: str) -> bytes | None:
        return files.read_file(path) if files.exists_file(path).exists else None

    return read


def reader(overlay: Any) -> Read:
    """`Read` for the board of a `pynq.Overlay`."""
    return remote(overlay.device) if overlay.device.has_capability("REMOTE") else local


def board(overlay: Any) -> dict[str, float]:
    """`rails` of the board of a `pynq.Overlay`. A virtual board has none that is worth an energy: its sensors are made up."""
    bit = getattr(overlay, "bitfile_name", None)
    return {} if bit and Path(bit).exists() and is_virtual(Path(bit)) else rails(reader(overlay))


def _rails(read: Read) -> dict[str, str]:
    found: dict[str, str] = {}
    for number in range(SENSORS):
        name = read(f"{HWMON}{number}/name")
        if name is not None and KIND in name.decode(errors="replace"):
            label = name.decode(errors="replace").strip()
            found[label if label not in found else f"{label}.{number}"] = f"{HWMON}{number}/power1_input"
    return found


def _channels(read: Read) -> list[str]:
    for number in range(MONITORS):
        name = read(f"{IIO}{number}/name")
        if name is not None and MONITOR in name.decode(errors="replace"):
            paths = [f"{IIO}{number}/{channel}" for channel in CHANNELS]
            return [path for path in paths if read(f"{path}_raw") is not None]
    return []


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
