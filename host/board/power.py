"""The power that a board draws, from INA226 sensors, which the kernel shows under /sys/class/hwmon; nothing on other boards."""

from collections.abc import Callable
from typing import Any

HWMON = "/sys/class/hwmon/hwmon"
SENSORS = 40  # highest number of sensors tried; a ZCU102 has 18 INA226 and some other sensors
KIND = "ina226"

Read = Callable[[str], bytes | None]  # takes a path; returns the file's content, or None if there is no such file


def rails(read: Read) -> dict[str, float]:
    """Watts by sensor name, such as `ina226_u79`; the schematic says which rail that is. Empty if the kernel shows no sensor."""
    found = {}
    for number in range(SENSORS):
        name = read(f"{HWMON}{number}/name")
        if name is None or KIND not in name.decode(errors="replace"):
            continue
        label = name.decode(errors="replace").strip()
        microwatts = read(f"{HWMON}{number}/power1_input")
        if microwatts is not None and microwatts.strip().isdigit():
            found[label if label not in found else f"{label}.{number}"] = int(microwatts) / 1e6
    return found


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


def board(overlay: Any) -> dict[str, float]:
    """`rails` of the board of a `pynq.Overlay`."""
    device = overlay.device
    return rails(remote(device) if device.has_capability("REMOTE") else local)
