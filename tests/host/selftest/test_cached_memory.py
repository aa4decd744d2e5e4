"""Cached memory on trial: a board that maintains its cache is proved, one that forgets a line is not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cnna.host.model.board_model import BoardModel
from cnna.host.selftest.cached_memory import TIMES, cached_memory
from cnna.host.selftest.sustained import own_workload

from ..cached_board import CachedBoard
from ..emulated_board import EmulatedBoard
from ..hand_made import failing, requantised_copy

ROUNDS = 6


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CachedBoard]:
    """A board on which nobody has tried it."""
    monkeypatch.setattr("cnna.host.selftest.cached_memory.ROUNDS", ROUNDS)
    made = CachedBoard(tmp_path, proved=False)
    yield made
    made.shut()
    assert not made.buffers


def clock(uncached: float, cached: float) -> Callable[[], float]:
    """The host's clock, by which a move of bytes takes so long in each kind of memory."""
    looks = iter(np.cumsum([step for one in (uncached, cached) for _ in range(TIMES) for step in (1.0, one)]).tolist())
    return lambda: next(looks)


@pytest.mark.parametrize("network", [True, False])
def test_a_board_that_works_is_proved(board: CachedBoard, network: bool) -> None:
    """Models would stay in uncached memory for ever; another process must find the proof."""
    found = cached_memory(board, own_workload(board, 1) if network else None, clock(0.5, 0.25))
    assert found.good
    tried = f"{ROUNDS} patterns and {ROUNDS} runs of the network are" if network else f"{ROUNDS} patterns are"
    assert found.text == f"{tried} as in uncached memory: models use it from now on"
    assert board.caching is not None
    assert board.caching.proof.stands()
    with BoardModel(requantised_copy(), board):
        assert any(one.cached for one in board.buffers.values())


@pytest.mark.parametrize("forgotten", ["clean", "invalidate"])
def test_a_line_that_is_forgotten_proves_nothing(board: CachedBoard, forgotten: str) -> None:
    """A board that loses one line would answer wrong from then on; a proof of earlier days must go."""
    assert board.caching is not None
    board.caching.conclude(True)
    board.model.forget = forgotten
    found = cached_memory(board, own_workload(board, 1), clock(0.5, 0.25))
    assert found.good
    assert "memory stays uncached: " in found.text
    assert "bytes differ in pattern" in found.text
    assert not board.caching.on
    assert not board.caching.proof.stands()


def test_a_network_that_answers_otherwise_proves_nothing(board: CachedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patterns do not go through the run loop's thread."""
    monkeypatch.setattr("cnna.host.selftest.cached_memory._patterns", lambda board: "")
    board.model.forget = "invalidate"
    found = cached_memory(board, own_workload(board, 1), clock(0.5, 0.25))
    assert found.text.startswith("memory stays uncached: the network's answers differ in run ")


def test_memory_that_is_slower_is_not_used(board: CachedBoard) -> None:
    """A kernel that answers each line itself makes cached memory right, and slow."""
    found = cached_memory(board, None, clock(0.002, 0.003))
    assert (found.good, board.caching and board.caching.on) == (True, False)
    assert found.text == "memory stays uncached: it is slower: 3.00 ms to store and load 1 MiB, 2.00 ms uncached"


def test_an_accelerator_that_stops_concludes_nothing(board: CachedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings before it must not be lost, and cached memory is not to blame."""
    failing(monkeypatch, type(board.emulator))
    found = cached_memory(board, None)
    assert not found.good
    assert "the accelerator stopped" in found.text
    assert board.caching is not None
    assert not board.caching.on


def test_a_board_that_cannot_is_said() -> None:
    """Over a network pynq moves bytes, and there is nothing to try."""
    board = EmulatedBoard()
    found = cached_memory(board, None)
    assert (found.good, found.text) == (True, "not tried: a program cannot maintain a cache between itself and this board")
    assert not board.buffers
