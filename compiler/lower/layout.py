"""Where words lie: a map, or the part of it that a tile works on, in feature memory and in DDR.

Feature memory: image by image, in an image set by set (`decks`), in a set row by row, `pitch` words apart. Sizes and ranges of
it are those of a deck. DDR: block by block in place of set by set, rows at multiples of 16 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Map, Range
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.program.decks import located

Indices = slice | NDArray[np.int64]  # a slice where each is the next number

SEGMENT_ALIGN = 4096  # bytes; also of maps in the workspace, so that bursts start at a page
STREAM_ALIGN = 64  # bytes, of weight streams


def align(value: int, step: int) -> int:
    """The least multiple of `step` that is not below `value`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class FeaturePlace:
    """Part of a map in feature memory, from image `image`, block `block` and row `row` on. Addresses and steps are in words.

    block_words: from a set to the next. base: of the set that has the first block.
    """

    base: int
    pitch: int
    block_words: int
    image_words: int
    image: int = 0
    block: int = 0
    row: int = 0
    depth: int = 1

    def address(self, image: int, block: int, row: int, column: int) -> int:
        """Address of a word, given its place in the whole map.

        The formula is linear but for the decks, so places in the padding have addresses too.
        """
        sets = block // self.depth - self.block // self.depth
        steps = (image - self.image) * self.image_words + sets * self.block_words + (row - self.row) * self.pitch
        address = self.base + steps + column
        return address if self.depth == 1 else located(address, block % self.depth, self.depth)


@dataclass(frozen=True)
class DdrPlace:
    """A whole map in a DDR segment, from image `image` on. Sizes are in bytes."""

    segment: str
    offset: int
    row_bytes: int
    block_bytes: int
    image_bytes: int
    image: int = 0

    def address(self, image: int, block: int, row: int) -> int:
        """Byte offset in the segment of a row's first pixel."""
        return self.offset + (image - self.image) * self.image_bytes + block * self.block_bytes + row * self.row_bytes


@dataclass(frozen=True)
class Box:
    """Images, blocks, rows and columns of a map. Rows and columns may be `step` apart."""

    images: Range
    blocks: Range
    rows: Range
    columns: Range
    step: tuple[int, int] = (1, 1)


def whole_place(map_: Map, base: int = 0) -> FeaturePlace:
    """All of a map in feature memory."""
    block_words = map_.pitch * map_.height
    image_words = block_words * sets_of((0, map_.blocks), map_.depth)
    return FeaturePlace(base, map_.pitch, block_words, image_words, map_.images[0], depth=map_.depth)


def sets_of(blocks: Range, depth: int) -> int:
    """The sets that have a block of the range."""
    return -(-blocks[1] // depth) - blocks[0] // depth


def map_words(map_: Map) -> int:
    """Words that a whole map takes in a deck of feature memory."""
    return (map_.images[1] - map_.images[0]) * whole_place(map_).image_words


def ddr_place(map_: Map, segment: str, offset: int, config: Config) -> DdrPlace:
    """A map in a segment, as the port of an artifact describes it."""
    row = align(map_.width * config.ci, BEAT_BYTES)
    return DdrPlace(segment, offset, row, row * map_.height, row * map_.height * map_.blocks, map_.images[0])


def map_bytes(map_: Map, config: Config) -> int:
    """Bytes that a whole map takes in DDR."""
    return (map_.images[1] - map_.images[0]) * ddr_place(map_, "", 0, config).image_bytes


def feature_indices(place: FeaturePlace, box: Box, deck_words: int) -> Indices:
    """The number of every word of a box, in the order of `Box`. Words of deck 1 count from `deck_words` on."""
    (image, last), (block, last_block), (row, last_row), (column, last_column) = box.images, box.blocks, box.rows, box.columns
    first = place.base + (image - place.image) * place.image_words + (row - place.row) * place.pitch + column
    images = (last - image, place.image_words)
    rows = (len(range(row, last_row, box.step[0])), place.pitch * box.step[0])
    columns = (len(range(column, last_column, box.step[1])), box.step[1])
    if place.depth == 1:
        first += (block - place.block) * place.block_words
        return _indices(first, (images, (last_block - block, place.block_words), rows, columns))
    blocks = np.arange(block, last_block)
    sets = blocks // place.depth - place.block // place.depth
    each = (sets * place.block_words + blocks % place.depth * deck_words).reshape(-1, 1)
    starts = (np.arange(last - image) * place.image_words).reshape(-1, 1, 1)
    return (starts + each + listed(_indices(first, (rows, columns)))).reshape(-1)


def ddr_beats(place: DdrPlace, box: Box) -> Indices:
    """Every 16-byte beat of a box's rows (whole rows), as indices into the segment."""
    first = place.address(box.images[0], box.blocks[0], box.rows[0])
    steps = (place.image_bytes, place.block_bytes, place.row_bytes)
    walks = [(high - low, step // BEAT_BYTES) for (low, high), step in zip((box.images, box.blocks, box.rows), steps, strict=True)]
    return _indices(first // BEAT_BYTES, (*walks, (place.row_bytes // BEAT_BYTES, 1)))


def _indices(first: int, walks: Sequence[tuple[int, int]]) -> Indices:
    """`first` plus all sums of steps. walks: how many there are, and how far apart; the slowest first."""
    count, walks = 1, list(walks)
    while walks and (walks[-1][0] == 1 or walks[-1][1] == count):
        count *= walks.pop()[0]
    if not walks:
        return slice(first, first + count)
    found = np.arange(first, first + count)
    for steps, step in reversed(walks):
        found = (np.arange(steps)[:, None] * step + found).reshape(-1)
    return found


def listed(indices: Indices) -> NDArray[np.int64]:
    """The same as an array."""
    return np.arange(indices.start, indices.stop) if isinstance(indices, slice) else indices


def region_words(config: Config) -> int:
    """Words of one region in a deck: those of all its banks."""
    return config.banks * config.bank_words // config.depth


def together(a: Range, b: Range, config: Config) -> float:
    """The likelihood that a word of one range of feature memory and a word of another lie in the same region."""
    size, both = region_words(config), 0
    for region in range(max(a[0], b[0]) // size, (min(a[1], b[1]) - 1) // size + 1):
        low, high = region * size, (region + 1) * size
        both += (min(a[1], high) - max(a[0], low)) * (min(b[1], high) - max(b[0], low))
    return both / ((a[1] - a[0]) * (b[1] - b[0]))
