"""A queue of two in registers: cuts every path between a writer and a reader and still passes an item a clock.

The GO queues of the engines are Pairs (`writes.py`), and so is any stream that needs a register in both directions.
"""

from amaranth import Cat, Module, Signal, Value
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.slices import slices


class Pair(wiring.Component):
    """Items come out in order, one clock late at the soonest; `i.ready` falls when two wait."""

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, found = Value.cast(self.i.payload), []
        for number, part in enumerate(slices(len(word))):
            first, second = (Signal(len(word[part]), name=name, reset_less=True) for name in ("first", "second"))
            valid, ready = (self.o.valid, self.i.ready) if number == 0 else (Signal(name="valid"), Signal(name="ready"))
            item = Signal(len(first), name="item")
            m.d.comb += item.eq(word[part])
            m.submodules[f"slice{number}"] = self._slice(item, first, second, valid, ready)
            found.append(first)
        m.d.comb += Value.cast(self.o.payload).eq(Cat(found))
        return m

    def _slice(self, word: Value, first: Signal, second: Signal, valid: Signal, ready: Signal) -> Module:
        """A part of the payload; `valid` and `ready` are its own, and the first slice's are the queue's."""
        m = Module()
        room = Signal(init=1)  # in `second`
        m.d.comb += ready.eq(room)
        with m.If(self.o.ready | ~valid):
            m.d.sync += [valid.eq(~room | self.i.valid), room.eq(1)]
            with m.If(room):
                m.d.sync += first.eq(word)
            with m.Else():
                m.d.sync += first.eq(second)
        with m.Elif(self.i.valid & room):
            m.d.sync += [second.eq(word), room.eq(0)]
        return m
