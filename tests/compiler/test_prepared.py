"""Configurations that share kernels and plans get the programs that each would get by itself."""

from dataclasses import replace
from functools import partial

import pytest

from cnna.compiler.choose.choose import fastest_plan
from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.plan.plan import streaming
from cnna.compiler.prepared import KeptPlans
from cnna.spec.config import Config, preset
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
        return compile_graph(graph, config, batch, choose=partial(fastest_plan, plans=ready.known(config)), ready=ready)


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
        most = ready.commands
    for limit, wanted in ((most, True), (most - 1, False)):
        kept = KeptPlans(limit)
        shared(kept, graph, TINY, 1)
        with kept.of(graph, TINY, 1) as ready:
            assert (ready.commands > 0) == wanted
