"""Of several plans, the compiler takes the one that the predictor finds to be the fastest, and predicts none of them twice."""

import numpy as np
import pytest

from cnna.compiler import compile
from cnna.compiler.choose import choose
from cnna.compiler.choose.search import finalists, in_waves
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner
from cnna.compiler.predict.predict import PredictedSpan, predicted_spans
from cnna.spec.config import preset
from cnna.spec.ddr import DdrSpeed

from ... import networks
from ...graph_builder import Builder

TINY = preset("tiny")


def one_layer(size):
    """A convolution of a map with so many rows and columns."""
    b = Builder(np.random.default_rng(1), "one")
    return b.graph(b.conv(b.input(4, size, size), 4, ir.Window((1, 1))))


@pytest.fixture
def plans(monkeypatch):
    """A slow plan and a fast one; the compiler finds them in any order that a test gives."""
    found = [finalists(Planner(lower(one_layer(size), TINY, 1), TINY, "one"))[0] for size in (16, 4)]

    def give(*numbers):
        monkeypatch.setattr(choose, "finalists", lambda planner, count: [found[number] for number in numbers])
        return found

    return give


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_fastest_finalist_is_taken(plans, order):
    """If the first were taken, or the slowest, predictions would serve for nothing."""
    _, fast = plans(*order)
    made, spans = choose.fastest_plan(lower(one_layer(4), TINY, 1), TINY, "one")
    assert made is fast
    assert spans == predicted_spans(fast.program, TINY)


@pytest.mark.parametrize(("gain", "first"), [(16, True), (200, False)])
def test_a_gain_that_the_predictor_cannot_tell_changes_no_program(plans, monkeypatch, gain, first):
    """Sixteen of 540,000 clocks, from a better predictor, gave ResNet-18 another program, and made its measurement stale."""
    one, other = plans(0, 1)
    clocks = {one.program: 540_000 + gain, other.program: 540_000}
    monkeypatch.setattr(
        choose, "predicted_spans", lambda program, config, count: [PredictedSpan("store", 0, clocks[program], (0, 0))]
    )
    made, _ = choose.fastest_plan(lower(one_layer(4), TINY, 1), TINY, "one")
    assert made is (one if first else other)


def test_long_programs_and_single_ones_are_not_predicted(plans, monkeypatch):
    """Compilation would take minutes longer, or longer for nothing: another order of the kernels may make the same program."""
    monkeypatch.setattr(choose, "predicted_spans", lambda *given: pytest.fail("predicted"))
    slow, fast = plans(1)
    assert choose.fastest_plan(lower(one_layer(4), TINY, 1), TINY, "one") == (fast, None)
    plans(1, 1)
    assert choose.fastest_plan(lower(one_layer(4), TINY, 1), TINY, "one") == (fast, None)
    monkeypatch.setattr(choose, "PREDICTED_CLOCKS", slow.clocks - 1)
    plans(0, 1)
    assert choose.fastest_plan(lower(one_layer(4), TINY, 1), TINY, "one") == (slow, None)


def test_what_was_predicted_for_the_choice_is_what_is_reported(plans, monkeypatch):
    """Clocks of another program, or with another DDR, would stand in the manifest. Predicting again would take twice as long."""
    plans(0, 1)
    program = compile.compile_graph(one_layer(4), TINY)
    slower = program.predicted(DdrSpeed(2)).cycles
    monkeypatch.setattr(compile, "predicted_spans", lambda *given: pytest.fail("predicted again"))
    assert program.entry()["predicted"]["cycles"] == max(span.end for span in program.spans if span.engine != "weight")
    assert program.predicted().cycles < slower


def test_equal_programs_are_predicted_once(monkeypatch):
    """Bands of several layers often make a program that is there already; compilation would take a third longer."""
    asked = []

    def once(program, config, count):
        asked.append(program)
        return predicted_spans(program, config)

    monkeypatch.setattr(choose, "predicted_spans", once)
    whole = set_pitches(lower(networks.network(1007), TINY, 2), TINY)
    planner = Planner(whole, TINY, "once")
    best = finalists(planner)[0]
    assert [plan.program for plan in in_waves(planner, best.way.cut)].count(best.program) > 1
    choose.fastest_plan(whole, TINY, "once")
    assert len(asked) == len(set(asked)) > 1
