"""Models on a board whose memory is cached and not coherent: a line that nobody cleans or invalidates changes an answer."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cnna.host.board.cached_memory import UNPROVED
from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.board_model import BoardModel

from ..cached_board import LINE, CachedBoard
from ..hand_made import expected, failing, requantised_copy, samples

RUNS = 24


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CachedBoard]]:
    """Boards that a test adds, on which Python's own way of running jobs would be an error."""
    for name in ("PingPong", "Queued"):
        monkeypatch.setattr(f"cnna.host.model.board_model.{name}", None)
    made: list[CachedBoard] = []
    yield made
    for board in made:
        board.shut()
        assert not board.buffers, "a test has left memory allocated"


def wrong_answers(board: CachedBoard, batch: int) -> int:
    """How many of RUNS batches have an answer that the emulator does not give."""
    feeds = [samples(batch, seed=number) for number in range(RUNS)]
    with BoardModel(requantised_copy(batch=batch), board) as session:
        return sum(not np.array_equal(y, expected(x, batch=batch)) for x, y in zip(feeds, session.stream(feeds), strict=True))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [1, 3])
def test_answers_are_the_emulators(boards: list[CachedBoard], tmp_path: Path, batch: int, seed: int) -> None:
    """A line that is not cleaned, not invalidated, or dirty where the accelerator writes shows old or foreign bytes."""
    boards.append(CachedBoard(tmp_path, seed=seed))
    assert not wrong_answers(boards[0], batch)


@pytest.mark.parametrize("forgotten", ["clean", "invalidate"])
def test_one_line_that_is_forgotten_changes_an_answer(boards: list[CachedBoard], tmp_path: Path, forgotten: str) -> None:
    """The test above would pass without any maintenance, if the model were coherent."""
    boards.append(CachedBoard(tmp_path, forget=forgotten))
    assert wrong_answers(boards[0], 3)


def test_a_dirty_line_of_an_output_changes_an_answer(
    boards: list[CachedBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the last owner of the memory wrote would be written back over an answer, if nobody had invalidated it before."""
    board = CachedBoard(tmp_path)
    boards.append(board)
    allocate = board.allocate_moved

    def dirty(size_bytes: int) -> int:
        address = allocate(size_bytes)
        region = board.model.regions[-1]
        region.clean[:] = ~region.host
        return address

    monkeypatch.setattr(board, "allocate_moved", dirty)
    assert wrong_answers(board, 3)


def test_inputs_and_outputs_are_cached_alone(boards: list[CachedBoard], tmp_path: Path) -> None:
    """Constants that are cached would be read from DDR before they are there. Lines that two buffers share would lose a write."""
    board = CachedBoard(tmp_path)
    boards.append(board)
    with BoardModel(requantised_copy(batch=3), board) as session:
        cached = [one for one in board.buffers.values() if one.cached]
        assert len(cached) == 6, "inputs and outputs of three slots"
        assert len(board.buffers) > len(cached)
        assert all(one.address % LINE == 0 and one.buffer.size % LINE == 0 for one in cached)
        assert any(one.size % LINE for one in cached), "the model's sizes are no whole lines"
        assert sum(session.memory.values()) == sum(one.size for one in board.buffers.values())


def test_two_models_and_errors(boards: list[CachedBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is tried again after a reset needs its lines as much as the first did."""
    board = CachedBoard(tmp_path)
    boards.append(board)
    with BoardModel(requantised_copy(batch=1), board) as one, BoardModel(requantised_copy(batch=2), board) as two:
        given = [(number % 2, samples(1 + number % 2, seed=number)) for number in range(12)]
        batches = [BoardBatch.of((one, two), model, x, tag=x) for model, x in given]
        for batch, answers in alternate((one, two), batches):
            assert np.array_equal(answers["y"], expected(batch.tag))
        failures = failing(monkeypatch, type(board.emulator))
        x = samples(3)
        assert np.array_equal(one.run(x), expected(x))
        assert not failures[0]


def test_where_it_was_never_tried_memory_is_not_cached(
    boards: list[CachedBoard], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A board that cannot maintain its cache would answer wrong. A user must learn once, not at each model, why."""
    board = CachedBoard(tmp_path, proved=False)
    boards.append(board)
    with caplog.at_level(logging.WARNING, "cnna"):
        for _ in range(2):
            with BoardModel(requantised_copy(batch=1), board) as session:
                assert not any(one.cached for one in board.buffers.values())
                assert np.array_equal(session.run(samples(2)), expected(samples(2)))
    assert [record.getMessage() for record in caplog.records] == [UNPROVED]


def test_memory_that_begins_within_a_line_is_not_cached(boards: list[CachedBoard], tmp_path: Path) -> None:
    """Its first line would hold bytes of somebody else, which come and go with it."""
    board = CachedBoard(tmp_path, shift=16)
    boards.append(board)
    with BoardModel(requantised_copy(batch=1), board) as session:
        assert not any(one.cached for one in board.buffers.values())
        assert np.array_equal(session.run(samples(2)), expected(samples(2)))
    assert not board.model.regions, "the buffer that was tried is given back"


@pytest.mark.parametrize("start", [0, 5, LINE - 1, LINE])
def test_python_cleans_and_invalidates_what_it_moves(boards: list[CachedBoard], tmp_path: Path, start: int) -> None:
    """The self-test moves bytes without the run loop: it would prove nothing."""
    board = CachedBoard(tmp_path)
    boards.append(board)
    address = board.allocate_moved(5 * LINE + 3)
    data = np.arange(3 * LINE, dtype=np.uint8)
    board.store(address + start, data)
    assert board.emulator.load(address + start, data.size) == data.tobytes()
    board.emulator.store(address + start, ~data)
    assert board.load(address + start, data.size) == (~data).tobytes()
    board.free(address)
