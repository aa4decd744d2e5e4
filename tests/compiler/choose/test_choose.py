"""Of several plans, the compiler takes the one that the predictor finds to be the fastest, and predicts none of them twice."""

from math import inf

import numpy as np
import pytest

from cnna.compiler import compile
from cnna.compiler.choose import choose
from cnna.compiler.choose.choose import taken
from cnna.compiler.choose.search import finalists, in_waves, unlike
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.limits import PlanLimits
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner, Way
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


@pytest.fixture(scope="module")
def plans():
    """A slow plan and a fast one."""
    return [Planner(lower(one_layer(size), TINY, 1), TINY, "one").plan(Way(0)) for size in (16, 4)]


def predict(program, most=inf):
    return predicted_spans(program, TINY)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_fastest_finalist_is_taken(plans, order):
    """If the first were taken, or the slowest, predictions would serve for nothing."""
    made, spans = taken([plans[number] for number in order], [], TINY, predict)
    assert made is plans[1]
    assert spans == predict(plans[1].program)


@pytest.mark.parametrize(("gain", "first"), [(16, True), (200, False)])
def test_a_gain_that_the_predictor_cannot_tell_changes_no_program(plans, gain, first):
    """Sixteen of 540,000 clocks, from a better predictor, gave ResNet-18 another program, and made its measurement stale."""
    one, other = plans
    clocks = {one.program: 540_000 + gain, other.program: 540_000}
    made, _ = taken(plans, [], TINY, lambda program, most: [PredictedSpan("store", 0, clocks[program], (0, 0))])
    assert made is (one if first else other)


def test_long_programs_and_single_ones_are_not_predicted(plans):
    """Compilation would take minutes longer, or longer for nothing: another order of the kernels may make the same program."""
    assert taken(plans[:1], [], TINY, lambda program, most: pytest.fail("predicted")) == (plans[0], None)
    assert unlike([plans[0], plans[0]]) == plans[:1]
    whole = set_pitches(lower(networks.network(1007), TINY, 2), TINY)
    first = finalists(Planner(whole, TINY, "long"))[0]
    assert choose.fastest_plan(whole, TINY, "long")[1] is not None
    made, spans = choose.fastest_plan(whole, TINY, "long", limits=PlanLimits(predicted_clocks=first.clocks - 1))
    assert (made.program, spans) == (first.program, None)


def test_what_was_predicted_for_the_choice_is_what_is_reported(plans, monkeypatch):
    """Clocks of another program, or with another DDR, would stand in the manifest. Predicting again would take twice as long."""
    program = compile.compile_graph(one_layer(4), TINY, choose=lambda *given: taken(plans, [], TINY, predict))
    slower = program.predicted(DdrSpeed(2)).cycles
    monkeypatch.setattr(compile, "predicted_spans", lambda *given: pytest.fail("predicted again"))
    assert program.entry()["predicted"]["cycles"] == max(span.end for span in program.spans if span.engine != "weight")
    assert program.predicted().cycles < slower


def test_equal_programs_are_predicted_once(monkeypatch):
    """Bands of several layers often make a program that is there already; compilation would take a third longer."""
    asked = []

    def once(program, config, count, known, most):
        asked.append(program)
        return predicted_spans(program, config, known=known, most=most)

    monkeypatch.setattr(choose, "predicted_spans", once)
    whole = set_pitches(lower(networks.network(1007), TINY, 2), TINY)
    planner = Planner(whole, TINY, "once")
    best = finalists(planner)[0]
    assert [plan.program for plan in in_waves(planner, best.way.cut)].count(best.program) > 1
    choose.fastest_plan(whole, TINY, "once")
    assert len(asked) == len(set(asked)) > 1
