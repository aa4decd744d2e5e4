"""`cnna.host.Model` on a board that is emulated without pynq: answers, several models, errors, and nothing left behind."""

import gc
import threading

import numpy as np
import pytest

import cnna.host
from cnna.host.board_device import pause_seconds
from cnna.host.errors import ArtifactError, DataError, RunError, TimedOutError
from cnna.host.session import Model
from cnna.hw.config import preset
from cnna.hw.regmap import REGISTERS, offset

from .emulated_board import STANDING, EmulatedBoard
from .hand_made import expected, requantised_copy, samples


@pytest.fixture
def board():
    with_memory = EmulatedBoard()
    yield with_memory
    assert not with_memory.buffers, "a test has left memory allocated"


def test_it_is_the_packages_model():
    """`cnna.host.Model` is what the documents and notebooks import."""
    assert cnna.host.Model is Model
    with pytest.raises(AttributeError):
        cnna.host.no_such_thing  # noqa: B018 - the access is the test


@pytest.mark.parametrize("count", [1, 2, 7])
def test_answers_are_those_of_the_emulator(board, count):
    """Ping-pong between two places in memory must neither mix up nor lose a batch."""
    x = samples(count)
    with Model(board, requantised_copy(batch=2)) as session:
        assert np.array_equal(session.run(x), expected(x))
        assert np.array_equal(session.run({"x": x})["y"], expected(x))
        assert session.last["device"] == "pynq"
        assert sum(session.memory.values()) >= 2 * requantised_copy(batch=2).manifest["segments"]["input"]
    assert not board.buffers


def test_a_stream_yields_in_order_and_takes_ahead(board):
    """Throughput comes from preparing image n + 1 while n runs; an answer must still belong to its image."""
    taken = []

    def source():
        for number in range(5):
            taken.append(number)
            yield samples(1 + number % 2, seed=number)

    with Model(board, requantised_copy(batch=2)) as session:
        for number, answer in enumerate(session.stream(source())):
            assert np.array_equal(answer, expected(samples(1 + number % 2, seed=number)))
            assert len(taken) == min(5, number + 2)
        with pytest.raises(DataError, match="3 samples at once"):
            list(session.stream([samples(3)]))


def test_runs_in_the_background_come_back_in_order(board):
    """A second run_async before the first wait must not disturb it."""
    with Model(board, requantised_copy(batch=1)) as session:
        pending = [session.run_async(samples(3, seed=seed)) for seed in range(3)]
        for seed, run in enumerate(pending):
            assert np.array_equal(run.wait(30), expected(samples(3, seed=seed)))
            assert run.done


def test_an_answer_that_is_not_there_yet_is_said_with_what_goes_on(board):
    """Python's own error has no text at all; and what was never begun when its model was closed is no mystery."""
    with Model(board, requantised_copy(batch=1)) as session, Model(board, requantised_copy(batch=1)) as other:
        session.run(samples(1))
        stream = other.stream(samples(1, seed=n) for n in range(3))
        next(stream)
        pending = [session.run_async(samples(1)) for _ in range(2)]
        with pytest.raises(TimeoutError, match=r"model copy has no answer after 0.05 s: ") as caught:
            pending[0].wait(0.05)
        for part in STANDING:
            assert part in str(caught.value), caught.value
        closing = threading.Thread(target=session.close)
        closing.start()
        with pytest.raises(RunError, match="model copy was closed before this run began"):
            pending[1].wait(30)
        list(stream)
        closing.join()
        assert np.array_equal(pending[0].wait(30), expected(samples(1)))


def test_two_models_share_the_accelerator(board):
    """Each must set its own registers again after the other has run."""
    x = samples(4)
    with Model(board, requantised_copy(batch=1)) as one, Model(board, requantised_copy(batch=2)) as two:
        for _ in range(2):
            assert np.array_equal(one.run(x), expected(x))
            assert np.array_equal(two.run(x), expected(x))
        assert not set(one.memory) & set(two.memory)
        one.close()
        assert np.array_equal(two.run(x), expected(x))
        with pytest.raises(RunError, match="model copy is closed"):
            one.run(x)


def test_out_of_memory_is_said_and_leaves_nothing(board):
    """Notebooks die of memory that nobody can find any more."""
    with Model(board, requantised_copy()) as resident:
        held = set(board.buffers)
        board.emulator.allocate(board.room - (48 << 10))  # leaves room for some of the next model's buffers
        with pytest.raises(
            RunError, match=r"the PS's DDR has no [\d,]+ bytes of contiguous memory left.*in 1\d buffers: close one"
        ):
            Model(board, requantised_copy())
        assert set(board.buffers) == held == set(resident.memory)


