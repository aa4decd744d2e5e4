"""The ends of a `BoardModel` on an emulated board: it gives its memory back, but never while a run uses it."""

import gc
import threading
from contextlib import suppress

import numpy as np
import pytest

from cnna.host.model.board_model import BoardModel
from cnna.spec.errors import RunError

from ..hand_made import expected, requantised_copy, samples


def test_a_model_that_nobody_closes_gives_its_memory_back(board):
    """A notebook just uses the name again."""
    session = BoardModel(requantised_copy(), board)
    session.run(samples(1))
    assert board.buffers
    del session
    gc.collect()
    assert not board.buffers


def test_a_close_that_was_interrupted_can_be_finished(board, monkeypatch):
    """After Ctrl-C between two buffers, the others would stay until Python ends."""
    session, free, asked = BoardModel(requantised_copy(), board), board.free, []

    def interrupted(address):
        asked.append(address)
        if len(asked) == 2:
            raise KeyboardInterrupt
        free(address)

    monkeypatch.setattr(board, "free", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert board.buffers
    session.close()
    assert not board.buffers


def test_a_board_that_has_gone_takes_its_memory_along(board, monkeypatch):
    """An error from `close` at the end of a with-block would hide the one that ended the block."""
    session = BoardModel(requantised_copy(), board)

    def gone(address):
        raise RunError("the board failed at freeing")

    monkeypatch.setattr(board, "free", gone)
    session.close()
    assert not board.buffers


def test_closing_a_model_ends_its_open_stream(board):
    """Its memory would be freed under the running batch, and every other model would wait for the accelerator."""
    session = BoardModel(requantised_copy(), board)
    answers = session.stream([samples(1), samples(1, 1), samples(1, 2)])
    assert np.array_equal(next(answers), expected(samples(1)))
    session.close()
    assert next(answers, None) is None
    with BoardModel(requantised_copy(), board, turn_seconds=0.1) as other:
        assert np.array_equal(other.run(samples(1)), expected(samples(1)))


@pytest.mark.parametrize("end", [BoardModel.close, lambda session: None], ids=["close", "the last answer"])
def test_another_thread_may_end_a_stream(board, end):
    """Workers of an event loop take a stream's answers in turn: a turn that only its first thread could end would last for ever."""
    session, found = BoardModel(requantised_copy(batch=1), board), []
    answers = session.stream([samples(1), samples(1, 1)])
    beginning = threading.Thread(target=lambda: found.append(next(answers)))
    beginning.start()
    beginning.join(10)
    assert np.array_equal(found[0], expected(samples(1)))
    end(session)
    found += answers
    with BoardModel(requantised_copy(), board, turn_seconds=0.1) as other:
        assert np.array_equal(other.run(samples(1)), expected(samples(1)))
    session.close()


def test_closing_waits_for_a_run_of_another_thread(board, monkeypatch):
    """Its memory would be freed under it, and the accelerator would write where the next model lies."""
    session, answers = BoardModel(requantised_copy(batch=1), board), []
    loading, go_on = threading.Event(), threading.Event()
    load = board.load
    monkeypatch.setattr(board, "load", lambda *place: (loading.set(), go_on.wait(10), load(*place))[2])
    running = threading.Thread(target=lambda: answers.append(session.run(samples(3))))
    running.start()
    assert loading.wait(10)
    closing = threading.Thread(target=session.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "it waits"
    assert session.memory, "nothing is freed yet"
    with pytest.raises(RunError, match="model copy is closed"):
        session.run(samples(1))
    go_on.set()
    closing.join(10)
    running.join(10)
    assert np.array_equal(answers[0], expected(samples(3)))
    assert not board.buffers


def test_closing_ends_a_stream_that_another_thread_is_in(board):
    """`close` would end in `generator already executing`, and the memory would stay."""
    session, caught = BoardModel(requantised_copy(batch=1), board), []
    inside, go_on = threading.Event(), threading.Event()

    def source():
        while True:
            yield samples(1)
            inside.set()
            go_on.wait(10)

    def consume():
        with pytest.raises(RunError, match="model copy is closed") as error:
            list(session.stream(source()))
        caught.append(error)

    streaming = threading.Thread(target=consume)
    streaming.start()
    assert inside.wait(10)
    closing = threading.Thread(target=session.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "it waits"
    assert session.memory, "nothing is freed yet"
    go_on.set()
    closing.join(10)
    streaming.join(10)
    assert caught
    assert not board.buffers


def test_closing_inside_of_ones_own_run_is_refused_at_once(board):
    """`close` would wait for itself, or free memory that the accelerator works on."""
    session = BoardModel(requantised_copy(batch=1), board)

    def source():
        yield samples(1)
        session.close()

    with pytest.raises(RunError, match="model copy cannot be closed from inside its own run"):
        list(session.stream(source()))
    session.close()


def test_a_run_that_does_not_end_keeps_its_memory(board):
    """`close` must say so after a turn's patience, and must not free what is in use."""
    session = BoardModel(requantised_copy(batch=1), board, turn_seconds=0.1)
    inside, go_on = threading.Event(), threading.Event()

    def source():
        inside.set()
        go_on.wait(10)
        yield samples(1)

    def consume():
        with suppress(RunError):  # the model is closed
            list(session.stream(source()))

    streaming = threading.Thread(target=consume)
    streaming.start()
    assert inside.wait(10)
    with pytest.raises(RunError, match=r"model copy has been running in another thread for 0.1 s: end it, then close it again"):
        session.close()
    assert session.memory
    go_on.set()
    streaming.join(10)
    session.close()


def test_ctrl_c_after_the_memory_is_there_leaves_none(board, monkeypatch):
    """Placing a model gives the turn back over the network: Ctrl-C at that moment would keep the memory until Python ends."""
    give = board.turns.turn.give

    def interrupted():
        give()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(board.turns.turn, "give", interrupted)
        with pytest.raises(KeyboardInterrupt):
            BoardModel(requantised_copy(), board)
    assert not board.buffers
