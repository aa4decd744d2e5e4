"""The driver on a board of variant `pl` whose RTL meets errors of the bus, in copies and in programs beside them, and silence."""

from collections.abc import Iterator

import numpy as np
import pytest

from cnna.host.model.board_model import BoardModel
from cnna.sim.board.board import VirtualBoard, open_board
from cnna.sim.board.rtl_backend import RtlBackend
from cnna.spec.config import preset
from cnna.spec.errors import RunError, TimedOutError

from ..emulated_board import StreamedBoard, short_resets, simulated
from ..hand_made import expected, requantised_copy, samples

pytestmark = pytest.mark.cosim
X = samples(4, seed=5)


@pytest.fixture(scope="module")
def made() -> Iterator[VirtualBoard]:
    """The RTL of `tiny` with streams."""
    board = open_board(preset("tiny"), "pl", "rtl", 16 << 20)
    yield board
    board.close()


@pytest.fixture
def board(made: VirtualBoard) -> Iterator[StreamedBoard]:
    """A driver's view of the board."""
    served = StreamedBoard(made)
    yield served
    assert not served.buffers
    assert not made.dram.used_bytes


@pytest.fixture
def rtl(made: VirtualBoard) -> RtlBackend:
    """The board's backend, for its faults."""
    assert isinstance(made.backend, RtlBackend)
    return made.backend


@pytest.mark.parametrize(("write", "copy"), [(True, "STREAM_IN"), (False, "STREAM_OUT")])
def test_an_error_of_the_bus_in_a_copy(board: StreamedBoard, rtl: RtlBackend, write: bool, copy: str) -> None:
    """The error must be the copy's and not the program's, and the next packet must meet the next copy."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        with simulated(rtl) as device:
            low = board.allocate(8192)
            device.fault(write=write, response=2, low=low + 4096, high=low + 4112)
        data = np.random.default_rng(1).integers(0, 256, 8192, np.uint8)

        def there_and_back() -> bytes:
            board.store(low, data)
            return board.load(low, data.size)

        with pytest.raises(RunError, match=rf"{copy} stopped: response SLVERR; 8,192 bytes at {low:#x}"):
            there_and_back()
        assert there_and_back() == data.tobytes()
        board.free(low)
        assert np.array_equal(session.run(X), expected(X))


def test_a_program_that_meets_an_error_beside_copies(board: StreamedBoard, rtl: RtlBackend) -> None:
    """After a single error the batch and its copies must be tried again. A lasting error must be the program's, not the copy's."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        low = session.accelerators[0].address("constant")
        with simulated(rtl) as device:
            device.fault(write=False, response=2, low=low, high=low + 16, skip=1)
        assert np.array_equal(session.run(X), expected(X))
        with simulated(rtl) as device:
            device.fault(write=False, response=3, low=low, high=low + 16, times=-1)
        with pytest.raises(RunError, match=r"the accelerator stopped: read_response DECERR on port 0 at program write \d+ of \d+"):
            session.run(X)
        with simulated(rtl) as device:
            device.clear_faults()
        assert np.array_equal(session.run(X), expected(X))


def test_a_bus_that_falls_silent_under_a_copy(board: StreamedBoard, rtl: RtlBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting caller must learn what hangs; when the bus answers again, so must the board."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        session.timeout_seconds = 0.5  # only now: constants may take longer to copy on a busy machine
        with simulated(rtl) as device:
            device.set_ddr(hang_after=0)
        with short_resets(monkeypatch):
            with pytest.raises(TimedOutError, match=r"not moved within 0.5 s: STREAM_IN is busy, the AXI DMA .* has status 0x"):
                session.run(X)
            with pytest.raises(TimedOutError, match="a soft reset has not ended"):
                session.run(X)
        with simulated(rtl) as device:
            device.clear_faults()
        session.timeout_seconds = 10.0
        assert np.array_equal(session.run(X), expected(X))


def test_the_streams_other_ends_may_hold_back(board: StreamedBoard, rtl: RtlBackend) -> None:
    """A DMA does that whenever the PS's memory is busy."""
    with simulated(rtl) as device:
        device.set_streams(stall=128)
    with BoardModel(requantised_copy(batch=2), board) as session:
        assert np.array_equal(session.run(X), expected(X))
    with simulated(rtl) as device:
        device.set_streams(stall=0)