def test_a_model_that_nobody_closes_gives_its_memory_back(board):
    """In a notebook the name is just used again."""
    session = Model(board, requantised_copy())
    session.run(samples(1))
    assert board.buffers
    del session
    gc.collect()
    assert not board.buffers


def test_an_exception_in_the_middle_leaves_the_accelerator_idle(board):
    """Ctrl-C in a loop over images: the next run must find an accelerator that answers, with its memory."""

    def source():
        yield samples(1)
        raise KeyboardInterrupt

    with Model(board, requantised_copy(batch=1)) as session:
        with pytest.raises(KeyboardInterrupt):
            list(session.stream(source()))
        assert not REGISTERS["STATUS"].unpack(board.read(offset("STATUS")))["busy"]
        x = samples(2)
        assert np.array_equal(session.run(x), expected(x))
        stream = session.stream(samples(1, seed=n) for n in range(9))
        next(stream)
        stream.close()
        assert np.array_equal(session.run(x), expected(x)), "a stream that is closed early gives its turn back"


def test_an_error_is_tried_again_after_a_reset(board, monkeypatch):
    """A single bad answer of the bus costs a retry; one that stays is reported with place and cause."""
    x = samples(1)
    with Model(board, requantised_copy(batch=1), retries=1) as session:
        execute, failures = type(board.emulator)._execute, [1]

        def failing(self, command):
            if failures[0]:
                failures[0] -= 1
                self._stop("read_response", port=0, response=2)
            else:
                execute(self, command)

        monkeypatch.setattr(type(board.emulator), "_execute", failing)
        assert np.array_equal(session.run(x), expected(x))
        failures[0] = 99
        with pytest.raises(RunError, match=r"stopped: read_response SLVERR on port 0 at program write \d+ of \d+, layer copy"):
            session.run(x)
        failures[0] = 0
        assert np.array_equal(session.run(x), expected(x))


def test_a_hang_says_where(board, monkeypatch):
    """`timed out` alone explains nothing: program counter, layer, engines, errors and traffic are in the message."""
    with Model(board, requantised_copy(batch=1), retries=0, timeout_seconds=0.3) as session:
        with monkeypatch.context() as patch:
            patch.setattr(board, "_ended", lambda: False)
            with pytest.raises(TimedOutError) as caught:
                session.run(samples(1))
        said = str(caught.value)
        for part in ("hangs: nothing has moved for 0.3 s", *STANDING):
            assert part in said, said
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


def test_a_reset_that_does_not_end_says_where(board, monkeypatch):
    """It waits for the bus: which port owes the answer, and what was running, is what there is to find out."""
    with Model(board, requantised_copy(batch=1)) as session:
        session.run(samples(1))
        read, resetting = board._mmio.read, REGISTERS["STATUS"].pack(resetting=1)
        monkeypatch.setattr("cnna.host.board_device.SETTLE_SECONDS", 0.05)
        monkeypatch.setattr(board._mmio, "read", lambda at: read(at) | (resetting if at == offset("STATUS") else 0))
        for playing, where in ((board.playing, "layer copy"), (None, "in no layer of this process's models")):
            board.playing = playing
            with pytest.raises(TimedOutError, match=r"a soft reset has not ended after 0.05 s.*; load the overlay again") as caught:
                board.reset()
            for part in (*STANDING[:1], where, *STANDING[2:], "STATUS resetting"):
                assert part in str(caught.value), caught.value
        monkeypatch.setattr(board._mmio, "read", lambda at: resetting if at == offset("STATUS") else 1 // 0)
        with pytest.raises(TimedOutError, match=r"and its registers cannot be read: the board failed at reading"):
            board.reset()
        monkeypatch.undo()


def test_waiting_costs_a_small_part_of_what_is_waited_for():
    """Looks that double in distance would find a run of 3.3 ms done after 6: half of the throughput."""
    for run in (1e-4, 3.3e-3, 0.04, 2.0):
        waited = looks = 0
        while waited < run:
            waited += pause_seconds(waited)
            looks += 1
        assert waited <= run * 1.07 + 50e-6
        assert looks < 400


def test_a_busy_accelerator_names_its_holder(board):
    """Who waits wants to know for whom."""
    with Model(board, requantised_copy(batch=1)) as session, Model(board, requantised_copy(batch=1), turn_seconds=0.2) as other:
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
    """It waited a minute for its own thread, and then blamed it: nobody else could have ended the stream."""
    with Model(board, requantised_copy(batch=1)) as session, Model(board, requantised_copy(batch=2)) as other:
        stream = session.stream(samples(1, seed=n) for n in range(3))
        next(stream)
        for use in (lambda: other.run(samples(1)), lambda: session.run(samples(1)), lambda: Model(board, requantised_copy())):
            with pytest.raises(RunError, match=r"this thread has the accelerator already: .*model copy; .*close its open stream"):
                use()
        assert len(list(stream)) == 2, "the stream goes on"
        assert np.array_equal(other.run(samples(1)), expected(samples(1)))


def test_a_stream_that_is_left_resets_the_batch_that_runs(board, monkeypatch):
    """Its program would go on writing into memory that is freed next, or answer the next run's wait."""
    written, mmio = [], board._mmio
    write = mmio.write
    monkeypatch.setattr(mmio, "write", lambda where, value: (written.append((where, value)), write(where, value)))
    start, reset = (
        (offset("CTRL"), REGISTERS["CTRL"].pack(start=1, irq_enable=1)),
        (offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1)),
    )

    def fails():
        yield samples(1)
        raise KeyboardInterrupt

    with Model(board, requantised_copy(batch=1)) as session:
        stream = session.stream(samples(1, seed=n) for n in range(9))
        next(stream)
        stream.close()
        assert written.index(reset, len(written) - 1 - written[::-1].index(start)), "after the last start"
        written.clear()
        with pytest.raises(KeyboardInterrupt):
            list(session.stream(fails()))
        assert [each for each in written if each in (start, reset)] == [start, reset]
        written.clear()
        session.run(samples(3))
        assert reset not in written, "a run that ended needs none"


