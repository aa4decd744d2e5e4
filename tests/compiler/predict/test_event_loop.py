"""Which reads of a port come first: what loads have asked for, and when it has come."""

import pytest

from cnna.compiler.predict.event_loop import ReadOrder
from cnna.compiler.predict.flow_rates import ActiveEngines, Flow
from cnna.spec.config import BEAT_BYTES
from cnna.spec.machine import LOAD_ROOM_BEATS

PORTS = 4


@pytest.fixture
def work():
    """Four ports on which nothing works yet."""
    return ActiveEngines.idle(PORTS)


def test_a_load_asks_for_a_burst_a_clock_as_far_as_its_fifos_have_room(work):
    """Weights that are asked for meanwhile must come after as much of the load, and no more."""
    reads = ReadOrder(work, PORTS)
    reads.begin(3000, 10)
    assert [reads.asked(clock) for clock in (10, 11, 14, 1000)] == [0, 64, 256, LOAD_ROOM_BEATS * PORTS]
    work.begun, work.flows["load"] = 3000, Flow(2500 * BEAT_BYTES, 64.0, 48.0)
    assert (reads.moved, reads.asked(1000)) == (500, 500 + LOAD_ROOM_BEATS * PORTS)
    del work.flows["load"]
    reads.begin(100, 1000)
    assert [reads.asked(clock) for clock in (1000, 1001, 1002)] == [3000, 3064, 3100]


def test_beats_have_come_when_ddr_has_moved_them(work):
    """Weights behind beats must wait for them at the present speed; for beats that no load moves yet, until one does."""
    reads = ReadOrder(work, PORTS)
    work.begun, work.flows["load"] = 100, Flow(60 * BEAT_BYTES, 64.0, 2.0 * BEAT_BYTES)
    assert [reads.when_moved(beats, 7) for beats in (40, 41, 100)] == [0, 7.5, 37]
    del work.flows["load"]
    assert reads.when_moved(101, 7) == float("inf")
