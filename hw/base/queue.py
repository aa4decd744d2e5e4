"""A FIFO between two registers: its `room`, `o.valid` and `o.payload` are registers, so that no path leads through it.

The queues of load, store, weights, sequencer and bus masters. Its memory has a register behind it and may be block RAM,
unlike that of `fifo.CreditFifo`.
"""

from amaranth import Module, Signal
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.tally import tally


class Queue(wiring.Component):
    """Items in order; one can be seen at `o` two clocks after `push`. `depth` of them may wait behind that.

    `room` is set while more than `spare` items more fit: a writer that pushes only after it has seen `room` may do so up to
    `spare` clocks after it fell. A writer that counts the room itself has `depth` and need not look.
    `late` puts a register more before `o` (a third clock), for what leads into logic from a block RAM.
    """

    def __init__(self, shape: ShapeLike, depth: int, spare: int = 0, late: bool = False) -> None:
        assert depth & (depth - 1) == 0, f"a queue of {depth} items is not a power of two"
        self.shape, self.depth, self.spare, self.late = shape, depth, spare, late
        super().__init__({"push": In(1), "item": In(shape), "room": Out(1, init=1), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = memory = Memory(shape=self.shape, depth=self.depth, init=[])
        into, out = memory.write_port(), memory.read_port()
        moves, read, free = Signal(), Signal(), Signal()  # a row is read; it has been, and waits; the row behind it may come
        stored = tally(m, self.depth, self.push, moves, self.depth - self.spare)
        m.d.comb += [
            self.room.eq(stored.room),
            into.en.eq(self.push),
            into.data.eq(self.item),
            moves.eq(stored.some & free),
            out.en.eq(moves),
        ]
        m.d.sync += [into.addr.eq(into.addr + self.push), out.addr.eq(out.addr + moves)]
        with m.If(free):
            m.d.sync += read.eq(stored.some)
        if self.late:
            m.d.comb += free.eq(self.o.ready | ~self.o.valid | ~read)
            with m.If(self.o.ready | ~self.o.valid):
                m.d.sync += [self.o.valid.eq(read), self.o.payload.eq(out.data)]
        else:
            m.d.comb += [free.eq(self.o.ready | ~read), self.o.valid.eq(read), self.o.payload.eq(out.data)]
        return m
