"""Shares of DDR and turns at feature memory, as the predictor's machine takes them."""

import pytest

from cnna.compiler.predict.active_engines import ActiveEngines, Flow
from cnna.compiler.predict.ddr_beats import Transfer
from cnna.compiler.predict.flow_rates import FlowRates
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.ddr import DdrSpeed
from cnna.spec.machine import LOAD_ROOM_BEATS

ZCU102 = preset("zcu102")
MOST = float(BEAT_BYTES * ZCU102.ports)


@pytest.fixture
def speeds():
    """The speeds of a zcu102 with four ports and 48 bytes a clock."""
    return FlowRates(ZCU102, DdrSpeed(), {"load": 4, "store": 4, "weight0": 1, "weight1": 3, "program": 1})


def at_work(*engines, fm_run=164, run=4000):
    """Loads and stores of 16,000 beats, in runs of so many."""
    work = ActiveEngines.idle(4)
    for engine in engines:
        fields = {"fm": 0, "fm_run": fm_run, "fm_block": 0, "run": run, "runs": 16_000 // run, "blocks": 1}
        work.moving[engine] = Transfer(engine, fields, ZCU102)
        work.moving[engine].asked = ZCU102.ports
        work.flows[engine] = Flow(work.moving[engine].size * BEAT_BYTES, MOST)
    return work


def test_a_store_beside_a_load_has_a_third(speeds):
    """DDR takes three beats a clock, and each port reads before it writes. Half each would predict too fast a store."""
    work = at_work("load", "store")
    speeds.set(work, 0)
    assert work.flows["store"].speed == pytest.approx(16, rel=0.06)
    assert work.flows["load"].speed == pytest.approx(32, rel=0.06)


def test_weights_beside_a_load_have_their_ports_share(speeds):
    """All reads come through the same four ports."""
    work = at_work("load")
    work.flows |= {"weight0": Flow(1e6, 16.0), "weight1": Flow(1e6, 48.0)}
    speeds.set(work, 0)
    shares = {name: flow.speed for name, flow in work.flows.items()}
    assert shares == pytest.approx({"load": 24, "weight0": 6, "weight1": 18}, rel=0.06)


def test_words_of_the_vector_ring_share_port_0_alone_with_a_load(speeds):
    """The other ports bring the load alone. A share of all ports together would give port 0 more beats than it can move."""
    work = at_work("load")
    work.flows["weight0"] = Flow(1e6, 16.0)
    speeds.set(work, 0)
    shares = {name: flow.speed for name, flow in work.flows.items()}
    assert shares == pytest.approx({"load": 42, "weight0": 6}, rel=0.06)


def test_the_program_takes_its_share_from_the_weights_of_its_port(speeds):
    """Words of the ring are as late as port 0 is. Layers that wait for weights would begin up to 15 % too early at zcu102x2."""
    work = ActiveEngines.idle(4)
    work.flows |= {"weight0": Flow(1e6, 16.0), "weight1": Flow(1e6, 48.0)}
    work.flows["program"] = Flow(1e6, 16.0)
    speeds.set(work, 0)
    work.changed = True
    speeds.set(work, 0)
    assert {name: flow.speed for name, flow in work.flows.items()} == pytest.approx({"weight0": 6, "program": 6, "weight1": 36})


def test_runs_in_one_bank_halve_a_load_and_leave_ddr_to_others(speeds):
    """If each beat is in one of two banks, only two go a clock."""
    work = at_work("load", fm_run=8, run=1)
    work.flows["weight1"] = Flow(1e6, 48.0)
    for now in range(0, 2048, 256):  # DDR fills the FIFOs first
        speeds.set(work, now)
        work.flows["load"].left -= 256 * work.flows["load"].speed
    assert work.flows["load"].speed + work.flows["weight1"].speed == pytest.approx(48, rel=0.02)
    alone = at_work("load", fm_run=8, run=1)
    speeds.set(alone, 4096)
    assert alone.flows["load"].speed == pytest.approx(32, rel=0.05)


def test_a_load_that_was_held_up_makes_up_for_it_from_its_fifos(speeds):
    """16 KiB would seem to come from DDR once more, and maps that are loaded beside the vector engine to take 2 % longer."""
    work = at_work("load", "store")
    work.moving["load"].put([0] * 4, [LOAD_ROOM_BEATS] * 4)
    speeds.set(work, 0)
    assert work.flows["load"].speed > 50, "feature memory takes 64 bytes a clock, DDR gives 48"
    assert work.flows["store"].speed > 16, "DDR has nothing to read until room that is made now is asked for"


def test_a_load_that_is_held_up_goes_on_filling_its_fifos(speeds):
    """DDR would seem free for weights while the FIFOs fill."""
    work = at_work("load", fm_run=ZCU102.banks, run=1)
    work.flows["weight1"] = Flow(1e6, 48.0)
    speeds.set(work, 0)
    assert work.flows["load"].speed < 17, "a beat a clock, since all ports are in one bank"
    assert work.flows["weight1"].speed < 22, "the load takes 27"


def test_looks_in_quick_succession_bring_no_more_than_ddr_gives(speeds):
    """Each look simulates a stretch ahead; the part beyond the next look must not count."""
    work = at_work("load")
    for now in range(0, 160, 8):
        work.flows["load"].left = work.moving["load"].size * BEAT_BYTES - 32.0 * now
        work.moving = dict(work.moving)
        speeds.until = now  # as if another requester had come or gone
        speeds.set(work, now)
    load = work.moving["load"]
    speeds.notes.go_back([load], 0)
    assert sum(load.moved) + sum(load.waiting) <= 3 * now + 3 * 16 + 16
