"""The other order of the kernels: branches fill each other's waits, and no kernel passes one that it depends on."""

import numpy as np

from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import views_of
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.kernel_order import reordered
from cnna.spec.config import preset

from ... import networks
from ...configurations import LITTLE
from ...graph_builder import Builder

PRODUCT, ONE, THREE = preset("zcu102"), ir.Window((1, 1)), ir.Window((3, 3), pads=(1, 1, 1, 1))


def names(graph, config=PRODUCT):
    """The names of the kernels before and after."""
    whole = lower(graph, config, 1)
    return [k.name for k in whole.kernels], [k.name for k in reordered(whole, config).kernels]


def test_a_pool_that_comes_first_is_not_waited_for():
    """If a pool's branch comes before the others, the array would idle during the pool."""
    b = Builder(np.random.default_rng(5), "branches")
    x = b.conv(b.input(64, 28, 28), 64, ONE)
    pooled = b.conv(b.max_pool(x, THREE), 32, ONE)
    other = b.conv(b.conv(x, 64, ONE), 32, THREE)
    before, after = names(b.graph(b.concat(pooled, other)))
    behind_pool = before[2]
    assert after[1] == before[1], "the pool begins as early as before"
    assert after.index(behind_pool) > before.index(behind_pool)


def test_kernels_of_a_chain_keep_their_order():
    """Where each kernel reads the one before, there is one order only."""
    b = Builder(np.random.default_rng(6), "chain")
    x = b.input(16, 12, 12)
    for _ in range(5):
        x = b.max_pool(b.conv(x, 16, THREE), THREE)
    before, after = names(b.graph(x))
    assert after == before


def test_no_kernel_passes_one_that_touches_its_blocks():
    """A kernel that ran before the one that makes its source, or that reads what it overwrites, would take wrong words."""
    for case in range(40):
        whole = lower(networks.network(case, 10), LITTLE, 1)
        place = {id(kernel): number for number, kernel in enumerate(reordered(whole, LITTLE).kernels)}
        assert len(place) == len(whole.kernels)
        for number, later in enumerate(whole.kernels):
            for earlier in whole.kernels[:number]:
                for role, view in views_of(later).items():
                    for other, seen in views_of(earlier).items():
                        apart = view.block >= seen.block + seen.blocks or seen.block >= view.block + view.blocks
                        if "dest" in (role, other) and view.map == seen.map and not apart:
                            assert place[id(earlier)] < place[id(later)], (case, earlier.name, later.name)
