"""Cuts a kernel whose maps do not all lie on chip into tiles: bands of output rows and, if it helps, ranges of blocks.

The operands of a tile are staged in free feature memory. If there is room for two copies, the next tile is loaded and the last one
is stored while the engine works. A kernel whose maps are all on chip is one tile, or a band of rows a tile (`row_bands`).
`find_tiling` chooses the size of the tiles.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

from cnna.compiler.cost.engine_steps import EngineSteps, array_steps, groups_of, vector_steps
from cnna.compiler.lower.kernels import (
    ConvKernel,
    ConvPart,
    Kernel,
    Map,
    Range,
    VectorKernel,
    VectorPart,
    phases,
    source_rows,
    views_of,
)
from cnna.compiler.lower.layout import Box, FeaturePlace, sets_of
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import PLANNED
from cnna.spec.program.window import steps_in_row

TILE_CLOCKS = 300  # cost of each tile: DDR latency, fill and drain


class Tile(NamedTuple):
    """Images and output rows of a kernel, and blocks of its output (0 is the first block that the kernel writes)."""

    images: Range
    rows: Range
    blocks: Range


@dataclass(frozen=True)
class Tiling:
    """The most images, rows and blocks of a tile. staging: for each staged role, the addresses of its copies."""

    images: int
    rows: int
    blocks: int
    staging: Mapping[str, tuple[int, ...]]


def tiles(kernel: Kernel, tiling: Tiling, height: int) -> Iterator[Tile]:
    """The tiles of a kernel in order. Images are the outer loop, then rows, then blocks."""
    bands, ranges = _bands(kernel, height, tiling.rows), _cut(kernel.dest.blocks, tiling.blocks)
    for image in range(*kernel.images, tiling.images):
        for rows, blocks in product(bands, ranges):
            yield Tile((image, min(image + tiling.images, kernel.images[1])), rows, blocks)


def _cut(size: int, most: int) -> list[Range]:
    """0..size-1 in pieces of `most`; the last may be shorter."""
    return [(low, min(low + most, size)) for low in range(0, size, most)]


def _bands(kernel: Kernel, height: int, most: int) -> list[Range]:
    """The kernel's rows, of a map of so many, in bands of at most `most`."""
    first, end = kernel.rows or (0, height)
    return [(first + low, first + high) for low, high in _cut(end - first, most)]


def box_of(kernel: Kernel, role: str, tile: Tile, maps: Mapping[str, Map], chunk_blocks: int) -> Box:
    """The part of a role's map that a tile touches, in whole rows."""
    view = views_of(kernel)[role]
    (rows,), (blocks,) = _rows_of(kernel, role, [tile.rows], maps), _blocks_of(kernel, role, [tile.blocks], maps, chunk_blocks)
    return Box(tile.images, (view.block + blocks[0], view.block + blocks[1]), rows, (0, maps[view.map].width))


def _rows_of(kernel: Kernel, role: str, bands: Sequence[Range], maps: Mapping[str, Map]) -> list[Range]:
    """The rows of a role's map that the tiles of each band of output rows touch."""
    if role == "second" and isinstance(kernel, VectorKernel) and kernel.flat:
        return [(0, 1) for _ in bands]
    if role != "source":
        return list(bands)
    height = maps[kernel.source.map].height
    if not _phased(kernel):
        return [source_rows(kernel.window, band, height) for band in bands]
    owners, found = list(phases(kernel, maps[kernel.dest.map])), []
    for band in bands:
        owned = ((phase.window, phase.rows_within(band)) for phase in owners)
        read = [source_rows(window, own, height) for window, own in owned if own[0] < own[1]]
        found.append((min(low for low, _ in read), max(high for _, high in read)))
    return found


def _phased(kernel: Kernel) -> bool:
    """Whether its parts fill pixels between others."""
    return any(part.phase for part in kernel.parts)


def _blocks_of(kernel: Kernel, role: str, ranges: Sequence[Range], maps: Mapping[str, Map], chunk_blocks: int) -> list[Range]:
    """The blocks of a role's view that the tiles of each range of output blocks touch."""
    if role != "source" or not isinstance(kernel, ConvKernel):
        return list(ranges)
    found, there = [], maps[kernel.source.map].blocks - kernel.source.block  # the last set of a map may lack a block
    for low, high in ranges:
        first, last = low // chunk_blocks, -(-high // chunk_blocks)
        used = [part for part in kernel.parts if part.first_chunk < last and part.first_chunk + part.chunks > first]
        found.append((min(part.first_block for part in used), min(there, max(part.first_block + part.blocks for part in used))))
    return found


def staged_place(base: int, box: Box, map_: Map) -> FeaturePlace:
    """The place of a box that is staged at `base`, without gaps except for the map's pitch."""
    block_words = map_.pitch * (box.rows[1] - box.rows[0])
    image_words = block_words * sets_of(box.blocks, map_.depth)
    return FeaturePlace(base, map_.pitch, block_words, image_words, box.images[0], box.blocks[0], box.rows[0], map_.depth)


