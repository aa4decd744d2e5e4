"""Batches in ping-pong that fail or are abandoned: they are tried again after a reset, and nothing goes on running."""

import numpy as np
import pytest

from cnna.host.model.board_model import BoardModel
from cnna.spec.errors import RunError, TimedOutError
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import STANDING, hanging
from ..hand_made import expected, failing, requantised_copy, samples


def test_an_exception_in_the_middle_leaves_the_accelerator_idle(board):
    """After Ctrl-C in a loop over images, the next run must find an accelerator that answers, and its memory."""

    def source():
        yield samples(1)
        raise KeyboardInterrupt

    with BoardModel(requantised_copy(batch=1), board) as session:
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
    """A single bad answer of the bus must cost only a retry; a lasting one must be reported with place and cause."""
    x = samples(1)
    with BoardModel(requantised_copy(batch=1), board, retries=1) as session:
        failures = failing(monkeypatch, type(board.emulator))
        assert np.array_equal(session.run(x), expected(x))
        failures[0] = 99
        with pytest.raises(RunError, match=r"stopped: read_response SLVERR on port 0 at program write \d+ of \d+, layer copy"):
            session.run(x)
        failures[0] = 0
        assert np.array_equal(session.run(x), expected(x))


def test_a_hang_says_where(board, monkeypatch):
    """`timed out` alone explains nothing: the message must have program counter, layer, engines, errors and traffic."""
    with BoardModel(requantised_copy(batch=1), board, retries=0, timeout_seconds=0.3) as session:
        with hanging(board, monkeypatch), pytest.raises(TimedOutError) as caught:
            session.run(samples(1))
        said = str(caught.value)
        for part in ("hangs: no progress for 0.3 s", *STANDING):
            assert part in said, said
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


def test_a_reset_that_does_not_end_says_where(board, monkeypatch):
    """A reset waits for the bus: the message must say which port owes the answer, and what was running."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        session.run(samples(1))
        read, resetting = board.mmio.read, REGISTERS["STATUS"].pack(resetting=1)
        monkeypatch.setattr("cnna.host.board.board_device.SETTLE_SECONDS", 0.05)
        monkeypatch.setattr(board.mmio, "read", lambda at: read(at) | (resetting if at == offset("STATUS") else 0))
        for playing, where in ((board.playing, "layer copy"), (None, "in no layer of this process's models")):
            board.playing = playing
            with pytest.raises(TimedOutError, match=r"a soft reset has not ended after 0.05 s.*; load the overlay again") as caught:
                board.reset()
            for part in (*STANDING[:1], where, *STANDING[2:], "STATUS resetting"):
                assert part in str(caught.value), caught.value
        monkeypatch.setattr(board.mmio, "read", lambda at: resetting if at == offset("STATUS") else 1 // 0)
        with pytest.raises(TimedOutError, match=r"and its registers cannot be read: the board failed at reading"):
            board.reset()
        monkeypatch.undo()


@pytest.mark.parametrize("left", ["error", "resetting", "done", "busy"])
def test_what_the_last_run_left_is_cleared_before_the_next(board, monkeypatch, left):
    """STATUS would give the last run's end for the next one's.

    A reset must be waited for; one that does not end must be reported.
    """
    with BoardModel(requantised_copy(batch=1), board) as session:
        session.run(samples(1))
        read, write, looks, written = board.mmio.read, board.mmio.write, [3], []

        def status(at):
            looks[0] -= at == offset("STATUS")
            return read(at) | (REGISTERS["STATUS"].pack(**{left: 1}) if at == offset("STATUS") and looks[0] >= 0 else 0)

        def noted(at, value):
            if at == offset("CTRL"):
                written.append(REGISTERS["CTRL"].unpack(value))
            write(at, value)

        monkeypatch.setattr(board.mmio, "read", status)
        monkeypatch.setattr(board.mmio, "write", noted)
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))
        assert [fields["soft_reset"] for fields in written] == [1, 0]
        if left == "resetting":
            looks[0] = 1_000_000
            monkeypatch.setattr("cnna.host.board.board_device.SETTLE_SECONDS", 0.05)
            with pytest.raises(TimedOutError, match=r"a soft reset has not ended after 0.05 s.*; load the overlay again"):
                session.run(samples(1))
            assert not written[-1]["start"]
        monkeypatch.undo()


def test_a_stream_that_is_left_resets_the_batch_that_runs(board, monkeypatch):
    """Its program would go on writing to memory that is freed next, or answer the next run's wait."""
    written, mmio = [], board.mmio
    write = mmio.write
    monkeypatch.setattr(mmio, "write", lambda where, value: (written.append((where, value)), write(where, value)))
    start, reset = (
        (offset("CTRL"), REGISTERS["CTRL"].pack(start=1, irq_enable=1)),
        (offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1)),
    )

    def fails():
        yield samples(1)
        raise KeyboardInterrupt

    with BoardModel(requantised_copy(batch=1), board) as session:
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
