"""Bands of several layers are mixed where that pays, no band passes what it depends on, and answers stay the reference's."""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pytest

from cnna.compiler.choose.choose import fastest_plan
from cnna.compiler.choose.mixed import mixed
from cnna.compiler.choose.search import finalists, in_waves, unlike
from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import VectorKernel, source_rows, views_of
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner
from cnna.compiler.plan.waves import waves
from cnna.compiler.predict.predict import predicted_spans
from cnna.spec.config import preset
from cnna.spec.program.commands import commands

from ... import networks
from ...agreement import CONFIGS, Case, agree, agree_emulated
from ...configurations import CODED, LITTLE
from ...graph_builder import Builder

PRODUCT = preset("zcu102")
ONE, FIVE = ir.Window((1, 1)), ir.Window((5, 5), pads=(2, 2, 2, 2))


def inverted(blocks, size=56, wide=96):
    """Inverted residual blocks: a pointwise convolution, a depthwise one, and another pointwise one whose result is added."""
    b = Builder(np.random.default_rng(4), "inverted")
    x = b.conv(b.input(16, size, size), 16, ONE)
    for _ in range(blocks):
        x = b.conv(b.depthwise(b.conv(x, wide, ONE), FIVE), 16, ONE, residual=x)
    return b.graph(x)


def lowered(graph, config, batch=1):
    return set_pitches(lower(graph, config, batch), config)


def bands_of(whole, config, limits=LIMITS, most=3):
    """The bands of all kernels."""
    return waves(whole, range(len(whole.kernels)), most, config, limits=limits)


SMALL = PlanLimits(vector_share=0, wave_groups=1)  # bands of a few pixels, for the small maps of random networks


def test_bands_of_a_block_run_beside_those_of_the_next():
    """If the first band of a block came behind the last one of the block before, the engines would work in turn."""
    made, _ = bands_of(lowered(inverted(3), PRODUCT), PRODUCT)
    place = {(kernel.layer, kernel.rows[0]): number for number, kernel in enumerate(made.kernels)}
    last = max(row for layer, row in place if layer == 3)
    assert place[4, 0] < place[3, last]


def test_bands_make_every_row_once():
    """A row that no band makes, or that two make, would be missing or cost clocks twice."""
    for case in range(20):
        whole = lowered(networks.network(case, 10), LITTLE)
        made, origins = bands_of(whole, LITTLE, SMALL)
        for kernel in whole.kernels:
            own = sorted(made.rows(band) for band, origin in zip(made.kernels, origins, strict=True) if origin is kernel)
            assert [row for low, high in own for row in range(low, high)] == list(range(*whole.rows(kernel)))


@pytest.mark.parametrize("batch", [1, 3])
def test_no_band_passes_one_that_it_depends_on(batch):
    """A band before the rows that it reads, or one that overwrites rows that are still to be read, would give another answer."""
    for case in range(20):
        whole = lowered(networks.network(case, 10), LITTLE, batch)
        made, origins = bands_of(whole, LITTLE, SMALL)
        number = {kernel: n for n, kernel in enumerate(whole.kernels)}
        for at, later in enumerate(made.kernels):
            for before, earlier in zip(origins[at + 1 :], made.kernels[at + 1 :], strict=True):
                assert number[before] >= number[origins[at]] or not touch(later, earlier, made), (case, later.name, earlier.name)


def touch(one, other, made):
    """Whether one of two bands writes what the other one touches."""
    for role, view in views_of(one).items():
        for their, seen in views_of(other).items():
            if "dest" not in (role, their) or view.map != seen.map:
                continue
            pairs = [((view.block, view.block + view.blocks), (seen.block, seen.block + seen.blocks)), (one.images, other.images)]
            pairs.append((rows(one, role, made), rows(other, their, made)))
            if all(a[0] < b[1] and b[0] < a[1] for a, b in pairs):
                return True
    return False


def rows(kernel, role, made):
    """The rows of a map that a kernel touches in a role."""
    height = made.maps[views_of(kernel)[role].map].height
    if any(part.phase for part in kernel.parts) or (isinstance(kernel, VectorKernel) and kernel.flat and role == "second"):
        return (0, height)
    return source_rows(kernel.window, made.rows(kernel), height) if role == "source" else made.rows(kernel)


