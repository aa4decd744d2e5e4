"""Loads and stores as processes: when they can begin, and when other engines see that they have ended."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.predict.event_loop import EventLoop, Queue
from cnna.compiler.predict.predict import Units, predicted_spans
from cnna.compiler.predict.rings import Column
from cnna.compiler.predict.transfers import ASK_CLOCKS, END_CLOCKS, Transfers
from cnna.compiler.predict.weight_ports import BeatRequest, WeightPorts
from cnna.spec.boards import ddr_of
from cnna.spec.config import preset
from cnna.spec.ddr import PLANNED
from cnna.spec.machine import READS_OUTSTANDING, WRITES_OUTSTANDING
from cnna.spec.program.commands import commands

from ...graph_builder import Builder

ZCU102 = preset("zcu102")
RUNS = {"fm": 0, "fm_run": 164, "fm_block": 0, "run": 40, "runs": 4, "blocks": 1}


@pytest.fixture
def transfers():
    """A machine's loads and stores, which wait for no unit, beside weights that have not asked for anything."""
    machine, queues = EventLoop(ZCU102, PLANNED), {"load": Queue(), "store": Queue()}
    weights = WeightPorts(machine, Queue(), lambda *_: None)
    return Transfers(machine, queues, weights, lambda command: Units([]), lambda *_: None)


def command(engine, **fields):
    """Four runs, one for each port, unless the fields say otherwise."""
    return SimpleNamespace(engine=engine, f=SimpleNamespace(**RUNS | fields))


def played(transfers, *made):
    """The units of loads and stores when nothing moves any more."""
    processes = {f"{number}": transfers.deal(command) for number, command in enumerate(made)}
    transfers.machine.run(processes | {"asked": transfers.asking(), "loads": transfers.loads(), "stores": transfers.stores()})
    return transfers.machine.units


def test_a_load_takes_ddrs_latency_and_its_beats(transfers):
    """The load is dealt at once and has 160 beats at three a clock."""
    assert played(transfers, command("load"))["load"] == [
        pytest.approx(PLANNED.latency_cycles + 160 / 3 + END_CLOCKS["load"], abs=3)
    ]


def test_weights_get_between_the_short_runs_of_a_load():
    """The ports get a run a clock, whatever its length, and ask for weights meanwhile. As if each run were whole bursts, a keyword
    spotter's first load, 25 runs of two beats, ended after 357 clocks; on the RTL it takes 657.
    """
    b = Builder(np.random.default_rng(1), "spotter")
    graph = b.graph(b.conv(b.input(1, 49, 10), 64, ir.Window((10, 4), (2, 2), pads=(5, 1, 5, 1))))
    config = replace(preset("ultra96"), name="ultra96-small", ci=4, co=8, ring_words=512)
    program = compile_graph(graph, config)
    (load,) = [span for span in predicted_spans(program.program, config, ddr_of(config)) if span.engine == "load"]
    assert load.end == pytest.approx(657, abs=5)


def test_a_load_comes_after_the_weights_that_were_asked_for_before(transfers):
    """A port answers in the order of its requests. Otherwise small networks' later loads would be hundreds of clocks early."""
    transfers.weights.requests[1].add(BeatRequest(Column(), 1, 16, 0.0, 0.0, None))
    assert played(transfers, command("load"))["load"] == []
    transfers.weights.requests[1].answer()
    transfers.machine.run({"loads": transfers.loads()})
    assert len(transfers.machine.units["load"]) == 1


def test_a_store_waits_for_the_answer_to_the_one_before(transfers):
    """A batch's answers leave one by one, and each takes DDR's latency; it must not count only once for all."""
    first, second = played(transfers, command("store"), command("store"))["store"]
    assert first == pytest.approx(ASK_CLOCKS + 160 / 3 + PLANNED.latency_cycles + END_CLOCKS["store"], abs=3)
    assert second - first == pytest.approx(160 / 3 + PLANNED.latency_cycles + END_CLOCKS["store"], abs=3)


@pytest.mark.parametrize(("engine", "outstanding"), [("load", READS_OUTSTANDING), ("store", WRITES_OUTSTANDING)])
def test_short_runs_wait_for_the_bursts_before_them(transfers, engine, outstanding):
    """Maps three pixels wide took up to five times the clocks that were predicted: each run is a burst, and few are outstanding."""
    (end,) = played(transfers, command(engine, run=1, runs=ZCU102.ports * 3 * outstanding))[engine]
    begin = ASK_CLOCKS if engine == "store" else 0
    assert end == pytest.approx(begin + 3 * PLANNED.latency_cycles + outstanding + END_CLOCKS[engine], rel=0.1)


def test_stores_of_a_program_do_not_overlap():
    """The stores of a compiled batch would overlap too."""
    b = Builder(np.random.default_rng(1), "fc")
    program = compile_graph(b.graph(b.conv(b.input(64, 1, 1), 24, ir.Window())), ZCU102, 4)
    spans = predicted_spans(program.program, program.config)
    stores = [span for command, span in zip(commands(program.program), spans, strict=True) if command.engine == "store"]
    assert len(stores) == 4
    assert all(then.begin >= first.end for first, then in pairwise(stores))
