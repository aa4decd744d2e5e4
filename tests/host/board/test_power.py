"""Power sensors as Linux shows them: those of a board, those of something else, or none."""

from types import SimpleNamespace

from cnna.host.board import power

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
