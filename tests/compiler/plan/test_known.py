"""What a planner keeps from one plan for the next changes no plan: commands of kernels, uses of words, tilings, estimates."""

from dataclasses import replace

import pytest

from cnna.compiler.choose.cuts import cuts
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan import schedule
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import KnownPlans, Planner, Way, streaming
from cnna.spec.config import Config, preset
from cnna.spec.errors import ModelError

from ... import networks
from ...agreement import narrow

SMALL = Config("small", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=256, ring_words=64, vector_ring_words=256)
DECKS = preset("tinyx2")


def ways(lowered, config):
    """Ways of many kinds. Some come twice, so that all of a plan is known."""
    best = cuts(lowered, config, LIMITS.cuts)
    cut = [Way(one) for one in best] + [Way(best[0], apart=False), Way(best[-1], waves=3), Way(best[0], waves=4)]
    return [*cut, *(Way(one, abreast=2, reordered=True, banded=True) for one in best), *cut[:2]]


def made(planner, way):
    """The program, its estimate and the commands of a way; None if there is none."""
    try:
        plan = planner.plan(way)
    except ModelError:
        return None
    return plan.program, plan.clocks, plan.commands, plan.allocation.segments


@pytest.mark.parametrize("config", [SMALL, preset("tiny"), DECKS], ids=lambda config: config.name)
@pytest.mark.parametrize("number", range(4))
def test_plans_are_those_of_a_planner_that_knows_nothing(config, number, seed):
    """In both orders, so that each plan comes after others."""
    graph = narrow(networks.network(seed * 1000 + number), config)
    lowered = set_pitches(lower(graph, config, 1 + number % 3), config)
    tried = ways(lowered, config)
    alone = [made(Planner(lowered, config, graph.name), way) for way in tried]
    for order in (range(len(tried)), reversed(range(len(tried)))):
        planner = Planner(lowered, config, graph.name)
        for at in order:
            assert made(planner, tried[at]) == alone[at], (graph.name, tried[at])


def test_what_is_known_is_used(monkeypatch):
    """The second plan of one way makes no command of a kernel."""
    graph, config = networks.network(1), preset("tiny")
    planner = Planner(set_pitches(lower(graph, config, 1), config), config, graph.name)
    first = made(planner, Way(0))
    monkeypatch.setattr(schedule, "_kernel_commands", None)
    assert made(planner, Way(0)) == first
    with pytest.raises(TypeError):
        Planner(planner.lowered, config, graph.name).plan(Way(0))


def test_waves_of_another_weight_ring_are_planned_anew():
    """Rings that hold the same weights whole share plans, but the larger ring has them earlier, so bands change places."""
    tiny, known, limits = preset("tiny"), KnownPlans(), PlanLimits(wave_groups=1)
    lowered = set_pitches(lower(networks.network(25), tiny, 1), tiny)
    small, large = (replace(tiny, ring_words=words) for words in (64, 1024))
    assert streaming(lowered, small) == streaming(lowered, large)
    found = []
    for config in (small, large, small):
        own = made(Planner(lowered, config, "net", limits, known=known), Way(0, waves=4))
        assert own == made(Planner(lowered, config, "net", limits), Way(0, waves=4))
        found.append(own)
    assert found[0] != found[1], "the ring decides nothing here"