def box_words(box: Box, map_: Map) -> int:
    """Words that a staged box takes in a deck."""
    return map_.pitch * (box.images[1] - box.images[0]) * sets_of(box.blocks, map_.depth) * (box.rows[1] - box.rows[0])


def least_words(kernel: Kernel, maps: Mapping[str, Map], spilled: Sequence[str], config: Config) -> int:
    """Words of feature memory that the smallest tile needs; messages name them."""
    tiling = Tiling(1, 1, config.chunk_blocks, dict.fromkeys(spilled, (0,)))
    return sum(staged_words(kernel, maps, tiling, config).values())


def ddr_rate(config: Config) -> int:
    """Bytes that all ports together move in a clock."""
    return min(PLANNED.bytes_per_cycle, BEAT_BYTES * config.ports)


def staged_words(kernel: Kernel, maps: Mapping[str, Map], tiling: Tiling, config: Config) -> dict[str, int]:
    """The words in a deck of a copy of each staged role: for the most rows and the most sets that a tile touches."""
    bands = _bands(kernel, maps[kernel.dest.map].height, tiling.rows)
    ranges = _cut(kernel.dest.blocks, tiling.blocks)
    found = {}
    for role in tiling.staging:
        rows = max(high - low for low, high in _rows_of(kernel, role, bands, maps))
        view, blocks = views_of(kernel)[role], _blocks_of(kernel, role, ranges, maps, config.chunk_blocks)
        sets = max(sets_of((view.block + low, view.block + high), config.depth) for low, high in blocks)
        found[role] = maps[view.map].pitch * rows * sets
    return found


def tiling_clocks(kernel: Kernel, maps: Mapping[str, Map], tiling: Tiling, config: Config) -> float:
    """Estimate for one image: the longer of DDR and engine, and the part of the other that is not hidden behind it."""
    bytes_, work, count = tiling_work(kernel, maps, tiling, config)
    ddr = bytes_ / ddr_rate(config)
    doubled = all(len(bases) > 1 for bases in tiling.staging.values())
    hidden = max(ddr, work) + min(ddr, work) / count if doubled else ddr + work
    return hidden + TILE_CLOCKS * count


def tiling_work(kernel: Kernel, maps: Mapping[str, Map], tiling: Tiling, config: Config) -> tuple[int, int, int]:
    """(DDR bytes, clocks of the engine, number of tiles) for one image."""
    dest, bytes_, work = maps[kernel.dest.map], 0, 0
    bands, ranges = _bands(kernel, dest.height, tiling.rows), _cut(kernel.dest.blocks, tiling.blocks)
    for role in tiling.staging:
        rows, blocks = _rows_of(kernel, role, bands, maps), _blocks_of(kernel, role, ranges, maps, config.chunk_blocks)
        moved = _moved(rows, blocks, stays=role != "dest")
        bytes_ += moved * maps[views_of(kernel)[role].map].pitch * config.ci
    phased = _phased(kernel)  # if not, tiles of one size have equal work
    alike = Counter(band if phased else (0, band[1] - band[0]) for band in bands), Counter((0, high - low) for low, high in ranges)
    for (band, first), (made, other) in product(*(counts.items() for counts in alike)):
        count = first * other
        for own, unit in _tile_steps(kernel, Tile((0, 1), band, made), dest, config):
            work += own.steps * count
            bytes_ += own.times * unit * config.ring_word_bytes * (own.groups if unit > config.ring_words else 1) * count
    return bytes_, work, len(bands) * len(ranges)


def _moved(rows: Sequence[Range], blocks: Sequence[Range], stays: bool) -> int:
    """Rows of blocks that tiles move: those of each band, one range of blocks after another. stays: a tile moves nothing if it has
    the rows and blocks of the tile before.
    """
    sizes = [high - low for low, high in blocks]
    later = sum(size for (before, own), size in zip(pairwise(blocks), sizes[1:], strict=True) if own != before or not stays)
    moved, last = 0, None
    for band in rows:
        again = stays and band == last and blocks[0] == blocks[-1]
        moved += (band[1] - band[0]) * (later + (0 if again else sizes[0]))
        last = band
    return moved


def _tile_steps(kernel: Kernel, tile: Tile, dest: Map, config: Config) -> Iterator[tuple[EngineSteps, int]]:
    """For each phase of a tile: the steps of the engine, and the words of weights of a chunk.

    Each part of a grouped convolution counts as if it had as many source blocks as the largest part.
    """
    blocks = tile.blocks[1] - tile.blocks[0]
    for phase, parts in phases(kernel, dest).items():
        low, high = phase.rows_within(tile.rows)
        groups, (down, right) = groups_of(max(high - low, 0) * phase.size[1], config), phase.window.kernel
        convs = [part for part in parts if isinstance(part, ConvPart)]
        if convs:
            most = config.sets(max(part.blocks for part in convs))
            yield array_steps(groups, -(-blocks // config.chunk_blocks), most, down * right, config), convs[0].stream.unit_words
        else:
            apart = max(part.apart for part in parts if isinstance(part, VectorPart))
            yield vector_steps(groups, blocks, down * steps_in_row(right, apart)), 0
