"""A network that runs again and again: wrong answers, a wrong speed or wrong power are found."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.host.selftest import sustained
from cnna.host.selftest.sustained import own_workload, sustain

from ..emulated_board import EmulatedBoard

CYCLES = 3_000_000  # 10 ms at 300 MHz
ACCESS_SECONDS = 1e-6  # of each look at a register
RUN_SECONDS = 0.015  # of each run on the clock on the wall


class Wall:
    """A clock on the wall that only a board moves: by its register reads, and by its waits for a run's end."""

    def __init__(self, board, monkeypatch):
        self.seconds, self.run_seconds = 0.0, RUN_SECONDS
        self._read, self._wait = board.read, board.wait
        monkeypatch.setattr(board, "read", self.read)
        monkeypatch.setattr(board, "wait", self.wait)

    def read(self, at):
        self.seconds += ACCESS_SECONDS
        return self._read(at)

    def wait(self, ended=None):
        self.seconds += self.run_seconds
        self._wait(ended=ended)

    def now(self):
        return self.seconds


@pytest.fixture
def board(monkeypatch):
    made = EmulatedBoard()
    monkeypatch.setattr(sustained, "SECONDS", 0.0)
    yield made
    assert not made.buffers


@pytest.fixture
def counting(monkeypatch):
    """Makes every run count so many clocks."""

    def count(cycles):
        real = Accelerator.read_counters

        def read_counters(self):
            return dict.fromkeys(real(self), 0) | {"cycles": cycles}

        monkeypatch.setattr(Accelerator, "read_counters", read_counters)

    return count


@pytest.fixture
def wall(board, monkeypatch):
    return Wall(board, monkeypatch)


def found_of(board, wall, watts=dict, virtual=False, workload=None):
    """Findings by name, and the figures."""
    findings, figures = sustain(board, workload or own_workload(board, 1), watts, virtual, wall.now)
    return {finding.name: finding for finding in findings}, figures


def test_a_sound_virtual_board_passes(board, wall):
    """All three findings must be good, and no figure may be there that was not measured."""
    found, figures = found_of(board, wall, virtual=True)
    assert [*found] == ["network", "throughput", "energy"]
    assert all(finding.good for finding in found.values()), found
    assert found["network"].text == "board == the reference: 1 output, 8192 elements"
    assert found["energy"].text == "not measured: no power sensors here"
    assert (figures["cycles"], figures["watts"], figures["joules_per_image"]) == (None, None, None)
    samples = len(next(iter(own_workload(board, 1).inputs.values())))
    batches = -(-samples // own_workload(board, 1).artifact.manifest["batch"])
    assert figures["images_per_second"] == pytest.approx(samples / (batches * RUN_SECONDS), rel=0.01)


def test_a_wrong_byte_in_a_later_run_is_found(board, wall, monkeypatch):
    """A board may become warm: the first answer is right, a later one not."""
    monkeypatch.setattr(sustained, "SECONDS", 60.0)
    real, loads = board.load, []

    def load(address, size):
        loads.append(address)
        raw = bytearray(real(address, size))
        raw[5] ^= len(loads) > 6
        return bytes(raw)

    monkeypatch.setattr(board, "load", load)
    found, _ = found_of(board, wall, virtual=True)
    assert not found["network"].good
    assert found["network"].text.startswith("run 2: board != the reference: output")


def test_an_accelerator_that_stops_is_a_finding(board, wall, monkeypatch):
    """The findings before it must not be lost, and a second try, which would succeed, must not hide it."""
    real, commands = type(board.emulator).execute, []

    def execute(self, command):
        commands.append(command)
        return self.stop("read_response", response=2) if len(commands) == 1 else real(self, command)

    monkeypatch.setattr(type(board.emulator), "execute", execute)
    found, _ = found_of(board, wall)
    assert [*found] == ["network"]
    assert not found["network"].good
    assert "run 1: the accelerator stopped: read_response SLVERR" in found["network"].text


@pytest.mark.parametrize(
    ("cycles", "virtual", "good", "said"),
    [
        (30_000, False, True, "; the host adds 14.9 ms to a batch"),
        (30_000, True, True, "; a virtual board's seconds are not a real one's"),
        (300_000_000, False, False, "; quicker than its own counter: is that its clock?"),
        (300_000_000, True, True, "; a virtual board's seconds are not a real one's"),
        (0, False, False, "; this board counts no clocks"),
    ],
)
def test_the_clock_on_the_wall_is_held_against_the_counter(board, wall, counting, cycles, virtual, good, said):
    """The counter may run too fast, or not at all."""
    counting(cycles)
    found, _ = found_of(board, wall, virtual=virtual)
    assert found["network"].good
    assert found["throughput"].good is good, found
    assert said in found["throughput"].text


def test_a_host_that_adds_too_much_is_found(board, wall, counting):
    """A driver that sleeps where it should look would not be found. Only a network with little work for the host can show it."""
    counting(CYCLES)
    assert found_of(board, wall)[0]["throughput"].good
    wall.run_seconds = 0.2
    found, _ = found_of(board, wall)
    assert not found["throughput"].good
    assert "the host adds 190.0 ms" in found["throughput"].text
    found, _ = found_of(board, wall, workload=replace(own_workload(board, 1), quick=False, expected=None))
    assert found["throughput"].good
    assert found["network"].text.startswith("it ran; --expect")


def test_energy_is_watts_over_images(board, wall, counting):
    """The mean power while the network ran, divided by the measured rate."""
    shown = iter([{"u79": 3.0, "u81": 1.0}, {"u79": 5.0, "u81": 1.0}])
    found, figures = found_of(board, wall, watts=lambda: next(shown), virtual=True)
    assert found["energy"].good
    assert figures["watts"] == 4.0
    assert figures["joules_per_image"] == 4.0 / figures["images_per_second"]


def test_sensors_that_show_nothing_are_found(board, wall):
    """A rail whose shunt is not set up would read as no power at all."""
    found, figures = found_of(board, wall, watts=lambda: {"ina226_u79": 0.0}, virtual=True)
    assert not found["energy"].good
    assert "ina226_u79 show no power" in found["energy"].text
    assert figures["watts"] is None


def test_its_own_network_is_for_the_board_that_asks(board, monkeypatch):
    """There must be as many pictures as fill the batches; for sizes that nobody compiled for there is no network."""
    for batches in (1, 8):
        workload = own_workload(board, batches)
        (x,), (y,) = workload.inputs.values(), workload.expected.values()
        assert len(x) == len(y) >= batches * workload.artifact.manifest["batch"]
        assert x.dtype == np.uint8
    monkeypatch.setattr(board, "config", replace(board.config, bank_words=512))
    assert own_workload(board) is None
