"""Sensors of power and temperature as Linux shows them: those of a board, those of something else, or none."""

from types import SimpleNamespace

import pytest

from cnna.host.board import power
from cnna.sim.board.design import design
from cnna.sim.board.files import SENSORS
from cnna.sim.board.image import bit
from cnna.spec.config import preset

FILES = {
    "/sys/class/hwmon/hwmon0/name": b"ams\n",
    "/sys/class/hwmon/hwmon1/name": b"ina226_u79\n",
    "/sys/class/hwmon/hwmon1/power1_input": b"4250000\n",
    "/sys/class/hwmon/hwmon2/name": b"ina226_u79\n",
    "/sys/class/hwmon/hwmon2/power1_input": b"1000000\n",
    "/sys/class/hwmon/hwmon3/name": b"ina226_u81\n",
}


def test_watts_by_sensor():
    """Microwatts must become watts; a sensor without a reading is left out, and two of one name stay two."""
    assert power.rails(FILES.get) == {"ina226_u79": 4.25, "ina226_u79.2": 1.0}
    assert power.rails({}.get) == {}


def test_over_the_network_only_files_that_exist_are_read():
    """PYNQ.remote answers with an error if a missing file is read."""
    board = SimpleNamespace(exists_file=lambda path: SimpleNamespace(exists=path in FILES), read_file=FILES.__getitem__)
    assert power.rails(power.remote(board)) == power.rails(FILES.get)
    assert power.local("/no/such/file") is None


def test_the_board_of_an_overlay_is_asked():
    """Over the network the board's files must be read, not those of the PC on which the notebook runs."""
    remote = SimpleNamespace(exists_file=lambda path: SimpleNamespace(exists=path in FILES), read_file=FILES.__getitem__)
    remote.has_capability = {"REMOTE"}.__contains__
    assert power.board(SimpleNamespace(device=remote)) == power.rails(FILES.get)
    here = SimpleNamespace(has_capability=lambda name: False)
    assert power.board(SimpleNamespace(device=here)) == power.rails(power.local)


def monitor(number: int, name: str, **channels: int) -> dict[str, bytes]:
    """A system monitor's files, with what 41462 stands for in `xilinx-ams`: 42 degrees."""
    folder = f"/sys/bus/iio/devices/iio:device{number}/"
    made = {f"{folder}name": name.encode()}
    for channel, raw in channels.items():
        parts = {"raw": str(raw), "offset": "-36058", "scale": "7.771514892"}
        made |= {f"{folder}{channel}_{part}": f"{text}\n".encode() for part, text in parts.items()}
    return made


@pytest.mark.parametrize(
    ("files", "celsius"),
    [
        (monitor(0, "xilinx-ams\n", in_temp7=41462), 42.0),
        (monitor(0, "xilinx-ams\n", in_temp7=41462, in_temp8=41591, in_temp20=0), 43.0),
        (monitor(1, "ams\n", in_temp0_ps_temp=41333, in_temp2_pl_temp=41462) | monitor(0, "ad7689", in_temp7=65535), 42.0),
        (monitor(0, "xilinx-ams", in_temp20=0), None),
        (monitor(0, "ams\n", in_temp7=41462) | {"/sys/bus/iio/devices/iio:device0/in_temp7_scale": b"none"}, None),
        ({}, None),
    ],
)
def test_the_chips_hottest_place(files: dict[str, bytes], celsius: float | None) -> None:
    """A monitor that does not work would show -280 degrees; another device's would be taken for the chip's."""
    found = power.Sensors(files.get).celsius()
    assert found == (None if celsius is None else pytest.approx(celsius, abs=0.1))


def test_a_virtual_boards_sensors_are_read_and_give_no_energy(tmp_path):
    """Joules an image would be printed that nobody has measured."""
    sensors = power.Sensors(SENSORS.get)
    assert sensors.watts() == {"ina226_u79": 4.25, "ina226_u81": 2.5}
    assert sensors.celsius() == pytest.approx(42.0, abs=0.1)
    (tmp_path / "cnna.bit").write_bytes(bit(design(preset("tiny"))))
    device = SimpleNamespace(has_capability=lambda name: True, read_file=SENSORS.__getitem__)
    device.exists_file = lambda path: SimpleNamespace(exists=path in SENSORS)
    overlay = SimpleNamespace(device=device, bitfile_name=str(tmp_path / "cnna.bit"))
    assert power.board(overlay) == {}
    assert power.board(SimpleNamespace(device=device, bitfile_name="/none/cnna.bit")) == sensors.watts()
