"""`BoardModel`, and a session over it, on a board that is emulated without pynq: several models, errors, nothing left behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cnna.host.board.run_wait import pause_seconds
from cnna.host.model.board_model import BoardModel
from cnna.host.model.session import InferenceSession
from cnna.spec.config import preset
from cnna.spec.errors import ArtifactError, DataError, RunError
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import STANDING, EmulatedBoard
from ..hand_made import expected, requantised_copy, samples


@pytest.mark.parametrize("count", [1, 2, 7])
def test_answers_are_those_of_the_emulator(board, count):
    """Ping-pong between two places in memory would mix up or lose a batch."""
    x = samples(count)
    with BoardModel(requantised_copy(batch=2), board) as session:
        assert np.array_equal(session.run(x), expected(x))
        assert np.array_equal(session.run({"x": x})["y"], expected(x))
        assert session.last["device"] == "pynq"
        assert sum(session.memory.values()) >= 2 * requantised_copy(batch=2).program.manifest["segments"]["input"]
    assert not board.buffers


def test_a_stream_yields_in_order_and_takes_ahead(board):
    """Throughput comes from preparing image n + 1 while n runs; an answer must still belong to its image."""
    taken = []

    def source():
        for number in range(5):
            taken.append(number)
            yield samples(1 + number % 2, seed=number)

    with BoardModel(requantised_copy(batch=2), board) as session:
        for number, answer in enumerate(session.stream(source())):
            assert np.array_equal(answer, expected(samples(1 + number % 2, seed=number)))
            assert len(taken) == min(5, number + (3 if board.places else 2))
        with pytest.raises(DataError, match="3 samples at once"):
            list(session.stream([samples(3)]))


def test_runs_in_the_background_come_back_in_order(board):
    """A second run_async before the first wait would disturb it."""
    with InferenceSession(requantised_copy(batch=1), board) as session:
        pending = [session.run_async(None, {"x": samples(3, seed=seed)}) for seed in range(3)]
        for seed, run in enumerate(pending):
            assert np.array_equal(run.result(30)[0], expected(samples(3, seed=seed)))
            assert run.done()


def test_an_answer_that_is_not_there_yet_is_said_with_what_goes_on(board):
    """Python's own error has no text at all. If a model is closed before a run began, the message must say so."""
    with InferenceSession(requantised_copy(batch=1), board) as session, BoardModel(requantised_copy(batch=1), board) as other:
        session.run(None, {"x": samples(1)})
        stream = other.stream(samples(1, seed=n) for n in range(3))
        next(stream)
        pending = [session.run_async(None, {"x": samples(1)}) for _ in range(2)]
        with pytest.raises(TimeoutError, match=r"model copy has no answer after 0.05 s: ") as caught:
            pending[0].result(0.05)
        for part in STANDING:
            assert part in str(caught.value), caught.value
        closing = threading.Thread(target=session.close)
        closing.start()
        with pytest.raises(RunError, match="model copy was closed before this run began"):
            pending[1].result(30)
        list(stream)
        closing.join()
        assert np.array_equal(pending[0].result(30)[0], expected(samples(1)))


def test_two_models_share_the_accelerator(board):
    """Each model must set its own registers again after the other has run."""
    x = samples(4)
    with BoardModel(requantised_copy(batch=1), board) as one, BoardModel(requantised_copy(batch=2), board) as two:
        for _ in range(2):
            assert np.array_equal(one.run(x), expected(x))
            assert np.array_equal(two.run(x), expected(x))
        assert not set(one.memory) & set(two.memory)
        one.close()
        assert np.array_equal(two.run(x), expected(x))
        with pytest.raises(RunError, match="model copy is closed"):
            one.run(x)


def test_out_of_memory_is_said_and_leaves_nothing(board):
    """Notebooks die when memory is lost and nobody can find it any more."""
    with BoardModel(requantised_copy(), board) as resident:
        held = set(board.buffers)
        board.emulator.allocate(board.room - (48 << 10))  # leaves room for some of the next model's buffers
        with pytest.raises(
            RunError, match=r"the PS's DDR has no [\d,]+ bytes of contiguous memory left.*in 1\d buffers: close one"
        ):
            BoardModel(requantised_copy(), board)
        assert set(board.buffers) == held == set(resident.memory)


def test_waiting_costs_a_small_part_of_what_is_waited_for():
    """If the pauses between looks doubled, a run of 3.3 ms would be found done after 6 ms: half of the throughput."""
    for run in (1e-4, 3.3e-3, 0.04, 2.0):
        waited = looks = 0
        while waited < run:
            waited += pause_seconds(waited)
            looks += 1
        assert waited <= run * 1.07 + 50e-6
        assert looks < 400


