"""A batch cut anywhere gives the reference's answer, and no other cut is better than the chosen one."""

import numpy as np
import pytest

from cnna.compiler.choose.cuts import cuts
from cnna.compiler.choose.search import finalists
from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import views_of
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner, Way
from cnna.compiler.plan.segment import segment
from cnna.spec.config import Config, preset

from ... import networks
from ...agreement import CONFIGS, Case, agree_emulated
from ...graph_builder import Builder
from ..choose.ways import best, best_of

LITTLE = Config("little", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=512, ring_words=64, vector_ring_words=256)


def test_each_map_is_of_one_image_before_the_cut_and_whole_at_it():
    """A map of one image that a kernel behind the cut reads would hold only the last image."""
    for case in range(20):
        whole = lower(networks.network(case, 8), LITTLE, 3)
        for cut in range(len(whole.kernels) + 1):
            found = segment(whole, cut, 1, LITTLE)
            assert len(found.kernels) == len(whole.kernels) + 2 * cut
            for number, kernel in enumerate(found.kernels):
                image = number // max(cut, 1)
                assert kernel.images == ((image, image + 1) if number < 3 * cut else (0, 3))
                for view in views_of(kernel).values():
                    images = found.maps[view.map].images
                    assert images[0] <= kernel.images[0] < kernel.images[1] <= images[1]
                    if number >= 3 * cut:
                        assert images == (0, 3)


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_a_batch_cut_anywhere_equals_the_reference(config, seed):
    """Wrong addresses of an image, missing waits for a map that images share, or another kernel's weights would show."""
    random = np.random.default_rng(seed)

    def ways(planner):
        cut = int(random.integers(1, len(planner.lowered.kernels) + 1))
        return [Way(cut, abreast, reordered) for abreast in (1, 2) for reordered in (False, True)]

    for case in range(seed * 100, seed * 100 + 8):
        made = Case(CONFIGS[config], "network", case * 4 + 1 + case % 3, best_of(ways))  # batches of 2 to 4
        assert made.batch > 1
        agree_emulated(made)


def test_images_abreast_keep_the_order_of_their_own():
    """Every image must have every kernel once, in the graph's order; no later image may overtake or begin before its turn."""
    for case in range(10):
        whole = lower(networks.network(case, 8), LITTLE, 4)
        cut = len(whole.kernels)
        found = segment(whole, cut, 2, LITTLE)
        names = [kernel.name for kernel in whole.kernels]
        assert [[k.name for k in found.kernels if k.images[0] == image] for image in range(4)] == [names] * 4
        ends = [max(n for n, k in enumerate(found.kernels) if k.images[0] == image) for image in range(4)]
        for image in (2, 3):
            assert next(n for n, k in enumerate(found.kernels) if k.images[0] == image) > min(ends[:image])


def test_the_array_works_on_one_image_while_the_other_is_pooled():
    """With convolutions and pools in turn, running one image after the other would leave each engine idle half of the time."""
    b = Builder(np.random.default_rng(1), "abreast")
    x = b.input(64, 28, 28)
    window, wide = ir.Window((3, 3), pads=(1, 1, 1, 1)), ir.Window((5, 5), pads=(2, 2, 2, 2))
    for _ in range(4):
        x = b.max_pool(b.conv(x, 64, window), wide)
    graph, config = b.graph(x), preset("zcu102")
    planner = Planner(set_pitches(lower(graph, config, 4), config), config, graph.name)
    clocks = [planner.plan(Way(len(planner.lowered.kernels), abreast)).clocks for abreast in (1, 2)]
    assert clocks[1] < 0.9 * clocks[0], clocks


def test_large_maps_then_many_weights_are_cut_between():
    """All images together would spill the early maps; image by image would fetch the late weights for each image."""
    b = Builder(np.random.default_rng(1), "cut")
    x = b.input(64, 56, 56)
    for _ in range(4):
        x = b.conv(b.conv(x, 256, ir.Window()), 64, ir.Window())
    x = b.max_pool(x, ir.Window((8, 8), (8, 8)))
    for _ in range(4):
        x = b.conv(x, 512, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    graph, config = b.graph(x), preset("zcu102")
    lowered = set_pitches(lower(graph, config, 4), config)
    chosen = cuts(lowered, config, 4)
    assert 8 <= chosen[0] <= 10
    planner = Planner(lowered, config, graph.name)
    found = finalists(planner)[0].clocks
    others = [best(planner, [Way(cut, abreast) for abreast in (1, 2)]).clocks for cut in (0, len(lowered.kernels))]
    assert found < 0.95 * min(others), (found, others)


def test_one_image_is_never_cut():
    """Programs of one image would change for nothing."""
    lowered = lower(networks.network(3), LITTLE)
    assert cuts(lowered, LITTLE, 4) == [0]
    assert segment(lowered, 2, 2, LITTLE) is lowered
