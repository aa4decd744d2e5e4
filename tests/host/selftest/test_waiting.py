"""The interrupt on trial: a terminal's two ends play the UIO device and the kernel."""

import os
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnna.host.board.interrupt import Interrupt
from cnna.host.selftest import waiting
from cnna.host.selftest.waiting import ARM, interrupt
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import EmulatedBoard
from ..hand_made import failing


@pytest.fixture
def ends() -> Iterator[tuple[int, Path]]:
    """The kernel's end, and the path of the other."""
    kernels, device = os.openpty()
    tty.setraw(device)
    yield kernels, Path(os.ttyname(device))
    for end in (kernels, device):
        os.close(end)


def test_an_interrupt_that_comes_is_seen(ends: tuple[int, Path]) -> None:
    """It must be armed before the start, since an edge before that is lost."""
    board = EmulatedBoard()
    board.interrupt = Interrupt(ends[1])
    board.mmio.write = lambda at, value: written(at, value)
    write = board.emulator.write

    def written(at: int, value: int) -> None:
        write(at, value)
        if at == offset("CTRL") and REGISTERS["CTRL"].unpack(value)["start"]:
            assert os.read(ends[0], 100) == ARM
            os.write(ends[0], ARM)

    assert interrupt(board) == ("interrupt", True, f"it comes through {ends[1]}")
    assert not board.buffers


def test_an_interrupt_that_does_not_come_is_found(ends: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would learn that the line is another one, because the driver polls then."""
    monkeypatch.setattr(waiting, "SECONDS", 0.05)
    board = EmulatedBoard()
    board.interrupt = Interrupt(ends[1])
    assert interrupt(board) == (
        "interrupt",
        False,
        f"none came through {ends[1]} within 0.05 s of a start; the driver polls instead",
    )


def test_without_a_device_the_reason_is_said() -> None:
    """It is no fault."""
    board = EmulatedBoard()
    board.interrupt = Interrupt(None, "nobody made one")
    assert interrupt(board) == ("interrupt", True, "not tried: the driver waits by polling: nobody made one")


def test_an_accelerator_that_stops_is_a_finding(ends: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings before it must not be lost, nor the file be left open."""
    monkeypatch.setattr(waiting, "SECONDS", 0.05)
    board = EmulatedBoard()
    board.interrupt = Interrupt(ends[1])
    failing(monkeypatch, type(board.emulator))
    with board.turns.mine("a first turn"):  # which leaves its own file open
        before = len(list(Path("/proc/self/fd").iterdir()))
    found = interrupt(board)
    assert (found.good, "the accelerator stopped" in found.text) == (False, True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
