"""A FIFO that is written without asking: its writer has counted the room (a credit) before the data set out.

It stands behind every pipeline that cannot be stopped: array, requantiser, residual add, vector lanes.
"""

from amaranth import Cat, Module, Signal, Value
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.slices import slices
from cnna.hw.tally import tally


class CreditFifo(wiring.Component):
    """Up to `depth` items, in order; an item can be seen at `o` two clocks after `push`. `o` comes from a register.

    The room that a writer may count on is `depth`; it gets one back whenever an item is taken at `o`.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        assert depth & (depth - 1) == 0, f"a FIFO of {depth} items is not a power of two"
        self.shape, self.depth = shape, depth
        super().__init__({"push": In(1), "item": In(shape), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, found = Value.cast(self.item), []
        for number, part in enumerate(slices(len(word))):
            into, out = Signal(len(word[part]), name="into"), Signal(len(word[part]), name="out", reset_less=True)
            valid = Signal(name="valid") if number else self.o.valid
            m.d.comb += into.eq(word[part])
            m.submodules[f"slice{number}"] = self._slice(into, out, valid)
            found.append(out)
        m.d.comb += Value.cast(self.o.payload).eq(Cat(found))
        return m

    def _slice(self, word: Value, item: Signal, valid: Signal) -> Module:
        """A part of the items, from `word` to `item`; `valid` is its own, and the first slice's is the FIFO's."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=len(word), depth=self.depth, init=[])
        into, out = memory.write_port(), memory.read_port(domain="comb")
        move = Signal()
        filled = tally(m, self.depth, self.push, move).some
        m.d.comb += [into.en.eq(self.push), into.data.eq(word), move.eq(filled & (self.o.ready | ~valid))]
        m.d.sync += into.addr.eq(into.addr + self.push)
        with m.If(self.o.ready | ~valid):
            m.d.sync += [valid.eq(filled), item.eq(out.data)]
        m.d.sync += out.addr.eq(out.addr + move)
        return m
