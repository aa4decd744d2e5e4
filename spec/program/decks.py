"""Where channel blocks lie in feature memory. With depth 2 it has two decks, and the blocks of a tensor lie in them by turns.

A *set* is the blocks of a tensor that lie at one address: blocks 2k and 2k + 1, in deck 0 and deck 1. The top bit of an address is
its deck, and the bits below it count modulo 2^19. A walk from block to block changes the deck with each step, and adds its step as
it leaves deck 1. With depth 1 each block is a set, and addresses count modulo 2^20.

All functions take integers as well as arrays of them.
"""

from typing import Any

from cnna.spec.regmap import ADDRESS_BITS, DECK_BIT

Number = Any  # an integer, or an array of them


def address_words(depth: int) -> int:
    """How many addresses a deck may have: modulo this number, addresses and steps are added."""
    return 1 << (ADDRESS_BITS if depth == 1 else DECK_BIT)


def sets_on(base: Number, blocks: Number, depth: int) -> Number:
    """The sets by which block number `blocks` of a walk lies behind its first block, which is at the address `base`."""
    return blocks if depth == 1 else ((base >> DECK_BIT & 1) + blocks) >> 1


def deck_of(base: Number, blocks: Number, depth: int) -> Number:
    """The deck of block number `blocks` of a walk from `base` on."""
    return 0 * blocks if depth == 1 else ((base >> DECK_BIT & 1) + blocks) & 1


def located(words: Number, deck: Number, depth: int) -> Number:
    """The address in a deck of a sum of addresses and steps."""
    if depth == 1:
        return words & ((1 << ADDRESS_BITS) - 1)
    return (words & ((1 << DECK_BIT) - 1)) | (deck << DECK_BIT)


def word_number(address: Number, deck_words: int, depth: int) -> Number:
    """The number of an address among all words of feature memory, those of deck 0 first; `deck_words` or more if there is none."""
    if depth == 1:
        return address
    low = address & ((1 << DECK_BIT) - 1)
    return low + (address >> DECK_BIT) * deck_words + (low >= deck_words) * (2 * deck_words)
