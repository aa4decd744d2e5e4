"""Finds the size of a kernel's tiles and the places at which their operands are staged, so that the kernel takes the fewest clocks.

Its plans have the same kernel again and again: for each image, and each time another map is spilled. So figures are kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cnna.compiler.lower.kernels import ConvKernel, Kernel, Map, Range, views_of
from cnna.compiler.plan.forced import ForcedLayer
from cnna.compiler.plan.tile import Tiling, staged_words, tiling_clocks
from cnna.spec.config import Config

HELD_TILES = 2  # of the vector engine, whose words the vector ring holds: one works while others come
TRIED = 5  # number of band heights that are compared, from the greatest that fits downwards


@dataclass(eq=False)
class TilingFigures:
    """What the choice of a tiling needs to know of it wherever it is staged, worked out when it is first asked for."""

    kernel: Kernel
    maps: Mapping[str, Map]
    config: Config
    _words: Mapping[str, int] | None = None
    _clocks: dict[int, float] = field(default_factory=dict)

    def words(self, tiling: Tiling) -> Mapping[str, int]:
        """Words in a deck of a copy of each role."""
        if self._words is None:
            self._words = staged_words(self.kernel, self.maps, tiling, self.config)
        return self._words

    def clocks(self, tiling: Tiling, copies: int) -> float:
        """As of `tiling_clocks`, with so many copies."""
        if copies not in self._clocks:
            self._clocks[copies] = tiling_clocks(self.kernel, self.maps, tiling, self.config)
        return self._clocks[copies]


# Of kernels alike, by rows and blocks of a tile: images, plans and spills ask for the same ones again and again.
KnownTilings = dict[tuple[Any, ...], dict[tuple[int, int], TilingFigures]]


def find_tiling(
    kernel: Kernel,
    maps: Mapping[str, Map],
    spilled: Sequence[str],
    gaps: Sequence[Range],
    config: Config,
    bands: int = 1,
    short: bool = False,
    forced: ForcedLayer | None = None,
    known: KnownTilings | None = None,
) -> Tiling | None:
    """The fastest tiling whose staging fits into the gaps of feature memory. None: not even one row fits.

    spilled: the roles whose maps lie in DDR. bands: into which a kernel is cut whose maps all lie on chip. short: such a kernel of
    the vector engine has tiles of which the vector ring holds the words of several. forced: what tiles may be. known: figures of
    other calls for the same array and ports; gets those of this one.
    """
    height, units = maps[kernel.dest.map].height, -(-kernel.dest.blocks // config.chunk_blocks)
    if kernel.rows:
        height = kernel.rows[1] - kernel.rows[0]
    if not spilled:
        blocks = _short_blocks(kernel, config) if short else kernel.dest.blocks
        rows = -(-height // bands)
        if forced is not None:
            rows, blocks = min(forced.rows or rows, height), forced.blocks or blocks
        return Tiling(kernel.images[1] - kernel.images[0], rows, blocks, {})
    figures = {} if known is None else known.setdefault(_alike(kernel, maps, spilled, config), {})
    sizes = dict.fromkeys(-(-units // 2**n) * config.chunk_blocks for n in range(units.bit_length() + 1))
    allowed = sizes if forced is None or forced.blocks is None else (forced.blocks,)
    heights = _row_candidates(height) if forced is None or forced.rows is None else (min(forced.rows, height),)
    found: list[tuple[float, Tiling]] = []
    for blocks in allowed:
        for copies in (2, 1):
            fitting: list[tuple[float, Tiling]] = []
            for rows in heights:
                bare = Tiling(1, rows, min(blocks, kernel.dest.blocks), dict.fromkeys(spilled, (0,) * copies))
                own = figures.get((rows, bare.blocks))
                if own is None:
                    own = figures[rows, bare.blocks] = TilingFigures(kernel, maps, config)
                tiling = _staged(bare, own.words(bare), gaps)
                fitting += [(own.clocks(bare, copies), tiling)] if tiling else []
                if len(fitting) == TRIED:
                    break
            found += fitting
            if fitting:
                break
    return min(found, key=lambda one: one[0])[1] if found else None


def _alike(kernel: Kernel, maps: Mapping[str, Map], spilled: Sequence[str], config: Config) -> tuple[Any, ...]:
    """Equal for kernels whose tilings have the same figures: those of other images, or whose maps lie elsewhere. Of the weight ring
    it matters which chunks it holds whole.
    """
    streaming = tuple(part.stream.unit_words > config.ring_words for part in kernel.parts)
    found: list[Any] = [kernel.parts, kernel.window, kernel.rows, streaming, *spilled]
    for view in views_of(kernel).values():
        map_ = maps[view.map]
        found += [view.block, view.blocks, map_.blocks, map_.height, map_.width, map_.pitch, map_.depth]
    return tuple(found)


def _short_blocks(kernel: Kernel, config: Config) -> int:
    """The blocks of a tile of which the vector ring holds the words of HELD_TILES."""
    if isinstance(kernel, ConvKernel) or kernel.uniform:
        return kernel.dest.blocks
    words = max(part.stream.unit_words for part in kernel.parts) * config.chunk_blocks
    most = max(1, config.vector_ring_words // HELD_TILES // words) * config.chunk_blocks
    count = -(-kernel.dest.blocks // most)
    return min(kernel.dest.blocks, -(-kernel.dest.blocks // (count * config.chunk_blocks)) * config.chunk_blocks)


def _row_candidates(height: int) -> list[int]:
    """Heights of bands: all rows, a half, a third, ... without repetitions."""
    return list(dict.fromkeys(-(-height // bands) for bands in [*range(1, min(height, 17)), *range(18, height, 3), height]))


def _staged(bare: Tiling, words: Mapping[str, int], gaps: Sequence[Range]) -> Tiling | None:
    """The tiling with addresses: each copy in the first gap that holds it, the largest first. None: they do not fit.

    words: of a copy of each role.
    """
    free = [list(gap) for gap in gaps]
    placed: dict[str, list[int]] = {role: [] for role in bare.staging}
    for role in sorted(bare.staging, key=lambda role: -words[role]):
        for _ in bare.staging[role]:
            gap = next((gap for gap in free if gap[1] - gap[0] >= words[role]), None)
            if gap is None:
                return None
            placed[role].append(gap[0])
            gap[0] += words[role]
    return Tiling(bare.images, bare.rows, bare.blocks, {role: tuple(bases) for role, bases in placed.items()})
