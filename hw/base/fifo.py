"""A FIFO that is written without asking: its writer has counted the room (a credit) before the data set out.

It stands behind every pipeline that cannot be stopped: array, requantiser, residual add, vector lanes.
"""

from amaranth import Cat, Module, Signal, Value
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.slices import slices
from cnna.hw.base.tally import tally


class CreditFifo(wiring.Component):
    """Up to `depth` items, in order; an item can be seen at `o` two clocks after `push`. `o` comes from a register.

    `copy`: there are others that hold the same; they stay apart.

    The room that a writer may count on is `depth`; it gets one back whenever an item is taken at `o`.
    """

    def __init__(self, shape: ShapeLike, depth: int, copy: bool = False) -> None:
        assert depth & (depth - 1) == 0, f"a FIFO of {depth} items is not a power of two"
        self.shape, self.depth, self.copy = shape, depth, copy
        super().__init__({"push": In(1), "item": In(shape), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, found = Value.cast(self.item), []
        parts = slices(len(word))
        copy = COPY if self.copy or len(parts) > 1 else None
        for number, part in enumerate(parts):
            into = Signal(len(word[part]), name="into")
            out = Signal(len(word[part]), name="out", reset_less=True, attrs=COPY if self.copy else None)
            m.d.comb += into.eq(word[part])
            m.submodules[f"slice{number}"] = self._slice(into, out, number == 0, copy)
            found.append(out)
        m.d.comb += Value.cast(self.o.payload).eq(Cat(found))
        return m

    def _slice(self, word: Value, item: Signal, first: bool, copy: dict[str, str] | None) -> Module:
        """A part of the items, from `word` to `item`, with control registers of its own; the `first`'s are the FIFO's.

        `copy`: their attributes.
        """
        m = Module()
        m.submodules.memory = memory = Memory(shape=len(word), depth=self.depth, init=[])
        into, out = memory.write_port(), memory.read_port(domain="comb")
        valid, move = Signal(attrs=copy), Signal()
        newest, oldest = (Signal(into.addr.shape(), name=name, attrs=copy) for name in ("newest", "oldest"))
        filled = tally(m, self.depth, self.push, move, attrs=copy).some
        m.d.comb += [into.en.eq(self.push), into.data.eq(word), move.eq(filled & (self.o.ready | ~valid))]
        m.d.comb += [into.addr.eq(newest), out.addr.eq(oldest)]
        if first:
            m.d.comb += self.o.valid.eq(valid)
        with m.If(self.o.ready | ~valid):
            m.d.sync += [valid.eq(filled), item.eq(out.data)]
        m.d.sync += [newest.eq(newest + self.push), oldest.eq(oldest + move)]
        return m
