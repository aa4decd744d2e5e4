"""Stretches that are known: one key must stand for one outcome."""

import pytest

from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner, Way
from cnna.compiler.predict.beat_model import BeatModel, Notes
from cnna.compiler.predict.ddr_beats import Transfer
from cnna.compiler.predict.known_stretches import KnownStretches, Positions, Stretch
from cnna.compiler.predict.predict import predicted_spans
from cnna.compiler.predict.shared_port import simulate
from cnna.spec.config import preset

from ... import networks

TINY, ZCU102 = preset("tiny"), preset("zcu102")
CLOCKS = 300


FIELDS = {"fm": 0, "fm_run": 52, "fm_block": 700, "run": 50, "runs": 13, "blocks": 5, "ddr_run": 112, "ddr_block": 4000}


def begun(engine, **changed):
    """A transfer of rows whose ports meet in banks, with the DDR that serves it alone."""
    ddr = BeatModel(3.5, ZCU102.ports, 120)
    one = Transfer(engine, FIELDS | changed, ZCU102)
    ddr.load, ddr.store = (one, None) if engine == "load" else (None, one)
    return one, ddr


@pytest.mark.parametrize("clocks", [1, 37, 150])
@pytest.mark.parametrize("engine", ["load", "store"])
def test_an_equal_transfer_goes_on_as_the_simulated_one_does(engine, clocks):
    """One that takes over a position must be known by the same key, and must do the same in the next stretch."""
    one, ddr = begun(engine)
    simulate([one], clocks, ddr)
    (other, own), known = begun(engine), KnownStretches()
    Positions(ddr, [one]).put(own, [other])
    assert known.key(CLOCKS, own, [other], ()) == known.key(CLOCKS, ddr, [one], ())
    assert simulate([other], CLOCKS, own) == simulate([one], CLOCKS, ddr)
    assert known.key(CLOCKS, own, [other], ()) == known.key(CLOCKS, ddr, [one], ())
    assert (other.done, other.over, other.moved, other.waiting) == (one.done, one.over, one.moved, one.waiting)


def test_keys_differ_with_what_changes_a_stretch():
    """What the array writes, where a load goes and in which steps, what has moved, and the beats behind it."""
    (one, ddr), known = begun("load"), KnownStretches()
    keys = [known.key(CLOCKS, ddr, [one], writes) for writes in ((), (1,))]
    for changed in ({"fm": 8}, {"fm_run": 56}, {"fm_block": 704}, {"ddr_run": 128}, {"run": 49}):
        other, own = begun("load", **changed)
        keys.append(known.key(CLOCKS, own, [other], ()))
    ddr.set_behind([((3.0, 4),), *[() for _ in ddr.others[1:]]])
    keys.append(known.key(CLOCKS, ddr, [one], ()))
    simulate([one], 40, ddr)
    keys.append(known.key(CLOCKS, ddr, [one], ()))
    assert len(set(keys)) == len(keys)


def test_clocks_of_loads_that_have_passed_matter_to_loads_alone():
    """A store would be simulated again for each of 16 clocks in which it can begin."""
    keys, known = [], KnownStretches()
    for clocks in (16, 20):
        (load, ddr), (store, _) = begun("load"), begun("store")
        load.put([fifo.share for fifo in load.fifos], [0] * ZCU102.ports)
        simulate([load], clocks, ddr)
        load, _ = begun("load")
        ddr.load = load
        keys.append(known.key(CLOCKS, ddr, [load], ()))
        ddr.load, ddr.store = None, store
        keys.append(known.key(CLOCKS, ddr, [store], ()))
    assert keys[0] != keys[2]
    assert keys[1] == keys[3]


def test_what_was_not_used_for_longest_is_forgotten(monkeypatch):
    """Memory stays bounded."""
    monkeypatch.setattr("cnna.compiler.predict.known_stretches.KEPT", 2)
    one, ddr = begun("load")
    known, stretch = KnownStretches(), Stretch([1.0], 0, Positions(ddr, [one]), Notes([one]))
    for key in ("a", "b"):
        known.keep(key, 9, stretch)
    assert known.get("a", 9) is stretch
    known.keep("c", 9, stretch)
    assert known.get("b", 9) is None
    assert known.get("a", 9) is stretch
    assert (known.found, known.simulated) == (18, 27)


def test_what_is_found_is_what_would_be_simulated(monkeypatch):
    """A figure would depend on what was predicted before it, or a program be chosen by the clocks of another one."""
    known, programs = KnownStretches(), []
    for seed in (1003, 1007, 1011):
        whole = set_pitches(lower(networks.network(seed), TINY, 3), TINY)
        planner = Planner(whole, TINY, "net")
        programs += [planner.plan(Way(cut)).program for cut in dict.fromkeys((len(whole.kernels), 0))]
    first = [predicted_spans(program, TINY, known=known) for program in programs]
    simulated = known.simulated
    again = [predicted_spans(program, TINY, known=known) for program in programs]
    assert 0 < simulated == known.simulated <= known.found
    monkeypatch.setattr(KnownStretches, "get", lambda self, key, clocks: None)
    assert first == again == [predicted_spans(program, TINY) for program in programs]
