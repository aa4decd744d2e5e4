"""The board's self-test on an emulated board: a sound board passes, and each fault that can be made is found."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.host.selftest import selftest
from cnna.spec.config import preset
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import EmulatedBoard


@pytest.fixture
def board():
    made = EmulatedBoard()
    yield made
    assert not made.buffers


def test_a_sound_board_passes(board):
    """A sound board would fail, or a part would say nothing."""
    found = selftest.selftest(board, virtual=True)
    assert [finding.name for finding in found] == ["registers", "copy", "read bandwidth", "write bandwidth", "clock"]
    assert all(finding.good for finding in found), found
    assert "bytes equal" in found[1].text
    assert "counts no clocks" in found[2].text


def test_a_register_that_loses_bits_is_named(board, monkeypatch):
    """A data line is stuck."""
    real = board.read
    monkeypatch.setattr(board, "read", lambda at: real(at) & (0xFFFF_FFFE if at == offset("PROG_BASE_LO") else ~0))
    finding = selftest.registers(board)
    assert not finding.good
    assert "PROG_BASE_LO is 0xfffffffe after 0xffffffff" in finding.text


def test_a_wrong_byte_is_counted(board, monkeypatch):
    """A port swaps a byte, or a cache line was not written back."""
    real = board.load
    monkeypatch.setattr(board, "load", lambda at, size: bytes([real(at, size)[0] ^ 1]) + real(at, size)[1:])
    finding = selftest.copy(board)
    assert not finding.good
    assert finding.text.startswith("1 of ")


def test_an_accelerator_that_stops_is_a_finding(board, monkeypatch):
    """The self-test is for faulty boards: it must get to its end."""
    monkeypatch.setattr(type(board.emulator), "execute", lambda self, command: self.stop("read_response", response=2))
    found = selftest.selftest(board, virtual=True)
    assert [finding.good for finding in found] == [True, False, False, False, False]
    assert "the accelerator stopped: cause 3, port 0, response 2" in found[1].text


class Counting:
    """A board whose counters show given values after each run: (clocks, beats of each port), in turn."""

    def __init__(self, board, monkeypatch, *runs, kind="READ"):
        self.runs, self.kind, self.real = list(runs), kind, board.read
        monkeypatch.setattr(board, "read", self.read)
        monkeypatch.setattr(selftest.Placed, "run", lambda placed: setattr(self, "now", self.runs.pop(0)))

    def read(self, at):
        clocks, *beats = self.now
        counts = {offset("CYCLES"): clocks} | {offset(f"{self.kind}_BEATS{port}"): count for port, count in enumerate(beats)}
        return counts.get(at, self.real(at))


def test_read_bandwidth_is_beats_over_clocks(board, monkeypatch):
    """A beat has 16 bytes. The delay before the first beat is in both runs, so their difference must not have it."""
    Counting(board, monkeypatch, (700, 500), (1200, 1000))
    assert selftest.read_bandwidth(board).text == "port 0 16.00 bytes a clock; 4.8 GB/s in all"


@pytest.mark.parametrize(
    ("streams", "beats", "good"),
    [(0, (750, 750, 750, 750), True), (0, (500, 500, 500, 500), False), (0, (1000, 1000, 1000, 0), False), (1, (230,) * 4, True)],
)
def test_ports_that_bring_too_little_are_found(board, monkeypatch, streams, beats, good):
    """HP ports at half their width keep the others waiting; a port may also not be connected."""
    monkeypatch.setattr(board, "config", replace(preset("zcu102"), streams=streams))
    Counting(board, monkeypatch, (500, 0, 0, 0, 0), (1500, *beats))
    finding = selftest.read_bandwidth(board)
    assert finding.good is good
    assert good or "the plan is 48 bytes a clock, and less than 70% of it is too little" in finding.text


@pytest.mark.parametrize(("beats", "good"), [(900, True), (200, False)])
def test_write_bandwidth_too(board, monkeypatch, beats, good):
    """There is one port of 16 bytes; a quarter of that is the least that passes."""
    Counting(board, monkeypatch, (1000, beats), kind="WRITE")
    finding = selftest.write_bandwidth(board)
    assert finding.good is good
    assert finding.text.startswith(f"port 0 {16 * beats / 1000:.2f} bytes a clock")


class Ticking:
    """A board's registers with a clock of so many MHz: CYCLES counts for `SECONDS` after the last start, while STATUS is busy.

    A read takes `READ`, and shows what is there at its half. Every third one is held up for `HELD_UP` before it: a look at the
    counter that was held up is older than it seems.
    """

    SECONDS, READ, HELD_UP = 0.15, 1e-5, 7e-3

    def __init__(self, board, megahertz):
        self.board, self.megahertz, self.began = board, megahertz, 0.0
        self.seconds, self.reads = 1.0, 0
        self.real_read, self.real_write = board.read, board.write

    def write(self, at, value):
        if at == offset("CTRL") and value & 1:
            self.began = self.seconds
        self.real_write(at, value)

    def read(self, at):
        self.reads += 1
        self.seconds += self.READ / 2 + self.HELD_UP * (self.reads % 3 == 0)
        past = self.seconds - self.began
        self.seconds += self.READ / 2
        if at == offset("CYCLES"):
            return int(self.megahertz * 1e6 * min(past, self.SECONDS))
        busy = at == offset("STATUS") and past < self.SECONDS
        return REGISTERS["STATUS"].pack(busy=1) if busy else self.real_read(at)

    def now(self):
        return self.seconds


@pytest.mark.parametrize(("megahertz", "good"), [(300, True), (295, True), (333, False), (100, False)])
def test_the_clock_is_held_against_the_hosts(board, monkeypatch, megahertz, good):
    """A board whose PL clock was left at 100 MHz answers right, but at a third of the stated speed."""
    ticking = Ticking(board, megahertz)
    monkeypatch.setattr(board, "read", ticking.read)
    monkeypatch.setattr(board, "write", ticking.write)
    monkeypatch.setattr(selftest, "CLOCK_SECONDS", 1e-4)
    finding = selftest.clock(board, False, ticking.now)
    assert finding.good is good, finding
    assert float(finding.text.split()[0]) == pytest.approx(megahertz, abs=0.1)


def test_a_real_board_must_count_clocks(board):
    """Every figure of speed would be missing without a word."""
    assert not selftest.clock(board, virtual=False).good
    assert selftest.clock(board, virtual=True).good


def test_a_command_takes_only_registers_that_there_are():
    """A misspelt register would silently be 0."""
    assert (offset("LOAD_RUN"), 5) in selftest.command("load", run=5)
    with pytest.raises(ValueError, match="load has no register runz"):
        selftest.command("load", runz=5)
    assert all(np.array(selftest.command("load"))[:, 0] >= offset("LOAD_SEG"))
