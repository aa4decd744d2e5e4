"""Where an engine stands in a ring: words that it will use again are held, the others freed as they are used."""

from amaranth import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import RingRead


class RingCursor(wiring.Component):
    """Uses the ring's words one after another.

    `take` uses the word under the cursor, which must be `there`; it is on the ring's `data` RING_LATENCY clocks later. `free`
    with it frees the word, and the cursor must stand on the ring's oldest word for that; else `rewind` with it brings the
    cursor back to the oldest word.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"ring": Out(RingRead(width)), "take": In(1), "free": In(1), "rewind": In(1), "there": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        level, offset = self.ring.level, self.ring.offset
        m.d.comb += [self.ring.enable.eq(self.take), self.ring.pop.eq(self.take & self.free)]
        with m.If(self.take):
            m.d.sync += offset.eq(Mux(self.free | self.rewind, 0, offset + 1))
            m.d.sync += self.there.eq(Mux(self.free, level > 1, self.rewind | (offset + 1 < level)))
        with m.Else():
            m.d.sync += self.there.eq(offset < level)
        return m
