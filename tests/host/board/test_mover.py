"""Copies between the host and the DDR4 of the PL that fail, on an emulated board: what is said, and that the next copy works."""

from types import SimpleNamespace

import numpy as np
import pytest

from cnna.host.board import mover
from cnna.host.model.board_model import BoardModel
from cnna.spec.ddr import PL_DDR_BASE, PL_DDR_BYTES
from cnna.spec.errors import RunError, TimedOutError

from ..emulated_board import STANDING
from ..hand_made import expected, failing, requantised_copy, samples


@pytest.mark.parametrize(("bit", "said"), [(0x10, "DMAIntErr"), (0x20, "DMASlvErr"), (0x40, "DMADecErr")])
def test_an_error_bit_of_the_dma_is_named_and_mended(board, bit, said):
    """Stock pynq's wait would look at an idle bit that never comes, or say only `RuntimeError`."""
    x = samples(2)
    with BoardModel(requantised_copy(), board) as session:
        send = board.board.dma.send
        send.attempt = lambda view: send.fail(bit)
        with pytest.raises(RunError, match=rf"the AXI DMA \(MM2S, host to PL DDR4\) stopped with .*{said}.*bytes at 0x4"):
            session.run(x)
        assert not board.board.dram.used_bytes
        del send.attempt
        assert np.array_equal(session.run(x), expected(x))


def test_a_buffer_that_the_dma_does_not_reach(board, monkeypatch):
    """The .hwh has not set up a port: the error must be the DMA's own, not a bit put in by hand."""
    real = board.served.buffer

    def elsewhere(size):
        buffer = real(size)
        buffer.physical_address = 0x1000
        return buffer

    address = board.allocate(64)
    monkeypatch.setattr(board, "_allocate", elsewhere)
    with board.turns.mine("a test"), pytest.raises(RunError, match=r"\(S2MM, PL DDR4 to host\) stopped with decode error"):
        board.load(address, 64)
    monkeypatch.undo()
    board.store(address, bytes(64))
    board.close()


def test_a_copy_that_fails_says_why(board):
    """The reason must be named: the bus behind the accelerator, or a packet of another length than stated."""
    with board.turns.mine("a test"), pytest.raises(RunError, match=r"STREAM_OUT stopped: response DECERR; 64 bytes at 0x4200"):
        board.mover.receive(PL_DDR_BASE + PL_DDR_BYTES, 64)
    address = board.allocate(64)
    streams = board.board.backend.streams
    board.board.dma.send.sink = SimpleNamespace(put=lambda data: streams.put(data[:-16]), drop_put=streams.drop_put)
    with board.turns.mine("a test"), pytest.raises(RunError, match="STREAM_IN stopped: early_end; 64 bytes at 0x4"):
        board.store(address, bytes(64))
    board.close()


def test_a_stream_that_stands_still_is_said(board, monkeypatch):
    """A notebook would hang; the message must say what both ends are doing."""
    x = samples(1)
    with BoardModel(requantised_copy(batch=1), board) as session:
        session.run(x)
        with monkeypatch.context() as patch:
            patch.setattr(session, "timeout_seconds", 0.2)
            patch.setattr(board.board.dma.send, "sink", SimpleNamespace(put=lambda data: False, drop_put=lambda: None))
            with pytest.raises(
                TimedOutError, match=r"not moved within 0.2 s: STREAM_IN is busy, the AXI DMA .* has status 0x"
            ) as caught:
                session.run(x)
            for part in STANDING:
                assert part in str(caught.value), caught.value
            assert not board.board.dma.send.waits, "its buffer is somebody else's now"
        assert np.array_equal(session.run(x), expected(x))


def test_a_dma_whose_reset_does_not_end_is_said(board, monkeypatch):
    """The message must have the DMA's own status, and what the accelerator was doing."""
    dma = board.board.dma
    read = dma.read
    with BoardModel(requantised_copy(batch=1), board) as session:
        session.run(samples(1))
        board.mover.forget()
        monkeypatch.setattr(mover, "RESET_SECONDS", 0.05)
        with monkeypatch.context() as patch:
            patch.setattr(dma, "read", lambda at: read(at) | (mover.RESET if at == 0 else 0))
            with pytest.raises(
                TimedOutError, match=r"reset has not ended after 0.05 s.*MM2S.*status 0x.*S2MM.*status 0x"
            ) as caught:
                session.run(samples(1))
        for part in STANDING:
            assert part in str(caught.value), caught.value
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


def test_ctrl_c_in_a_transfer_leaves_no_memory_and_a_board_that_works(board, monkeypatch):
    """The DMA would go on with memory that belongs to somebody else next."""
    x = samples(1)
    with BoardModel(requantised_copy(batch=1), board) as session:
        with monkeypatch.context() as patch:

            def interrupted(view):
                raise KeyboardInterrupt

            patch.setattr(board.board.dma.send, "attempt", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.run(x)
        assert not board.board.dram.used_bytes
        assert np.array_equal(session.run(x), expected(x))


def test_a_program_that_stops_is_said_although_a_copy_met_it_first(board, monkeypatch):
    """A stopped accelerator refuses copies: the failed copy of the next batch would hide the reason."""
    x = samples(4)
    with BoardModel(requantised_copy(batch=1), board) as session:
        failures = failing(monkeypatch, type(board.board.backend.device))
        assert np.array_equal(session.run(x), expected(x)), "once: tried again"
        failures[0] = 99
        with pytest.raises(RunError, match="the accelerator stopped: read_response SLVERR on port 0"):
            session.run(x)
        failures[0] = 0
        assert np.array_equal(session.run(x), expected(x))
