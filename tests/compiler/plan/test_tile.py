"""Tiles cover a kernel's output exactly once, and their staging lies in free memory without overlap."""

from itertools import pairwise

import numpy as np
import pytest

from cnna.compiler.lower.kernels import views_of
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.find_tiling import find_tiling
from cnna.compiler.plan.tile import box_of, box_words, least_words, tiles
from cnna.spec.config import preset

from ... import networks

TINY = preset("tiny")


def cases(batch):
    for case in range(60):
        lowered = lower(networks.layer(case), TINY, batch)
        for kernel in lowered.kernels:
            yield case, kernel, lowered.maps


@pytest.mark.parametrize("words", [3000, 700, 250])
def test_tiles_cover_the_output_once_in_the_memory_there_is(words):
    """An element of the output would belong to no tile or to two, or copies of staged operands would overlap."""
    gaps, found = [(100, 100 + words // 3), (2000, 2000 + words)], 0
    for case, kernel, maps in cases(2):
        roles = list(views_of(kernel))
        tiling = find_tiling(kernel, maps, roles, gaps, TINY)
        if tiling is None:
            assert least_words(kernel, maps, roles, TINY) > words // 3, f"case {case} would fit"
            continue
        found += 1
        dest = maps[kernel.dest.map]
        covered = np.zeros((2, dest.height, kernel.dest.blocks), int)
        sizes = dict.fromkeys(roles, 0)
        for tile in tiles(kernel, tiling, dest.height):
            covered[slice(*tile.images), slice(*tile.rows), slice(*tile.blocks)] += 1
            for role in roles:
                map_ = maps[views_of(kernel)[role].map]
                sizes[role] = max(sizes[role], box_words(box_of(kernel, role, tile, maps, TINY.chunk_blocks), map_))
        assert (covered == 1).all(), f"case {case}"
        taken = sorted((base, base + sizes[role]) for role, bases in tiling.staging.items() for base in bases)
        assert all(first[1] <= then[0] for first, then in pairwise(taken)), f"case {case}"
        assert all(any(low <= a and b <= high for low, high in gaps) for a, b in taken), f"case {case}"
    assert found > 10


def test_a_kernel_on_chip_is_one_tile():
    """There would be bands or staging, or not all images at once."""
    for _, kernel, maps in cases(3):
        tiling = find_tiling(kernel, maps, [], [], TINY)
        assert len(list(tiles(kernel, tiling, maps[kernel.dest.map].height))) == 1
        assert not tiling.staging


def test_staging_is_doubled_where_there_is_room():
    """With one copy the engines would wait for each other at every tile."""
    lowered = lower(networks.layer(0, "conv"), TINY, 4)
    tiling = find_tiling(lowered.kernels[0], lowered.maps, ["source", "dest"], [(0, 16384)], TINY)
    assert all(len(bases) == 2 for bases in tiling.staging.values())
