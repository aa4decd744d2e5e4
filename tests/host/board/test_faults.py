"""The driver on a virtual board whose RTL meets errors of the bus, and a bus that falls silent."""

from collections.abc import Iterator

import numpy as np
import pytest

from cnna.host.model.board_model import BoardModel
from cnna.sim.board.board import VirtualBoard, open_backend
from cnna.sim.board.design import design
from cnna.sim.board.rtl_backend import RtlBackend
from cnna.spec.config import preset
from cnna.spec.errors import RunError, TimedOutError
from cnna.spec.regmap import offset

from ..emulated_board import ServedBoard, short_resets, simulated
from ..hand_made import expected, requantised_copy, samples

pytestmark = pytest.mark.cosim
X = samples(3, seed=5)
SLOW = 255  # of 256 clocks, those in which the memory pauses


@pytest.fixture(scope="module")
def backend() -> Iterator[RtlBackend]:
    """The RTL of `tiny`, its clock running while it works."""
    made = open_backend("rtl", preset("tiny"), 16 << 20)
    assert isinstance(made, RtlBackend)
    yield made
    made.close()


@pytest.fixture
def board(backend: RtlBackend) -> Iterator[ServedBoard]:
    """A driver's view of the board, with a watchdog that a simulation can wait for."""
    served = ServedBoard(VirtualBoard(design(preset("tiny")), backend))
    served.write(offset("WATCHDOG"), 5_000)
    yield served
    assert not served.buffers
    served.board.dram.data = np.empty(0, np.uint8)


@pytest.mark.parametrize(("write", "cause"), [(False, "read_response"), (True, "write_response")])
def test_an_error_of_the_bus(board: ServedBoard, backend: RtlBackend, write: bool, cause: str) -> None:
    """A single error must be tried again unnoticed. A lasting one must be reported with port and place, and be gone once mended."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        with simulated(backend) as device:
            device.fault(write=write, response=2, skip=1)
        assert np.array_equal(session.run(X), expected(X))
        with simulated(backend) as device:
            device.fault(write=write, response=3, times=-1)
        with pytest.raises(RunError, match=rf"stopped: {cause} DECERR on port 0 at program write \d+ of \d+"):
            session.run(X)
        with simulated(backend) as device:
            device.clear_faults()
        assert np.array_equal(session.run(X), expected(X))


def test_a_bus_that_falls_silent(board: ServedBoard, backend: RtlBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog must name the layer, or else the driver's own limit. A reset waits for the bus, and must say so."""
    with BoardModel(requantised_copy(batch=1), board, retries=0) as session:
        with simulated(backend) as device:
            device.set_ddr(hang_after=20)
        with (
            short_resets(monkeypatch),
            pytest.raises(
                RunError, match=r"stopped: watchdog \(no progress for 5000 clocks\) .*; a soft reset has not ended after"
            ),
        ):
            session.run(X)
        with simulated(backend) as device:
            device.clear_faults()
            device.set_ddr(stall=SLOW)  # the next run then comes before the reset has ended, when ERROR is still this run's
        assert np.array_equal(session.run(X), expected(X))
        with simulated(backend) as device:
            device.set_ddr(stall=0)
        board.write(offset("WATCHDOG"), 0)
        session.limit_clocks = 20_000
        with simulated(backend) as device:
            device.set_ddr(hang_after=20)
        with pytest.raises(
            TimedOutError, match=r"hangs: it has not ended after [\d,]+ clocks; the limit is 20,000.*STATUS busy.*port 0 "
        ):
            session.run(X)
        with simulated(backend) as device:
            device.clear_faults()
        assert np.array_equal(session.run(X), expected(X))
