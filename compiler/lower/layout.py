"""Where words lie: a map, or the part of it that a tile works on, in feature memory and in DDR.

Feature memory: image by image, in an image set by set (`spec.decks`), in a set row by row, `pitch` words apart. Sizes and ranges of
it are those of a deck. DDR: block by block in place of set by set, rows at multiples of 16 bytes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Map, Range
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.decks import located

SEGMENT_ALIGN = 4096  # bytes; also of maps in the workspace, so that bursts start at a page
STREAM_ALIGN = 64  # bytes, of weight streams


def align(value: int, step: int) -> int:
    """The least multiple of `step` that is not below `value`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class Place:
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


def whole_place(map_: Map, base: int = 0) -> Place:
    """All of a map in feature memory."""
    block_words = map_.pitch * map_.height
    image_words = block_words * sets_of((0, map_.blocks), map_.depth)
    return Place(base, map_.pitch, block_words, image_words, map_.images[0], depth=map_.depth)


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


def feature_indices(place: Place, box: Box, deck_words: int) -> NDArray[np.int64]:
    """The number of every word of a box, flat. Words of deck 1 count from `deck_words` on."""
    rows, columns = slice(*box.rows, box.step[0]), slice(*box.columns, box.step[1])
    image, block, row, column = np.ogrid[slice(*box.images), slice(*box.blocks), rows, columns]
    words = (image - place.image) * place.image_words + (block // place.depth - place.block // place.depth) * place.block_words
    words = words + block % place.depth * deck_words
    return (words + (row - place.row) * place.pitch + column + place.base).reshape(-1)


def ddr_beats(place: DdrPlace, box: Box) -> NDArray[np.int64]:
    """Every 16-byte beat of a box's rows (whole rows), as indices into the segment, flat."""
    image, block, row = np.ogrid[slice(*box.images), slice(*box.blocks), slice(*box.rows)]
    steps = (image - place.image) * place.image_bytes + block * place.block_bytes + row * place.row_bytes
    first = place.offset + steps
    return (first[..., None] // BEAT_BYTES + np.arange(place.row_bytes // BEAT_BYTES)).reshape(-1)


def region_words(config: Config) -> int:
    """Words of one region in a deck: those of all its banks."""
    return config.banks * config.bank_words // config.depth


def together(a: Range, b: Range, config: Config) -> float:
    """The likelihood that a word of one range of feature memory and a word of another lie in the same region."""
    size, both = region_words(config), 0
    for edge in range(min(a[0], b[0]) // size * size, min(a[1], b[1]), size):
        inside = [max(0, min(high, edge + size) - max(low, edge)) for low, high in (a, b)]
        both += inside[0] * inside[1]
    return both / ((a[1] - a[0]) * (b[1] - b[0]))
