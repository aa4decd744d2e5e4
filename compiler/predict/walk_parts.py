"""The banks that the requests of a walk need, part after part: for the simulation of the shared port, clock by clock.

Most walks differ in nothing but where they begin. So banks are found for a walk from address 0 on, and kept as `Relative`; those of
a walk elsewhere are the same, moved round. That holds where all words of a tap, or of a block that is written, lie in one region.
The stretches of a walk share its parts, and so do the plans that are compared for a network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_groups, taps_of
from cnna.compiler.lower.kernels import Range
from cnna.compiler.lower.layout import region_words
from cnna.compiler.predict.bank_clocks import SOURCE, Mask, Words, plane_fields, plane_words, source_addresses, source_words
from cnna.compiler.predict.request_parts import GroupParts, Parts
from cnna.spec.config import Config
from cnna.spec.program.decks import address_words, sets_on

Known = tuple[tuple[str, int], ...]  # fields by name
READ: Final = tuple(name for name in SOURCE if name not in ("src", "src_block", "b_block"))  # of these, `Relative` reads depend
KEPT: Final = 2048  # pieces and small walks whose parts are kept, relative and moved: some tens of MB
LARGE_GROUPS, KEPT_LARGE = 512, 8  # from when on a walk is large, and how many large ones are kept: each may take MB
PIECE_GROUPS: Final = 64  # of the array's writes, whose parts are made together
WORD_BITS = 64  # width of numpy's shifts


@dataclass(frozen=True, eq=False)
class Relative:
    """The parts of a walk from address 0 on, in region 0. masks: of all parts. each, starts: as of `Parts`.

    of_tap: the tap (or written block) of each part. lows, highs: by tap, the least and greatest word; low > high: there is none.
    """

    banks: int
    masks: NDArray[np.uint64]
    each: int
    starts: list[int]
    of_tap: NDArray[np.int64]
    lows: list[int]
    highs: list[int]

    @property
    def large(self) -> bool:
        """Whether few of this size are kept."""
        return len(self.masks) > LARGE_GROUPS * 8


def group_parts(fields: Fields, config: Config, block: int) -> GroupParts:
    """The parts of all groups of a vector command's block."""
    groups, depth = command_groups(fields, config), config.depth
    reads = None
    if not fields.get("b_flat"):  # of which one tap goes on from block to block in steps of its own
        known = tuple([(name, fields.get(name, 0)) for name in READ])
        found = small_reads if groups < LARGE_GROUPS else large_reads
        base = fields["src"] + sets_on(fields["src"], block, depth) * fields["src_block"]
        reads = _moved(found(known, config.pix, depth), base, config)
    if reads is None:
        known = tuple([(name, fields.get(name, 0)) for name in SOURCE])
        reads = (small_read_across if groups < LARGE_GROUPS else large_read_across)(known, config, block)
    writes = _plane("dst", fields, config, (block, block + 1), (0, groups), 2)
    return GroupParts(reads, writes, block, fields["blocks"])


def written_parts(prefix: str, fields: Fields, config: Config, blocks: Range, piece: int) -> Parts:
    """The parts of each request of `plane_words`, of PIECE_GROUPS groups of a walk."""
    low = piece * PIECE_GROUPS
    return _plane(prefix, fields, config, blocks, (low, min(low + PIECE_GROUPS, command_groups(fields, config))), 1)


def _plane(prefix: str, fields: Fields, config: Config, blocks: Range, groups: Range, joined: int) -> Parts:
    """The parts of some groups of a walk that is written. joined: how many requests belong together."""
    images, height, width, columns, base, x, row, image, step = (fields.get(name, 0) for name in plane_fields(prefix))
    first = groups[0] * config.pix
    left = min(images * height * width - first, (groups[1] - groups[0]) * config.pix)
    begin = first % width if first // width // height == (first + left - 1) // width // height else first % (width * height)
    rows = height if begin + left > width * height else 0
    sets = sets_on(base, blocks[0], config.depth)
    moved = tuple([(sets_on(base, block, config.depth) - sets) * step for block in range(*blocks)])
    found = small_plane if groups[1] - groups[0] < LARGE_GROUPS else large_plane
    relative = found(
        (width, rows, columns or width, x, row, image if rows else 0), moved, (begin, left), joined, config.pix, config.depth
    )
    base += sets * step + first * x + first // width * row + first // width // height * image
    if (parts := _moved(relative, base, config)) is not None:
        return parts
    known = tuple([(name, fields.get(name, 0)) for name in plane_fields(prefix)])
    return (small_across if groups[1] - groups[0] < LARGE_GROUPS else large_across)(prefix, known, config, blocks, groups, joined)


