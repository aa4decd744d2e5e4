"""The predicted images a second from end to end, compared with sums made by hand."""

import pytest

from cnna.spec.end_to_end import PACK_SECONDS, START_SECONDS, end_to_end
from cnna.spec.manifest import ACCELERATOR, CPU

BATCH, CLOCK_MHZ, CYCLES = 2, 300, 600_000  # 2 ms


def _program(*shapes: tuple[int, int, int]):
    """A piece on the accelerator with one input; all other shapes are outputs."""
    ports = [{"shape": list(shape)} for shape in shapes]
    return {"kind": ACCELERATOR, "inputs": ports[:1], "outputs": ports[1:]}


def _cpu(seconds: float):
    return {"kind": CPU, "seconds": seconds}


def test_the_busier_side_decides():
    """The sum of both sides would promise half the speed of two overlapping batches; one side alone would ignore the other."""
    pieces = [_cpu(1e-3), _program((3, 10, 10), (8, 5, 5)), _cpu(3e-3), _program((8, 5, 5), (4, 1, 1))]
    found = end_to_end(pieces, CYCLES, CLOCK_MHZ, BATCH)
    moved = BATCH * (300 + 200 + 200 + 4)
    assert (found.crossings, found.crossing_bytes, found.starts) == (4, moved, 2)
    host = BATCH * 4e-3 + 2 * START_SECONDS + moved * PACK_SECONDS
    assert found.fps == pytest.approx(BATCH / host)
    quick = end_to_end([_cpu(1e-6), *pieces[1:2]], CYCLES, CLOCK_MHZ, BATCH)
    assert quick.fps == pytest.approx(BATCH / (2e-3 + START_SECONDS))
    assert quick.accelerator_share == pytest.approx(2e-3 / (2e-3 + 2e-6 + quick.crossing_seconds))


def test_the_cpu_alone():
    """Without a program there are neither clocks nor crossings to divide by."""
    found = end_to_end([_cpu(5e-3)], 0, CLOCK_MHZ, 1)
    assert found.fps == pytest.approx(200)
    assert (found.accelerator_share, found.crossings) == (0, 0)


def test_older_files_that_do_not_say_what_the_cpu_takes():
    """Their 0 seconds would look like an infinitely fast CPU."""
    found = end_to_end([_program((3, 4, 4), (1, 1, 1)), _cpu(0.0)], CYCLES, CLOCK_MHZ, 1)
    assert (found.fps, found.accelerator_share, found.cpu_seconds) == (None, None, None)
    assert "compile it again" in str(found)
