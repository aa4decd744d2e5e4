"""No program is less work than the bound of its network, or a point of the answer would never be compiled."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.bound import least_work, least_works
from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.grid import BANK_WORDS, configurations
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.graph import ir
from cnna.compiler.plan.limits import LIMITS
from cnna.spec.boards import BOARDS, ddr_of
from cnna.spec.config import Config, ConfigError, preset
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import ModelError

from .. import networks
from ..graph_builder import Builder

BUDGET, SWEPT = Budget(2520, 912), ("ports", "regions", "ring")
OFFERED = [config for board in ("zcu102", "ultra96") for config in configurations(BUDGET, BOARDS[board], SWEPT)]


def _small_ring(config: Config, random: np.random.Generator) -> Config:
    """A configuration, or one of its array that holds so few weights that those of small networks come again and again."""
    with suppress(ConfigError):
        return replace(config, ring_words=int(random.choice([16, 64, 128, config.ring_words])))
    return config


@pytest.mark.parametrize("seed", range(20))
def test_no_program_is_less(seed: int) -> None:
    """A random network on random configurations: clocks, and bytes each way."""
    graph, random = networks.network(seed), np.random.default_rng(seed)
    compared = 0
    while compared < 2:
        config, batch = _small_ring(OFFERED[random.integers(len(OFFERED))], random), int(random.integers(1, 4))
        try:
            program = compile_graph(graph, config, batch)
        except ModelError:
            continue
        least, compared = least_work(graph, config, batch, BANK_WORDS), compared + 1
        assert least.read <= sum(layer["ddr_read_bytes"] for layer in program.layers)
        assert least.written <= sum(layer["ddr_write_bytes"] for layer in program.layers)
        for memory in (ddr_of(config), DdrSpeed(2, 120)):
            assert least.clocks(config, memory) <= program.predicted(memory).cycles


def test_rows_that_nothing_reads_do_not_count() -> None:
    """Where a stride passes over rows, a plan may leave them in DDR."""
    b = Builder(np.random.default_rng(1), "strided")
    graph = b.graph(b.conv(b.input(16, 33, 16), 16, ir.Window((1, 1), (4, 1))))
    config = preset("zcu102")
    program = compile_graph(graph, config)
    assert least_work(graph, config).read <= sum(layer["ddr_read_bytes"] for layer in program.layers)
    assert least_work(graph, config).written == 9 * 16 * 16


def test_weights_that_the_ring_does_not_hold_come_again() -> None:
    """Small rings would seem to need no more DDR than large ones, and each of their points be compiled to see it."""
    b = Builder(np.random.default_rng(1), "streamed")
    graph = b.graph(b.conv(b.input(64, 12, 12), 24, ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))))
    large = preset("tiny")
    for config in (replace(large, ring_words=64), replace(large, ring_words=64, pix=8), large):
        least, layers = least_work(graph, config, 2).read, compile_graph(graph, config, 2).layers
        assert least <= sum(layer["ddr_read_bytes"] for layer in layers) <= 1.5 * least
    assert least_work(graph, replace(large, ring_words=64), 2).read > 5 * least_work(graph, large, 2).read


def test_a_layer_waits_for_its_own_weights() -> None:
    """Layers that DDR holds up would seem to hide behind those that it does not, and arrays with a small ring to be quick."""
    b = Builder(np.random.default_rng(1), "held up")
    few = b.conv(b.input(16, 12, 12), 64, ir.Window((5, 5), (1, 1), (1, 1), (2, 2, 2, 2)))
    many = b.conv(few, 24, ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)))
    graph, config, memory = b.graph(many), replace(preset("tiny"), ring_words=128), DdrSpeed(8, 100)
    least, taken = least_work(graph, config), compile_graph(graph, config).predicted(memory).cycles
    assert 1.4 * max(least.array, least.bytes / 8) < least.clocks(config, memory) <= taken


def test_a_layer_beside_the_vector_engine_may_run_in_bands() -> None:
    """Each band may find the ring full of its weights. With one for all bands, the bound of a plan in waves could be too high."""
    config, bands = replace(preset("tiny"), ring_words=128), max(LIMITS.wave_bands)
    late = []
    for beside in (False, True):
        b = Builder(np.random.default_rng(1), "bands")
        made = b.conv(b.input(16, 12, 12), 64, ir.Window((5, 5), (1, 1), (1, 1), (2, 2, 2, 2)))
        made = b.depthwise(made, ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))) if beside else made
        graph = b.graph(b.conv(made, 24, ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))))
        late.append([kernel.bytes for kernel in least_work(graph, config).kernels])
    ring = config.ring_words * config.ring_word_bytes
    assert late[0][1] - late[1][1] == (bands - 1) * ring
    assert late[1][0] == max(late[0][0] - (bands - 1) * ring, 0)


def test_both_ways_of_a_port_are_used_at_once() -> None:
    """A single port that reads and writes would be bounded by the sum of both."""
    b = Builder(np.random.default_rng(1), "copied")
    graph = b.graph(b.conv(b.input(16, 64, 64), 16, ir.Window()))
    least = least_work(graph, replace(preset("zcu102"), ports=1))
    assert least.read > least.written > 0.9 * least.read
    assert least.clocks(replace(preset("zcu102"), ports=1), DdrSpeed(64, 120)) == max(least.read / 16, least.array)
    assert least.clocks(preset("zcu102"), DdrSpeed(4, 120)) == least.bytes / 4


@pytest.mark.parametrize("seed", [3, 8, 13, 25])
def test_what_is_lowered_together_is_as_if_alone(seed: int) -> None:
    """The bound of one array would be that of another, of other taps in a step or another batch."""
    graph = networks.network(seed)
    config = replace(preset("zcu102"), vector_ring_words=256)
    wanted = [(replace(config, pix=pix, bank_words=512), batch) for pix in (2, 4, 8, 16) for batch in (1, 2, 3)]
    for (own, batch), together in zip(wanted, least_works(graph, wanted), strict=True):
        alone = least_work(graph, own, batch)
        assert (together.array, together.vector, together.written) == (alone.array, alone.vector, alone.written)
        assert 0.9 * alone.read <= together.read <= alone.read


def test_a_kernel_that_fills_the_ring_is_lowered_by_itself() -> None:
    """The array does what the vector engine cannot hold, and that depends on the taps of a step."""
    b = Builder(np.random.default_rng(1), "wide")
    graph = b.graph(b.depthwise(b.input(16, 40, 40), ir.Window((17, 17))))
    config = replace(preset("zcu102"), vector_ring_words=256)
    wanted = [(replace(config, pix=pix, bank_words=1024), batch) for pix in (2, 16) for batch in (1, 3)]
    assert least_works(graph, wanted) == [least_work(graph, *one) for one in wanted]


def test_one_least_work_holds_for_all_sizes_of_memory() -> None:
    """It is found once for an array. Where more memory folds an input, the larger configuration would be ruled out by the other."""
    b = Builder(np.random.default_rng(1), "folded")
    graph = b.graph(b.conv(b.input(3, 96, 96), 16, ir.Window((3, 3), (2, 2), (1, 1), (1, 1, 1, 1))))
    config = replace(preset("tiny"), ports=1)
    each = [least_work(graph, replace(config, bank_words=words), 1) for words in BANK_WORDS]
    assert len({work.array for work in each}) > 1
    least = least_work(graph, config, 1, BANK_WORDS)
    for name in ("array", "vector", "read", "written"):
        assert getattr(least, name) == min(getattr(work, name) for work in each)
    assert [kernel.bytes for kernel in least.kernels] == [min(work.kernels[0].bytes for work in each)]
