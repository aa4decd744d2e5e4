"""Maps that are used at the same time lie in different regions of feature memory, if there is room."""

import numpy as np

from cnna.compiler.graph import ir
from cnna.compiler.lower.layout import map_words, region_words, together
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.allocate import allocate
from cnna.compiler.plan.regions import best_base, rivals_of
from cnna.spec.config import preset

from ...graph_builder import Builder

CONFIG = preset("zcu102")
SIZE = region_words(CONFIG)


def depthwise_chain():
    b = Builder(np.random.default_rng(1), "chain")
    wide = b.conv(b.input(32, 14, 14), 64, ir.Window())
    return lower(b.graph(b.conv(b.depthwise(wide, ir.Window((3, 3), pads=(1, 1, 1, 1))), 32, ir.Window())), CONFIG)


def test_words_of_disjoint_regions_never_meet():
    """The likelihood is that of two words drawn from the ranges; a range over two regions meets either of them by half."""
    assert together((0, SIZE), (SIZE, 2 * SIZE), CONFIG) == 0
    assert together((0, 10), (SIZE - 10, SIZE), CONFIG) == 1
    assert together((SIZE // 2, SIZE * 3 // 2), (0, SIZE), CONFIG) == 0.5


def test_a_map_is_put_where_its_rivals_are_not():
    """The lowest address without a rival in its region must be taken; if there is none, the one with the least rivalry."""
    everywhere = [(0, CONFIG.feature_words)]
    assert best_base(everywhere, 100, [], CONFIG) == 0
    assert best_base(everywhere, 100, [((0, 10), 5)], CONFIG) == SIZE
    assert best_base(everywhere, 100, [((0, SIZE), 5), ((SIZE, 2 * SIZE), 9)], CONFIG) == 2 * SIZE
    assert best_base([(0, SIZE)], 100, [((0, 10), 5)], CONFIG) == 0
    assert best_base([(0, 99)], 100, [], CONFIG) is None


def test_the_vector_engine_reads_and_writes_apart():
    """A depthwise convolution's source and destination are rivals, and there is room to part them."""
    lowered = depthwise_chain()
    (kernel,) = [kernel for kernel in lowered.kernels if kernel.window.kernel == (3, 3)]
    source, dest = kernel.source.map, kernel.dest.map
    assert dest in rivals_of(lowered)[source]
    assert source in rivals_of(lowered)[dest]
    places = allocate(lowered, CONFIG, "case").features
    spans = [(places[name].base, places[name].base + map_words(lowered.maps[name])) for name in (source, dest)]
    assert together(*spans, CONFIG) == 0
