"""The board's self-test on an emulated board: a sound one passes, and each thing that can be broken is found."""

import numpy as np
import pytest

from cnna.host import selftest
from cnna.hw.regmap import offset

from .emulated_board import EmulatedBoard


@pytest.fixture
def board():
    made = EmulatedBoard()
    yield made
    assert not made.buffers


def test_a_sound_board_passes(board):
    """And every part says something."""
    found = selftest.selftest(board)
    assert [finding.name for finding in found] == ["registers", "copy", "read bandwidth", "write bandwidth"]
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
    found = selftest.selftest(board)
    assert [finding.good for finding in found] == [True, False, False, False]
    assert "the accelerator stopped: cause 3, port 0, response 2" in found[1].text


def test_bandwidth_is_beats_over_clocks(board, monkeypatch):
    """16 bytes a beat; the slowest port is seen."""
    real = board.read
    counts = {offset("CYCLES"): 1000, offset("READ_BEATS0"): 500}
    monkeypatch.setattr(board, "read", lambda at: counts.get(at, real(at)))
    assert selftest.bandwidth(board, "load").text == "port 0 8.00 bytes a clock; 2.4 GB/s in all"
    counts[offset("READ_BEATS0")] = 0
    assert not selftest.bandwidth(board, "load").good


def test_a_command_takes_only_registers_that_there_are():
    """A misspelt one would be 0 without a word."""
    assert (offset("LOAD_RUN"), 5) in selftest.command("load", run=5)
    with pytest.raises(ValueError, match="load has no register runz"):
        selftest.command("load", runz=5)
    assert all(np.array(selftest.command("load"))[:, 0] >= offset("LOAD_SEG"))