def _relative_reads(known: Known, pix: int, depth: int) -> Relative:
    """Those of the first block of a walk from address 0 on, of such fields."""
    fields = dict(known) | {"src": 0, "src_block": 0}
    config, taps = _with_pixels(pix, depth), taps_of(fields)
    addresses, asked = source_addresses(fields, config, 0, (0, command_groups(fields, config)))
    return _relative(addresses, asked, config, taps, taps)


def _relative_plane(shape: tuple[int, ...], moved: tuple[int, ...], span: Range, joined: int, pix: int, depth: int) -> Relative:
    """The writes of pixels whose first one goes to address 0.

    shape: pixels of a row, rows of an image (0: all lie in one), pixels of a row that are written, and the steps from pixel to
    pixel, row to row and image to image. moved: by block, where it lies behind the first one. span: the first pixel, and how many.
    """
    width, height, columns, x, row, image = shape
    config = _with_pixels(pix, depth)
    places = np.arange(-(-span[1] // pix) * pix)
    n = span[0] + places
    rows = n // width
    address = n * x + rows * row + (rows // height * image if height else 0)
    offsets = (address - address[0]).reshape(-1, 1, config.half) + np.array(moved).reshape(-1, 1)
    asked = ((places < span[1]) & (n % width < columns)).reshape(-1, 1, config.half)
    lanes = (-1, config.half)
    return _relative(offsets.reshape(lanes), np.broadcast_to(asked, offsets.shape).reshape(lanes), config, len(moved), joined)


def _relative(offsets: Words, asked: Mask, config: Config, taps: int, joined: int) -> Relative:
    """Of [requests, lanes] offsets from address 0, whose requests are of so many taps in turn. joined: requests of a group."""
    size = address_words(config.depth)
    offsets = (offsets + size // 2) % size - size // 2  # steps back are large numbers
    by_tap = (-1, taps, offsets.shape[1])
    lows = np.where(asked, offsets, size).reshape(by_tap).min((0, 2)).tolist()
    highs = np.where(asked, offsets, -size).reshape(by_tap).max((0, 2)).tolist()
    bank, of_tap = offsets & (config.banks - 1), np.arange(len(offsets)) % taps
    bits = np.where(asked, np.left_shift(np.uint64(1), bank.astype(np.uint64)), np.uint64(0))
    masks, twice = _unions(bits)
    if not twice.any():
        return Relative(config.banks, masks, joined, [], of_tap, lows, highs)
    turn = _turns(bank, asked)
    sets = [_unions(np.where(asked & (turn == number), bits, np.uint64(0)))[0] for number in range(int(turn[asked].max()) + 1)]
    masks = np.stack(sets, 1)
    there = masks != 0
    there[:, 0] = True
    counts = there.sum(1)
    groups = counts.reshape(-1, joined).sum(1)
    each = int(groups[0]) if (groups == groups[0]).all() else 0
    starts = [] if each else [0, *groups.cumsum().tolist()]
    return Relative(config.banks, masks[there], each, starts, np.repeat(of_tap, counts), lows, highs)


def _turns(bank: Words, asked: Mask) -> Words:
    """For each lane of [requests, lanes], how many lanes before it ask for the same bank."""
    turn = np.zeros_like(bank)
    for lane in range(1, bank.shape[1]):
        turn[:, lane] = ((bank[:, :lane] == bank[:, lane : lane + 1]) & asked[:, :lane]).sum(1)
    return turn


def _moved(relative: Relative, base: int, config: Config) -> Parts | None:
    """The parts of a walk from `base` on. None: the words of a tap lie in several regions."""
    size, modulus, regions = region_words(config), address_words(config.depth), list[int]()
    for low, high in zip(relative.lows, relative.highs, strict=True):
        region, place = divmod((base + low) % modulus, size) if low <= high else (0, 0)
        if region >= config.regions or place + high - low >= size:
            return None
        regions.append(region)
    found = large_turned if relative.large else small_turned
    return found(relative, base % config.banks, tuple(regions))


def _turned(relative: Relative, turn: int, regions: tuple[int, ...]) -> Parts:
    """The parts of a walk from that bank on, whose taps lie in these regions."""
    masks, banks = relative.masks, relative.banks
    if turn:
        masks = (masks << np.uint64(turn) | masks >> np.uint64(banks - turn)) & np.uint64((1 << banks) - 1)
    shifts = (np.array(regions) * banks)[relative.of_tap]
    if (max(regions) + 1) * banks > WORD_BITS:
        flat = [mask << shift for mask, shift in zip(masks.tolist(), shifts.tolist(), strict=True)]
    else:
        flat = (masks << shifts.astype(np.uint64)).tolist()
    return Parts(flat, relative.each, relative.starts)


def _across(prefix: str, known: Known, config: Config, blocks: Range, groups: Range, joined: int) -> Parts:
    """As `_plane`, where a block lies across the end of a region."""
    return Parts.of_lists(joined_parts(plane_words(prefix, dict(known), config, blocks, groups), config, joined))


def _read_across(known: Known, config: Config, block: int) -> Parts:
    """The reads of a block whose taps lie across the end of a region, or of which one goes on from block to block by itself."""
    fields = dict(known)
    words = source_words(fields, config, block, (0, command_groups(fields, config)))
    return Parts.of_lists(joined_parts(words, config, taps_of(fields)))


small_reads, large_reads = lru_cache(KEPT)(_relative_reads), lru_cache(KEPT_LARGE)(_relative_reads)
small_plane, large_plane = lru_cache(KEPT)(_relative_plane), lru_cache(KEPT_LARGE)(_relative_plane)
small_across, large_across = lru_cache(KEPT)(_across), lru_cache(KEPT_LARGE)(_across)
small_read_across, large_read_across = lru_cache(KEPT)(_read_across), lru_cache(KEPT_LARGE)(_read_across)
small_turned, large_turned = lru_cache(KEPT)(_turned), lru_cache(KEPT_LARGE)(_turned)


@lru_cache(8)
def _with_pixels(pix: int, depth: int) -> Config:
    """A configuration of so many pixels and decks. What is relative depends on nothing else, so all configurations share it."""
    return Config("walks", pix, ci=16, co=32, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256, depth=depth)


def joined_parts(words: Words, config: Config, requests: int = 1) -> list[list[int]]:
    """For each group of so many requests, the sets of banks that it uses one after another, as `request_parts` has them."""
    masks, several = _masks(words, config)
    found = [masks[low : low + requests] for low in range(0, len(masks), requests)]
    for group in {number // requests for number in several}:
        own = range(group * requests, min((group + 1) * requests, len(masks)))
        found[group] = [part for number in own for part in several.get(number, (masks[number],))]
    return found


def _masks(words: Words, config: Config) -> tuple[list[int], dict[int, list[int]]]:
    """The banks of each request as a mask; and by its number, `turns_of` each request that needs a bank several times."""
    banks, asked = config.banks, words >= 0
    bank = words & (banks - 1)  # there is a power of two of them
    place = words // region_words(config) * banks + bank
    masks: list[int] = []
    for low in range(0, config.regions * banks, WORD_BITS):
        here = asked & (place >= low) & (place < low + WORD_BITS) if config.regions * banks > WORD_BITS else asked
        bits = np.where(here, np.left_shift(np.uint64(1), (place - low).astype(np.uint64)), np.uint64(0))
        own = _unions(bits)[0].tolist()
        masks = [mask | part << low for mask, part in zip(masks, own, strict=True)] if low else own
    twice = np.flatnonzero(_unions(np.where(asked, 1 << bank, 0))[1])
    return masks, {n: turns_of([word for word in words[n].tolist() if word >= 0], config) for n in twice.tolist()}


def _unions(bits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bits that each row of [requests, lanes] has, and those that it has in several lanes. Lanes are few, requests many."""
    union, twice = np.zeros_like(bits[:, 0]), np.zeros_like(bits[:, 0])
    for lane in range(bits.shape[1]):
        twice |= union & bits[:, lane]
        union |= bits[:, lane]
    return union, twice


def turns_of(words: Sequence[int], config: Config) -> list[int]:
    """As `joined_parts`, for one request. Lanes with one bank number are served one after another, even in different regions."""
    turns: list[int] = []
    taken: dict[int, int] = {}
    banks, size = config.banks, region_words(config)
    for word in words:
        bank = word % banks
        turn = taken[bank] = taken.get(bank, -1) + 1
        if turn == len(turns):
            turns.append(0)
        turns[turn] |= 1 << word // size * banks + bank
    return turns
