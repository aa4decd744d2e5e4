"""A queue of two in registers: cuts every path between a writer and a reader and still passes an item a clock.

The GO queues of the engines are Pairs (`writes.py`), and so is any stream that needs a register in both directions.
"""

from amaranth import Cat, Module, Signal, Value
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.free import Free
from cnna.hw.base.slices import slices


class Pair(wiring.Component):
    """Items come out in order, one clock late at the soonest; `i.ready` falls when two wait."""

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, found = Value.cast(self.i.payload), []
        parts = slices(len(word))
        for number, part in enumerate(parts):
            first, second = (Signal(len(word[part]), name=name, reset_less=True) for name in ("first", "second"))
            item = Signal(len(first), name="item")
            m.d.comb += item.eq(word[part])
            m.submodules[f"slice{number}"] = self._slice(item, first, second, number, len(parts))
            found.append(first)
        m.d.comb += Value.cast(self.o.payload).eq(Cat(found))
        return m

    def _slice(self, word: Value, first: Signal, second: Signal, number: int, count: int) -> Module:
        """A part of the payload, one of `count`; its `valid` and `room` are its own, and the first slice's are the queue's."""
        m = Module()
        copy = COPY if count > 1 else None
        valid, room, free = Signal(attrs=copy), Signal(init=1, attrs=copy), Signal()  # in `first`; room in `second`, in `first`
        if number == 0:
            m.d.comb += [self.o.valid.eq(valid), self.i.ready.eq(room)]
        if count > 1:  # or `o.ready` would load the bits of all
            m.submodules.out = out = Free()
            m.d.comb += [out.valid.eq(valid), out.ready.eq(self.o.ready), free.eq(out.free)]
        else:
            m.d.comb += free.eq(self.o.ready | ~valid)
        with m.If(free):
            m.d.sync += [valid.eq(~room | self.i.valid), room.eq(1)]
            with m.If(room):
                m.d.sync += first.eq(word)
            with m.Else():
                m.d.sync += first.eq(second)
        with m.Elif(self.i.valid & room):
            m.d.sync += [second.eq(word), room.eq(0)]
        return m
