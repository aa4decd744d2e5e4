"""Which reads of a port come first: what loads have asked for, and when it has come. How often processes are resumed and asked."""

from collections import Counter

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.predict.active_engines import ActiveEngines, Flow
from cnna.compiler.predict.event_loop import ReadOrder
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.machine import LOAD_ROOM_BEATS

from ...graph_builder import Builder

PORTS = 4


@pytest.fixture
def work():
    """Four ports on which nothing works yet."""
    return ActiveEngines.idle(PORTS)


def test_a_load_asks_at_its_pace_as_far_as_its_fifos_have_room(work):
    """Weights that are asked for meanwhile must come after as much of the load, and no more."""
    reads = ReadOrder(work, PORTS)
    reads.begin(3000, 10, 64)
    assert [reads.asked(clock) for clock in (10, 11, 14, 1000)] == [0, 64, 256, LOAD_ROOM_BEATS * PORTS]
    work.begun = 3000
    work.begin("load", Flow(2500 * BEAT_BYTES, 64.0, 48.0))
    assert (reads.moved, reads.asked(1000)) == (500, 500 + LOAD_ROOM_BEATS * PORTS)
    work.end("load")
    reads.begin(100, 1000, 64)
    assert [reads.asked(clock) for clock in (1000, 1001, 1002)] == [3000, 3064, 3100]
    reads.begin(6, 1002, 2)
    assert [reads.asked(clock) for clock in (1002, 1003, 1010)] == [3100, 3102, 3106]


def test_beats_have_come_when_ddr_has_moved_them(work):
    """Weights behind beats must wait for them at the present speed; for beats that no load moves yet, until one does."""
    reads = ReadOrder(work, PORTS)
    work.begun = 100
    work.begin("load", Flow(60 * BEAT_BYTES, 64.0, 2.0 * BEAT_BYTES))
    assert [reads.when_moved(beats, 7) for beats in (40, 41, 100)] == [0, 7.5, 37]
    work.end("load")
    assert reads.when_moved(101, 7) == float("inf")


@pytest.fixture(scope="module", params=["tiny", "zcu102"])
def streamed(request):
    """A program with all engines, and weights that stream: a convolution, a pool and fully connected layers, for four images."""
    b = Builder(np.random.default_rng(1), "streamed")
    x = b.max_pool(b.conv(b.input(8, 16, 16), 32, ir.Window((3, 3), pads=(1, 1, 1, 1))), ir.Window((2, 2), (2, 2)))
    graph = b.graph(b.fully_connected(b.fully_connected(x, 64), 10))
    return compile_graph(graph, preset(request.param), 4)


def test_what_is_quiet_changes_nothing_that_lasts(streamed, interpreted, monkeypatch):
    """Else a process would wait longer than the hardware does, and a prediction would be wrong without a word."""
    predicted_spans, waiting = interpreted("predict").predicted_spans, interpreted("event_loop").Waiting
    quiet = predicted_spans(streamed.program, streamed.config)
    go_on, said = waiting.go_on, set[bool]()
    monkeypatch.setattr(waiting, "go_on", lambda one, now: said.add(go_on(one, now)))
    assert predicted_spans(streamed.program, streamed.config) == quiet
    assert said == {False, True}


def test_a_stream_takes_few_resumptions_for_each_request(streamed, interpreted, monkeypatch):
    """Fully connected layers make tens of thousands of requests; compiling them took most of its time in this loop."""
    counted = Counter()

    def count(owner, name):
        own = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: counted.update([name]) or own(*arguments))

    count(interpreted("event_loop").Waiting, "go_on")
    count(interpreted("weight_ports").Requests, "add")
    interpreted("predict").predicted_spans(streamed.program, streamed.config)
    assert counted["add"] > 100
    assert counted["go_on"] < 4.5 * counted["add"]