def test_a_network_of_inverted_blocks_takes_clearly_fewer_clocks():
    """The array and the vector engine then work at the same time all through."""
    found = compile_graph(inverted(4), PRODUCT).predicted().cycles
    assert found <= LIMITS.clearly * chosen_with(PlanLimits(wave_bands=())).predicted().cycles


def chosen_with(limits):
    """The program of `inverted` that is chosen with other limits."""
    return compile_graph(inverted(4), PRODUCT, choose=partial(fastest_plan, limits=limits))


def test_a_plan_that_is_not_clearly_faster_is_not_taken():
    """Else a program would change whenever an estimate does."""
    assert chosen_with(PlanLimits(clearly=0.5)).program == chosen_with(PlanLimits(wave_bands=())).program


def test_networks_of_the_array_are_not_planned_in_waves():
    """The vector engine would have nothing to do beside the array, and compilation would take longer for nothing."""
    b = Builder(np.random.default_rng(3), "array")
    x = b.conv(b.conv(b.input(64, 56, 56), 64, ir.Window((3, 3), pads=(1, 1, 1, 1))), 64, ONE)
    whole = lowered(b.graph(b.conv(b.max_pool(x, ir.Window((2, 2), (2, 2))), 64, ONE)), PRODUCT)
    assert not in_waves(Planner(whole, PRODUCT, "array"), 0)


def waved(lowered, config, name, count):
    """Whatever can run in waves does so, with its weights in another order if there is one."""
    planner = Planner(lowered, config, name, SMALL)
    best = finalists(planner)[0]
    plans = unlike(in_waves(planner, best.way.cut))
    found = list(mixed(plans, config, lambda program, most: predicted_spans(program, config)))
    return found[-1] if found else (best, None)


def averaged(size=12):
    """Between two convolutions, an average that does not count its padding: nine rectangles. It has a table."""
    b = Builder(np.random.default_rng(6), "averaged")
    x = b.conv(b.input(8, size, size), 8, ONE)
    b.average_pool(x, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    pool = b.nodes.pop()
    b.nodes.append(replace(pool, op=replace(pool.op, table=ir.Table(np.random.default_rng(7).bytes(256)))))
    return b.graph(b.average_pool(b.conv(pool.output, 8, ONE), ir.Window((size, size))))


@dataclass(frozen=True)
class Averaged(Case):
    """`averaged` in place of a random graph."""

    @cached_property
    def graph(self):
        return averaged()


def test_a_band_without_the_first_rectangle_gets_its_table():
    """The table lies in front of the first rectangle's parameters: the compiler would stop, or a band use another layer's table."""
    for config in ("tiny", "odd", "tinyx2"):
        case = Averaged(CONFIGS[config], "network", 0, waved)
        agree_emulated(case)
        loads = [c for c in commands(case.piece.program) if c.engine == "vector" and c.f.table_load]
        assert len(loads) > 1, "the average runs in bands, and each brings its table"


@pytest.mark.parametrize("config", ["tiny", "odd", "tinyx2"])
def test_networks_in_waves_equal_the_reference(config, seed):
    """A missing wait, a map that lies where another one is still read, or a weight in the wrong place would give another answer."""
    ways = []

    def noted(*given):
        made, spans = waved(*given)
        ways.append(made.way)
        return made, spans

    for number in range(seed * 100, seed * 100 + 12):
        agree_emulated(Case(CONFIGS[config], "network", number, noted))
    assert sum(way.waves > 0 for way in ways) > 6, "most networks have waves"


@pytest.mark.cosim
@pytest.mark.parametrize("config", ["tiny", CODED.name])
def test_waves_equal_the_reference_on_the_rtl(config, seed, rtl):
    """The emulator has no clock and no limit of its rings, so only the RTL shows a wait that is missing or a program that stops."""
    for number in range(seed * 100, seed * 100 + 5):
        agree(Case(CONFIGS[config], "network", number, waved), rtl(CONFIGS[config]))