def test_a_busy_accelerator_names_its_holder(board):
    """A waiting user wants to know for whom."""
    with (
        BoardModel(requantised_copy(batch=1), board) as session,
        BoardModel(requantised_copy(batch=1), board, turn_seconds=0.2) as other,
    ):
        stream = session.stream(samples(1, seed=n) for n in range(3))
        next(stream)
        caught = []

        def waits():
            with pytest.raises(RunError) as error:
                other.run(samples(1))
            caught.append(error)

        thread = threading.Thread(target=waits)
        thread.start()
        thread.join()
        assert "busy for 0.2 s: process" in str(caught[0].value)
        assert "model copy has it" in str(caught[0].value)
        list(stream)
        assert np.array_equal(other.run(samples(1)), expected(samples(1)))


def test_a_run_inside_an_open_stream_is_refused_at_once(board):
    """It would wait for its own thread for a minute, and then blame it: nobody else can end the stream."""
    with BoardModel(requantised_copy(batch=1), board) as session, BoardModel(requantised_copy(batch=2), board) as other:
        stream = session.stream(samples(1, seed=n) for n in range(3))
        next(stream)
        for use in (lambda: other.run(samples(1)), lambda: session.run(samples(1)), lambda: BoardModel(requantised_copy(), board)):
            with pytest.raises(RunError, match=r"this thread has the accelerator already: .*model copy; .*close its open stream"):
                use()
        assert len(list(stream)) == 2, "the stream goes on"
        assert np.array_equal(other.run(samples(1)), expected(samples(1)))


def test_the_wrong_hwh_or_artifact_is_refused():
    """Sizes that do not fit give wrong answers or hang; the message must have both names and values."""
    with pytest.raises(ArtifactError, match=r"not the one in the overlay's .hwh \(C_PIX 2, not 8\)"):
        EmulatedBoard(parameters={"C_PIX": "8", "C_CI": "4"})
    board = EmulatedBoard(parameters={"C_PIX": "2"})
    other = {**requantised_copy().manifest["config"], "pix": preset("zcu102").pix}
    with pytest.raises(ArtifactError, match="compiled for tiny; the device has pix 2, not 8"):
        BoardModel(requantised_copy(config=other), board)
    assert not board.buffers


def test_a_thousand_runs_in_constant_memory(board):
    """A leak of one buffer a run would end a demonstration after an hour."""
    x = samples(1)
    with BoardModel(requantised_copy(batch=1), board) as session:
        want, held = session.run(x), dict(board.buffers)
        for _ in range(1000):
            assert np.array_equal(session.run(x), want)
        assert board.buffers == held


def test_what_a_killed_process_left_running_is_stopped_first(board, monkeypatch):
    """Its program would go on writing where the next model's weights and program now lie."""
    busy, order, mmio = [True], [], board.mmio
    read, write, store = mmio.read, mmio.write, board.store
    soft_reset = REGISTERS["CTRL"].pack(soft_reset=1)

    def written(where, value):
        if (where, value) == (offset("CTRL"), soft_reset):
            order.append("reset")
            busy.clear()
        write(where, value)

    def stored(address, data):
        order.append("store")
        store(address, data)

    status = offset("STATUS")
    monkeypatch.setattr(mmio, "read", lambda where: read(where) | (where == status and bool(busy)))
    monkeypatch.setattr(mmio, "write", written)
    monkeypatch.setattr(board, "store", stored)
    with BoardModel(requantised_copy(), board) as session:
        assert order[0] == "reset"
        assert not busy
        session.run(samples(1))
        order.clear()
        session.run(samples(1))
        assert order == ["store"], "nobody else was there"
        order.clear()
        board.turns.turn.path.write_text("another\nof another process")
        busy.append(True)
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))
        assert order[0] == "reset"


def test_each_model_has_limits_of_its_own(board):
    """The limits of the model that was made last, or of a waiting one, would hold for all."""
    with (
        BoardModel(requantised_copy(batch=1), board, timeout_seconds=30) as first,
        BoardModel(requantised_copy(), board, timeout_seconds=1, turn_seconds=0.1) as second,
    ):
        stream = first.stream(samples(1, seed=n) for n in range(3))
        next(stream)
        limits = board.timeout_seconds, board.limit_clocks
        assert limits[0] == 30
        with pytest.raises(RunError, match=r"busy for 0\.1 s"):
            ThreadPoolExecutor(1).submit(second.run, samples(1)).result()
        assert (board.timeout_seconds, board.limit_clocks) == limits, "another's, in the middle of a run"
        list(stream)
        assert (board.timeout_seconds, board.limit_clocks) == (10, None), "the board's own"
