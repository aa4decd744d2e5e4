"""With depth 2: the deck of feature memory in which a walk's block lies. Blocks lie in both decks by turns.

A block in deck 1 lies at the same address, apart from the deck's bit, as the block before it. So a walk adds its step from block to
block only as it leaves deck 1.
"""

from enum import Enum

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.config import Config
from cnna.spec.regmap import DECK_BIT


class Decks(Enum):
    """Which of a walk's steps lead from deck to deck."""

    NONE = "none"  # there is one deck, or each read brings the words of both
    BLOCKS = "blocks"  # those from block to block within a unit, which is a number of whole sets
    UNITS = "units"  # those from unit to unit: a unit is a block


def decks_of(config: Config, decks: Decks) -> Decks:
    """`decks`, if the configuration has two."""
    return decks if config.depth == 2 else Decks.NONE


def on_deck(address: Value, deck: Value) -> Value:
    """An address of a walk, in that deck: sums of addresses count modulo 2^19."""
    return Cat(address[:DECK_BIT], deck)


class StepDeck(wiring.Component):
    """Says in which `deck` the words of a step lie. `starting`: in which those of the unit that starts lie.

    `first` is the deck of the walk's first block, and `across` whether the second of two operands lies in the other deck. `start`,
    `begin` and `step` are those of `TapLoops`; `row_end`, `block_end` and `group_end` say what the step ends.
    """

    def __init__(self, decks: Decks) -> None:
        self._decks = decks
        inputs = ("first", "across", "begin", "start", "step", "row_end", "block_end", "group_end")
        super().__init__({**dict.fromkeys(inputs, In(1)), "deck": Out(1), "starting": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        own = Signal()
        following = Signal()
        away = Signal()
        m.d.comb += self.deck.eq(own ^ away)
        if self._decks is Decks.BLOCKS:
            m.d.comb += self.starting.eq(self.first)
            with m.If(self.start):
                m.d.sync += own.eq(self.first)
            with m.Elif(self.step & self.block_end):
                m.d.sync += own.eq(Mux(self.group_end, self.first, ~own))
            return m
        m.d.comb += self.starting.eq(Mux(self.begin, self.first, following))
        with m.If(self.start):
            m.d.sync += [own.eq(self.starting), following.eq(~self.starting), away.eq(0)]
        with m.Elif(self.step):
            m.d.sync += away.eq((away ^ self.across) & ~self.row_end)
        return m
