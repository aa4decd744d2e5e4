"""Configurations that share kernels and plans get the programs that each would get by itself."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from cnna.compiler.choose.choose import fastest_plan
from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.plan.plan import streaming
from cnna.compiler.predict.predict import predicted_spans
from cnna.compiler.prepared import KeptPlans
from cnna.spec.config import Config, preset
from cnna.spec.ddr import PLANNED
from cnna.spec.errors import ModelError

from .. import networks

TINY = preset("tiny")
SMALL, LARGE, FEW, FEWEST, MANY = (
    replace(TINY, name=f"tiny, {ring} ring and {bank} bank words", ring_words=ring, bank_words=bank)
    for ring, bank in ((64, 1024), (1024, 1024), (512, 512), (64, 512), (1024, 2048))
)


def shared(kept: KeptPlans, graph: ir.Graph, config: Config, batch: int):
    """As `compile_graph`, with what is known."""
    with kept.of(graph, config, batch) as ready:
        choose = partial(fastest_plan, plans=ready.known(config), known=ready.stretches(config))
        return compile_graph(graph, config, batch, choose=choose, ready=ready)


@pytest.mark.parametrize(("seed", "batch"), [(10, 1), (4, 2)])
def test_what_is_known_of_other_memories_changes_nothing(seed, batch):
    """A plan that was known would else be taken where weights have to stream, with the clocks of another ring, or beyond a bank."""
    graph, kept = networks.network(seed), KeptPlans()
    for config in (SMALL, LARGE, FEW, FEWEST, MANY):
        own, alone = shared(kept, graph, config, batch), compile_graph(graph, config, batch)
        assert (own.program, own.constants, own.spans) == (alone.program, alone.constants, alone.spans)
        assert own.entry() == alone.entry()


def test_plans_are_known_by_the_weights_that_stream():
    """Rings of 64 and of 1,024 words have other programs if a chunk's weights fit into one of them alone."""
    graph, kept = networks.network(10), KeptPlans()
    with kept.of(graph, SMALL, 1) as ready:
        assert streaming(ready.lowered, SMALL) > streaming(ready.lowered, LARGE)
        assert ready.known(SMALL) is not ready.known(LARGE)
        assert ready.known(LARGE) is ready.known(TINY)
        assert ready.known(MANY) is not ready.known(LARGE)
        assert ready.known(MANY).tilings is ready.known(LARGE).tilings
        assert ready.known(SMALL).commands is ready.known(LARGE).commands is not ready.known(MANY).commands


@pytest.mark.parametrize("seed", [10, 4])
def test_stretches_of_another_ring_are_found(seed):
    """The weight ring decides how much of a load meets weights in DDR, but not what a stretch is."""
    graph, kept = networks.network(seed), KeptPlans()
    for config in (LARGE, replace(LARGE, name="another", ring_words=768, clock_mhz=200)):
        made = shared(kept, graph, config, 2)
        with kept.of(graph, config, 2) as ready:
            known = ready.stretches(config)
            before = known.simulated, known.found
            assert predicted_spans(made.program, config, known=known) == predicted_spans(made.program, config)
            simulated, found = known.simulated - before[0], known.found - before[1]
            assert (found > simulated) == (config is not LARGE or before[0] > 0)
            assert ready.stretches(config) is known
            assert ready.stretches(MANY) is not known
            assert ready.stretches(config, PLANNED._replace(latency_cycles=60)) is not known


def test_only_so_many_stretches_are_kept():
    """Those that were used last, whatever the kernels are that they belong to."""
    graph, wide = networks.network(4), replace(TINY, ci=8)
    kept, known = KeptPlans(stretches=10), {}
    for config, count in ((LARGE, 5), (MANY, 3), (wide, 4)):
        with kept.of(graph, config, 1) as ready:
            ready.stretches(config)
            known[config] = ready.simulated[config.bank_words, PLANNED] = SimpleNamespace(kept=count)
    with kept.of(graph, LARGE, 1) as ready, kept.of(graph, wide, 1) as other:
        assert ready.stretches(LARGE) is not known[LARGE]
        assert ready.stretches(MANY) is known[MANY]
        assert other.stretches(wide) is known[wide]


def test_nobody_else_gets_what_somebody_works_with():
    """Two threads would number the same words."""
    graph, kept = networks.network(3), KeptPlans()
    with kept.of(graph, SMALL, 1) as one, kept.of(graph, LARGE, 1) as other:
        assert one is not other
    with kept.of(graph, FEW, 1) as again:
        assert again is one, "it was put back last"
    with kept.of(networks.network(3), SMALL, 1) as own, kept.of(graph, replace(TINY, ci=8), 1) as wider:
        assert len({one, own, wider}) == 3, "other graphs and arrays have kernels of their own"


def test_a_configuration_that_does_not_fit_loses_nothing():
    """The next one would find kernels and tiles anew."""
    graph, kept = networks.network(3), KeptPlans()
    with pytest.raises(ModelError), kept.of(graph, SMALL, 1) as ready:
        raise ModelError("its feature memory is too small")
    with kept.of(graph, LARGE, 1) as again:
        assert again is ready


def test_only_so_many_commands_are_kept():
    """The plans of one large batch can take a gigabyte."""
    graph = networks.network(3)
    count = KeptPlans()
    shared(count, graph, TINY, 1)
    with count.of(graph, TINY, 1) as ready:
        most = ready.planned
    for limit, wanted in ((most, True), (most - 1, False)):
        kept = KeptPlans(limit)
        shared(kept, graph, TINY, 1)
        with kept.of(graph, TINY, 1) as ready:
            assert (ready.planned > 0) == wanted
