"""The banks that the requests of a walk need, part after part: for the simulation of the shared port, clock by clock.

A walk's parts are made together and kept. The stretches of a walk share them, and so do the plans that are compared for a network,
which have most of their walks in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_groups, taps_of
from cnna.compiler.lower.kernels import Range
from cnna.compiler.lower.layout import region_words
from cnna.compiler.predict.bank_clocks import SOURCE, Words, plane_fields, plane_words, source_words
from cnna.spec.config import Config

Known = tuple[tuple[str, int], ...]  # fields by name
GROUP_FIELDS = tuple(dict.fromkeys((*SOURCE, *plane_fields("dst"), "blocks")))  # on which `group_parts` depends
KEPT_WALKS = 2048  # whose parts are kept, and as many pieces of the array's walks: some tens of MB
LARGE_GROUPS, KEPT_LARGE = 512, 4  # from when on a walk is large, and how many large ones are kept: each may take MB
PIECE_GROUPS = 64  # of the array's writes, whose parts are made together
WORD_BITS = 64  # width of numpy's shifts


@dataclass(frozen=True)
class GroupParts:
    """By group of a block, the parts that are read, and those that are written. block: its number, of `blocks` of the command."""

    reads: list[list[int]]
    writes: list[list[int]]
    block: int = 0
    blocks: int = 1

    def begins_command(self, group: int) -> bool:
        """Whether this is the first group of a command. Groups behind those of the block belong to the next blocks."""
        block, inside = divmod(group, len(self.writes))
        return not inside and not (self.block + block) % self.blocks


def group_parts(fields: Fields, config: Config, block: int) -> GroupParts:
    """The parts of all groups of a vector command's block."""
    known = tuple((name, fields.get(name, 0)) for name in GROUP_FIELDS)
    found = _small if command_groups(fields, config) < LARGE_GROUPS else _large
    return found(known, config, block)


def _group_parts(known: Known, config: Config, block: int) -> GroupParts:
    fields = dict(known)
    groups = command_groups(fields, config)
    reads = joined_parts(source_words(fields, config, block, (0, groups)), config, taps_of(fields))
    writes = joined_parts(plane_words("dst", fields, config, (block, block + 1), (0, groups)), config, 2)
    return GroupParts(reads, writes, block, fields["blocks"])


_small, _large = lru_cache(KEPT_WALKS)(_group_parts), lru_cache(KEPT_LARGE)(_group_parts)


def written_parts(prefix: str, fields: Fields, config: Config, blocks: Range, groups: Range) -> list[list[int]]:
    """The parts of each request of `plane_words`."""
    known = tuple((name, fields.get(name, 0)) for name in plane_fields(prefix))
    own, pieces = 2 * (blocks[1] - blocks[0]), range(groups[0] // PIECE_GROUPS, -(-groups[1] // PIECE_GROUPS))
    found = [part for piece in pieces for part in _written_piece(prefix, known, config, blocks, piece)]
    first = pieces.start * PIECE_GROUPS
    return found[own * (groups[0] - first) : own * (groups[1] - first)]


@lru_cache(KEPT_WALKS)
def _written_piece(prefix: str, known: Known, config: Config, blocks: Range, piece: int) -> list[list[int]]:
    """The parts of PIECE_GROUPS groups."""
    low = piece * PIECE_GROUPS
    return parts_of(plane_words(prefix, dict(known), config, blocks, (low, low + PIECE_GROUPS)), config)


def parts_of(words: Words, config: Config) -> list[list[int]]:
    """For each request, the sets of banks that it uses one after another. A set is a mask with a bit per bank of every region."""
    masks, several = _masks(words, config)
    found = [[mask] for mask in masks]
    for number, turns in several.items():
        found[number] = turns
    return found


def joined_parts(words: Words, config: Config, requests: int) -> list[list[int]]:
    """As `parts_of`, for so many requests together."""
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
    """As `parts_of`, for one request. Lanes with the same bank number are served one after another, even in different regions."""
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
