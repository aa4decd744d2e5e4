"""The run loop where runs are queued: a thread plays an accelerator whose first run ends at once, and whose second takes long."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.library import CPort, CTensor
from cnna.host.native.loop import Input, Loop, Program, Queue, Registers

CTRL, STATUS, CYCLES, FINISHED = 0, 1, 3, 4  # words
START, QUEUE, LIVE = 1, 2, 4
DONE, ERROR, MARK = 1, 2, 4  # MARK: the accelerator wrote STATUS, not the host
TIMEOUT_SECONDS, LONG_SECONDS = 0.6, 1.5


class Accelerator:
    """CYCLES are those of the first run while the second one runs, unless CTRL.live is set. moves: whether they grow then."""

    def __init__(self) -> None:
        self.words: NDArray[np.uint32] = np.zeros(16, np.uint32)
        self.words[STATUS] = MARK
        self.moves, self.over = True, False
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    def _play(self) -> None:
        began: float | None = None
        while not self.over:
            asked = int(self.words[CTRL])
            if not self.words[STATUS] & MARK:
                self.words[STATUS] = MARK
            if asked & QUEUE:
                began = time.monotonic()
                self._end(7)  # the one before it
            if asked & (START | QUEUE):
                self.words[CTRL] = 0
            if began is not None and asked & LIVE and self.moves:
                self.words[CYCLES] += 1
            if began is not None and time.monotonic() > began + LONG_SECONDS:
                began = None
                self._end(9)
            time.sleep(1e-4)

    def _end(self, cycles: int) -> None:
        self.words[CYCLES] = cycles
        self.words[STATUS] = MARK | DONE
        self.words[FINISHED] += 1


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    """It ends with the test."""
    made = Accelerator()
    yield made
    made.over = True
    made.thread.join()


def opened(accelerator: Accelerator) -> Loop:
    port = CPort(4, 16, 16, 8, (1, 2, 2), (1, 1), (1, 1), (0, 0), 0, 1.0)
    memories = [[np.zeros(16, np.uint8), np.zeros(16, np.uint8)] for _ in range(3)]
    program = Program(1, [port], [port], [[(8, number)] for number in range(3)], memories)
    own = 4 * CTRL, START, 4 * STATUS, DONE, ERROR, [4 * CYCLES], [4 * CYCLES]
    return Loop(Registers(accelerator.words, *own, queue=Queue(QUEUE, LIVE, 4 * FINISHED, 2)), [program], TIMEOUT_SECONDS, None)


def two_runs(loop: Loop) -> list[NDArray[np.uint32]]:
    """Hands two jobs over; the second is queued behind the first. Returns their counters."""
    x, y = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 2, 2), np.float32)
    given = Input(CTensor(x.ctypes.data, library.INT8, x.shape, x.strides), x, None)
    counters = [loop.submit(0, [given], [y]) for _ in range(2)]
    assert loop.wait(10.0) == library.OK
    return counters


def test_a_run_from_the_queue_shows_its_own_progress(accelerator: Accelerator) -> None:
    """The counters of the run before it stand still: a run longer than the time-out would be taken for one that hangs."""
    loop = opened(accelerator)
    counters = two_runs(loop)
    assert loop.wait(10.0) == library.OK
    assert [row.tolist() for row in counters] == [[7], [9]]
    loop.close()


def test_a_run_from_the_queue_that_hangs_is_shown(accelerator: Accelerator) -> None:
    """Whoever says where it stands would read the counters and the place of the run that has ended."""
    accelerator.moves = False
    loop = opened(accelerator)
    two_runs(loop)
    assert loop.wait(10.0) == library.STANDSTILL
    assert accelerator.words[CTRL] & LIVE
    loop.close()
