"""Where words lie: a map, or the part of it that a tile works on, in feature memory and in DDR.

Feature memory: image by image, in an image set by set (`decks`), in a set row by row, `pitch` words apart. Sizes and ranges of
it are those of a deck. DDR: block by block in place of set by set, rows at multiples of 16 bytes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Map, Range
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.program.decks import located

Walk = tuple[int, int]  # how many steps, and how far apart
Runs = tuple[int, tuple[Walk, ...], int]  # the first number, walks to where runs begin (the slowest first), numbers of a run
Words = tuple[Runs, ...]  # one in each deck

SEGMENT_ALIGN = 4096  # bytes; also of maps in the workspace, so that bursts start at a page
STREAM_ALIGN = 64  # bytes, of weight streams


def align(value: int, step: int) -> int:
    """The least multiple of `step` that is not below `value`."""
    return -(-value // step) * step


class FeaturePlace(NamedTuple):
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


class DdrPlace(NamedTuple):
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


class Box(NamedTuple):
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


def feature_words(place: FeaturePlace, box: Box, deck_words: int) -> Words:
    """The numbers of the words of a box. Words of deck 1 count from `deck_words` on."""
    (image, last), (block, last_block), (row, last_row), (column, last_column) = box.images, box.blocks, box.rows, box.columns
    down, right = box.step
    first = place.base + (image - place.image) * place.image_words + (row - place.row) * place.pitch + column
    images, rows = (last - image, place.image_words), (-(-(last_row - row) // down), place.pitch * down)
    columns = (-(-(last_column - column) // right), right)
    depth, words = place.depth, place.block_words
    if depth == 1:
        return (_joined(first + (block - place.block) * words, (images, (last_block - block, words), rows, columns)),)
    found = []
    for start in range(block, min(block + depth, last_block)):  # the first block in each deck
        begin = first + (start // depth - place.block // depth) * words + start % depth * deck_words
        found.append(_joined(begin, (images, (len(range(start, last_block, depth)), words), rows, columns)))
    return tuple(found)


def ddr_beats(place: DdrPlace, box: Box) -> Words:
    """The numbers of the 16-byte beats of a box's rows (whole rows) in the segment."""
    first = place.address(box.images[0], box.blocks[0], box.rows[0])
    steps = (place.image_bytes, place.block_bytes, place.row_bytes)
    walks = ((high - low, step // BEAT_BYTES) for (low, high), step in zip((box.images, box.blocks, box.rows), steps, strict=True))
    return (_joined(first // BEAT_BYTES, (*walks, (place.row_bytes // BEAT_BYTES, 1))),)


def _joined(first: int, walks: tuple[Walk, ...]) -> Runs:
    """`first` plus all sums of steps, with as few walks as there may be."""
    count, outer = 1, len(walks)
    for steps, step in reversed(walks):
        if steps != 1 and step != count:
            break
        outer -= 1
        count *= steps
    return first, walks[:outer], count


def starts_of(runs: Runs) -> NDArray[np.int64]:
    """Where each of the runs begins."""
    first, walks, _ = runs
    starts = np.array([first])
    for steps, step in reversed(walks):
        starts = (np.arange(steps)[:, None] * step + starts).reshape(-1)
    return starts


def listed(words: Words) -> NDArray[np.int64]:
    """Every number, deck by deck."""
    return np.concatenate([(starts_of(runs)[:, None] + np.arange(runs[2])).reshape(-1) for runs in words])


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
