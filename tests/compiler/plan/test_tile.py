"""Tiles cover a kernel's output exactly once, and their staging lies in free memory without overlap."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cnna.compiler.lower.kernels import views_of
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.find_tiling import find_tiling
from cnna.compiler.plan.tile import Tiling, box_of, box_words, least_words, tiles, tiling_work
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


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (3, 2), (100, 1), (2, 100)])
def test_a_tile_loads_what_the_one_before_has_not(rows, blocks):
    """The estimate would count boxes twice that stay, or leave out those that are stored."""
    for case, kernel, maps in cases(1):
        height, roles = maps[kernel.dest.map].height, views_of(kernel)
        bare = Tiling(1, min(rows, height), min(blocks * TINY.chunk_blocks, kernel.dest.blocks), {})
        weights, work, count = tiling_work(kernel, maps, bare, TINY)
        for role, view in roles.items():
            boxes = [box_of(kernel, role, tile, maps, TINY.chunk_blocks) for tile in tiles(kernel, bare, height)]
            moved = [box for box, before in zip(boxes, [None, *boxes], strict=False) if box != before or role == "dest"]
            pixels = sum((box.rows[1] - box.rows[0]) * (box.blocks[1] - box.blocks[0]) for box in moved) * maps[view.map].pitch
            staged = replace(bare, staging={role: (0,)})
            wanted = weights + pixels * TINY.ci, work, len(boxes)
            assert (tiling_work(kernel, maps, staged, TINY), count) == (wanted, len(boxes)), f"case {case}, {role}"


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
