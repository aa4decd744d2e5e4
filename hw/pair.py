"""A queue of two in registers: cuts every path between a writer and a reader and still passes an item a clock.

The GO queues of the engines are Pairs (`writes.py`), and so is any stream that needs a register in both directions.
"""

from amaranth import Module, Signal
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Pair(wiring.Component):
    """Items come out in order, one clock late at the soonest; `i.ready` falls when two wait."""

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        second, full, moves = Signal(self.shape), Signal(), Signal()
        m.d.comb += [self.i.ready.eq(~full), moves.eq(self.o.ready | ~self.o.valid)]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(full | self.i.valid), full.eq(0)]
            with m.If(full):
                m.d.sync += self.o.payload.eq(second)
            with m.Else():
                m.d.sync += self.o.payload.eq(self.i.payload)
        with m.Elif(self.i.valid & ~full):
            m.d.sync += [second.eq(self.i.payload), full.eq(1)]
        return m
