"""Kernels beside the vector engine's run in bands of rows where that pays, and the answers stay those of the reference."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from cnna.compiler.choose.choose import fastest_plan
from cnna.compiler.choose.cuts import cuts
from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Way
from cnna.compiler.plan.row_bands import row_bands
from cnna.spec.config import preset

from ...agreement import CONFIGS, agree, agree_emulated, case_of
from ...graph_builder import Builder
from ..choose.ways import best_of

PRODUCT = preset("zcu102")
WINDOW = ir.Window((5, 5), pads=(2, 2, 2, 2))


def separable(channels, size, *, alone=False):
    """A pointwise, a depthwise and a pointwise convolution; `alone`: without the depthwise one."""
    b = Builder(np.random.default_rng(3), "separable")
    x = b.conv(b.input(channels, size, size), channels, ir.Window((1, 1)))
    x = x if alone else b.depthwise(x, WINDOW)
    return b.graph(b.conv(x, channels, ir.Window((1, 1))))


def bands(graph, config=PRODUCT):
    """The bands of each kernel."""
    return row_bands(set_pitches(lower(graph, config, 1), config), config)


@pytest.mark.parametrize(
    ("channels", "size", "wanted"),
    [
        pytest.param(64, 56, (4, 4, 4), id="large maps"),
        pytest.param(64, 28, (2, 2, 2), id="middle maps"),
        pytest.param(64, 14, (1, 1, 1), id="small maps"),
    ],
)
def test_large_maps_beside_a_depthwise_layer_run_in_bands(channels, size, wanted):
    """Short bands would cost more than the waits that they spare: the array would wait for weights that come again."""
    assert bands(separable(channels, size)) == wanted


def test_layers_of_the_array_alone_stay_whole():
    """Nothing waits for the vector engine there; each band would bring its weights again for nothing."""
    assert set(bands(separable(64, 56, alone=True))) == {1}


def test_a_depthwise_network_takes_fewer_clocks_in_bands():
    """Unless the layer behind a depthwise one begins on its first rows, the array waits for the vector engine."""
    graph = separable(64, 56)
    clocks = []
    for most in (1, LIMITS.bands):
        choose = partial(fastest_plan, limits=PlanLimits(bands=most, wave_bands=()))  # waves have bands of their own
        clocks.append(compile_graph(graph, PRODUCT, choose=choose).predicted().total()["cycles"])
    assert clocks[1] < 0.95 * clocks[0], clocks


def banded(planner):
    """Ways in which all that can run in bands does so, in the other order of the kernels."""
    for cut in cuts(planner.lowered, planner.config, LIMITS.cuts):
        for abreast, apart in product((1, 2) if cut else (1,), (True, False)):
            yield Way(cut, abreast, reordered=True, banded=True, apart=apart)


EVERY_BAND = best_of(banded, PlanLimits(band_groups=2))


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_networks_in_bands_and_in_another_order_equal_the_reference(config, seed):
    """A missing wait for a halo row, or a kernel before one whose map it overwrites, would give another answer."""
    for number in range(seed * 100, seed * 100 + 12):
        agree_emulated(case_of(CONFIGS[config], "network", number, EVERY_BAND))


@pytest.mark.cosim
def test_bands_equal_the_reference_on_the_rtl(seed, rtl):
    """The emulator has no clock, so only the RTL shows a wait that is missing between two bands."""
    for number in range(seed * 100, seed * 100 + 4):
        agree(case_of(CONFIGS["tiny"], "network", number, EVERY_BAND), rtl(CONFIGS["tiny"]))
