"""A FIFO that is written without asking: its writer has counted the room (a credit) before the data set out.

It stands behind every pipeline that cannot be stopped: array, requantiser, residual add, vector lanes.
"""

from amaranth import Module, Mux, Signal
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


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
        m.submodules.memory = memory = Memory(shape=self.shape, depth=self.depth, init=[])
        into, out = memory.write_port(), memory.read_port(domain="comb")
        count, filled, move = Signal(range(self.depth + 1)), Signal(), Signal()
        m.d.comb += [
            into.en.eq(self.push),
            into.data.eq(self.item),
            move.eq(filled & (self.o.ready | ~self.o.valid)),
        ]
        m.d.sync += into.addr.eq(into.addr + self.push)
        m.d.sync += [count.eq(count + self.push - move), filled.eq(Mux(move, count > 1, filled) | self.push)]
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(filled), self.o.payload.eq(out.data)]
        m.d.sync += out.addr.eq(out.addr + move)
        return m
