"""The board's self-test on an emulated board: a sound one passes, and each thing that can be broken is found."""

import time

import numpy as np
import pytest

from cnna.host import selftest
from cnna.hw.config import preset
from cnna.hw.regmap import REGISTERS, offset

from .emulated_board import EmulatedBoard


@pytest.fixture
def board():
    made = EmulatedBoard()
    yield made
    assert not made.buffers


def test_a_sound_board_passes(board):
    """And every part says something."""
    found = selftest.selftest(board, virtual=True)
    assert [finding.name for finding in found] == ["registers", "copy", "read bandwidth", "write bandwidth", "clock"]
    assert all(finding.good for finding in found), found
    assert "bytes equal" in found[1].text
    assert "counts no clocks" in found[2].text


def test_a_register_that_loses_bits_is_named(board, monkeypatch):
    """A stuck data line."""
    real = board.read
    monkeypatch.setattr(board, "read", lambda at: real(at) & (0xFFFF_FFFE if at == offset("PROG_BASE_LO") else ~0))
    finding = selftest.registers(board)
    assert not finding.good
    assert "PROG_BASE_LO is 0xfffffffe after 0xffffffff" in finding.text


def test_a_wrong_byte_is_counted(board, monkeypatch):
    """A byte that a port swaps, or a cache line that was not written back."""
    real = board.load
    monkeypatch.setattr(board, "load", lambda at, size: bytes([real(at, size)[0] ^ 1]) + real(at, size)[1:])
    finding = selftest.copy(board)
    assert not finding.good
    assert finding.text.startswith("1 of ")


def test_an_accelerator_that_stops_is_a_finding(board, monkeypatch):
    """The self-test is for sick boards: it must get to its end."""
    monkeypatch.setattr(type(board.emulator), "_execute", lambda self, command: self._stop("read_response", response=2))
    found = selftest.selftest(board, virtual=True)
    assert [finding.good for finding in found] == [True, False, False, False, False]
    assert "the accelerator stopped: cause 3, port 0, response 2" in found[1].text


def test_bandwidth_is_beats_over_clocks(board, monkeypatch):
    """16 bytes a beat; the slowest port is seen."""
    real = board.read
    counts = {offset("CYCLES"): 1000, offset("READ_BEATS0"): 500}
    monkeypatch.setattr(board, "read", lambda at: counts.get(at, real(at)))
    assert selftest.bandwidth(board, "load").text == "port 0 8.00 bytes a clock; 2.4 GB/s in all"
    counts[offset("READ_BEATS0")] = 0
    assert not selftest.bandwidth(board, "load").good


@pytest.mark.parametrize(("beats", "good"), [((500, 480, 510, 500), True), ((500, 500, 500, 100), False)])
def test_a_port_that_is_slower_than_the_others_is_found(board, monkeypatch, beats, good):
    """One of four HP ports at half its width."""
    real = board.read
    counts = {offset("CYCLES"): 1000} | {offset(f"READ_BEATS{port}"): count for port, count in enumerate(beats)}
    monkeypatch.setattr(board, "read", lambda at: counts.get(at, real(at)))
    monkeypatch.setattr(board, "config", preset("zcu102"))
    monkeypatch.setattr(selftest._Placed, "run", lambda self: None)
    assert selftest.bandwidth(board, "load").good is good


class Ticking:
    """A board's registers, with a clock of so many MHz: CYCLES counts for `SECONDS` after the last start, STATUS says busy."""

    SECONDS = 0.15

    def __init__(self, board, megahertz):
        self.board, self.megahertz, self.began = board, megahertz, 0.0
        self.real_read, self.real_write = board.read, board.write

    def write(self, at, value):
        if at == offset("CTRL") and value & 1:
            self.began = time.perf_counter()
        self.real_write(at, value)

    def read(self, at):
        past = time.perf_counter() - self.began
        if at == offset("CYCLES"):
            return int(self.megahertz * 1e6 * min(past, self.SECONDS))
        busy = at == offset("STATUS") and past < self.SECONDS
        return REGISTERS["STATUS"].pack(busy=1) if busy else self.real_read(at)


@pytest.mark.parametrize(("megahertz", "good"), [(300, True), (295, True), (333, False), (100, False)])
def test_the_clock_is_held_against_the_hosts(board, monkeypatch, megahertz, good):
    """A board whose PL clock was left at 100 MHz answers right, at a third of the speed that everything says."""
    ticking = Ticking(board, megahertz)
    monkeypatch.setattr(board, "read", ticking.read)
    monkeypatch.setattr(board, "write", ticking.write)
    monkeypatch.setattr(selftest, "CLOCK_SECONDS", 1e-4)
    finding = selftest.clock(board, virtual=False)
    assert finding.good is good, finding
    assert float(finding.text.split()[0]) == pytest.approx(megahertz, rel=0.01)


def test_a_real_board_must_count_clocks(board):
    """Every figure of speed would be missing, and nobody would have been told."""
    assert not selftest.clock(board, virtual=False).good
    assert selftest.clock(board, virtual=True).good


def test_a_command_takes_only_registers_that_there_are():
    """A misspelt one would be 0 without a word."""
    assert (offset("LOAD_RUN"), 5) in selftest.command("load", run=5)
    with pytest.raises(ValueError, match="load has no register runz"):
        selftest.command("load", runz=5)
    assert all(np.array(selftest.command("load"))[:, 0] >= offset("LOAD_SEG"))
