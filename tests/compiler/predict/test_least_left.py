"""No program takes fewer clocks than `least_left` says of it, so none is given up that would have been chosen."""

from math import inf

import numpy as np
import pytest

from cnna.compiler.choose import choose
from cnna.compiler.choose.choose import fastest_plan, taken
from cnna.compiler.choose.search import finalists, in_waves, unlike
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.limits import PlanLimits
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner, Way
from cnna.compiler.predict.known_stretches import KnownStretches
from cnna.compiler.predict.least_left import ROUNDED, LeastLeft
from cnna.compiler.predict.predict import TooManyClocksError, predicted_spans
from cnna.spec.config import preset
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.errors import ModelError
from cnna.spec.program.commands import commands

from ... import networks
from ...configurations import CODED, LITTLE
from ...graph_builder import Builder

TINY, ZCU102 = preset("tiny"), preset("zcu102")
SLOW = DdrSpeed(5, 300)


def planned(seed, config, batch=1):
    whole = set_pitches(lower(networks.network(seed), config, batch), config)
    return Planner(whole, config, "net").plan(Way(seed % (len(whole.kernels) + 1)))


def chain(layers):
    """A program of 3x3 convolutions that keep the array at work."""
    b = Builder(np.random.default_rng(3), "chain")
    x = b.input(32, 28, 28)
    for _ in range(layers):
        x = b.conv(x, 64, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    return Planner(set_pitches(lower(b.graph(x), ZCU102, 1), ZCU102), ZCU102, "chain").plan(Way(0)).program


def ended(spans):
    return max(span.end for span in spans)


@pytest.mark.parametrize("memory", [PLANNED, SLOW], ids=["planned", "slow"])
@pytest.mark.parametrize("config", [TINY, LITTLE, CODED, ZCU102, preset("zcu102x2")], ids=lambda config: config.name)
def test_no_command_begins_too_late_for_the_clocks_that_are_predicted(config, memory):
    """A plan that is the fastest would be given up, and a slower one be compiled."""
    fit = 0
    for seed in range(1200, 1208):
        try:
            program = planned(seed, config, 1 + seed % 3).program
        except ModelError:  # a small memory does not hold a row
            continue
        fit += 1
        spans = predicted_spans(program, config, memory)
        left = LeastLeft(list(commands(program)), config, memory, KnownStretches())
        assert left.whole <= ended(spans) + ROUNDED
        for command, span in zip(commands(program), spans, strict=True):
            if command.number in left.units:
                assert not left.exceeds(ended(spans), command, 0, span.begin), (seed, command)
    assert fit > 2


def test_a_prediction_is_given_up_where_it_certainly_takes_more_clocks():
    """Giving up too seldom would cost the time of whole predictions; giving up at the very clocks would lose the fastest plan."""
    program = chain(12)
    spans, told = predicted_spans(program, ZCU102), []
    assert predicted_spans(program, ZCU102, most=ended(spans)) == spans
    with pytest.raises(TooManyClocksError):
        predicted_spans(program, ZCU102, most=0.98 * ended(spans), count=lambda done, *_: told.append(done))
    assert len(told) < len(spans) / 2


def test_what_is_left_holds_for_weights_that_wait_for_room_in_the_ring():
    """Where DDR decides, a program would be predicted to its end although nothing can save it."""
    program = chain(12)
    slow = DdrSpeed(4, 300)
    left = LeastLeft(list(commands(program)), ZCU102, slow, KnownStretches())
    clocks = ended(predicted_spans(program, ZCU102, slow))
    assert 0.9 * clocks < left.whole <= clocks + ROUNDED


@pytest.mark.parametrize(
    "limits", [PlanLimits(), PlanLimits(vector_share=0, wave_groups=1, clearly=0.99, close=1.2)], ids=["usual", "waves"]
)
def test_the_choice_is_the_same_as_without_giving_up(limits, monkeypatch):
    """Programs would change with the bound, and measured ones would be stale."""
    given_up = []

    def counted(*given, most=inf, **named):
        try:
            return predicted_spans(*given, **named, most=most)
        except TooManyClocksError:
            given_up.append(most)
            raise

    monkeypatch.setattr(choose, "predicted_spans", counted)
    for seed in range(1300, 1306):
        whole = set_pitches(lower(networks.network(seed), TINY, 2), TINY)
        made, spans = fastest_plan(whole, TINY, "net", limits=limits)
        planner = Planner(whole, TINY, "net", limits)
        plans = unlike(finalists(planner))
        waved = unlike(in_waves(planner, plans[0].way.cut))
        other, whole_spans = taken(plans, waved, TINY, lambda program, most: predicted_spans(program, TINY), limits)
        assert (made.program, spans) == (other.program, whole_spans)
    assert given_up