def test_the_wrong_hwh_or_artifact_is_refused():
    """Sizes that do not fit give wrong answers or hang; both names and values are in the message."""
    with pytest.raises(ArtifactError, match=r"not the one in the overlay's .hwh \(C_PIX 2, not 8\)"):
        EmulatedBoard(parameters={"C_PIX": "8", "C_CI": "4"})
    board = EmulatedBoard(parameters={"C_PIX": "2"})
    other = {**requantised_copy().manifest["config"], "pix": preset("zcu102").pix}
    with pytest.raises(ArtifactError, match="compiled for tiny; the device has pix 2, not 8"):
        Model(board, requantised_copy(config=other))
    assert not board.buffers


def test_a_thousand_runs_in_constant_memory(board):
    """A leak of one buffer a run ends a demonstration after an hour."""
    x = samples(1)
    with Model(board, requantised_copy(batch=1)) as session:
        want, held = session.run(x), dict(board.buffers)
        for _ in range(1000):
            assert np.array_equal(session.run(x), want)
        assert board.buffers == held


def test_what_a_killed_process_left_running_is_stopped_first(board, monkeypatch):
    """Its program would go on writing where the next model's weights and program now lie."""
    busy, order, mmio = [True], [], board._mmio
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
    with Model(board, requantised_copy()) as session:
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


def test_a_close_that_was_interrupted_can_be_finished(board, monkeypatch):
    """Ctrl-C between two buffers kept the others until Python ended."""
    session, free, asked = Model(board, requantised_copy()), board.free, []

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
    """An error from `close` at the end of a with-block would hide the one that ended it."""
    session = Model(board, requantised_copy())

    def gone(address):
        raise RunError("the board failed at freeing")

    monkeypatch.setattr(board, "free", gone)
    session.close()
    assert not board.buffers


def test_closing_a_model_ends_its_open_stream(board):
    """Its memory was freed under the batch that ran, and the accelerator stayed its own for every other model."""
    session = Model(board, requantised_copy())
    answers = session.stream([samples(1), samples(1, 1), samples(1, 2)])
    assert np.array_equal(next(answers), expected(samples(1)))
    session.close()
    assert next(answers, None) is None
    with Model(board, requantised_copy(), turn_seconds=0.1) as other:
        assert np.array_equal(other.run(samples(1)), expected(samples(1)))


def test_each_model_has_limits_of_its_own(board):
    """Those of the model that was made last held for all."""
    with (
        Model(board, requantised_copy(), timeout_seconds=30, turn_seconds=100) as first,
        Model(board, requantised_copy()) as second,
    ):
        for session, limits in ((second, (10, 60)), (first, (30, 100))):
            session.run(samples(1))
            assert (board.timeout_seconds, board.turns.patience_seconds) == limits
