"""A piece of the vector engine's accumulators: a few channels of a pixel, with their own copies of the step's bits.

`sums.py` is made of these. A module by itself; attributes keep the copies apart from other tiles'.
"""

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.vector.depthwise import PRODUCT_BITS
from cnna.hw.vector.issue import ELEMENTWISE, MAX, vector_feed_layout

CHANNELS = 8  # in a tile, at most: 256 accumulator bits that a bit of the step drives


class VectorTile(wiring.Component):
    """Sums as `VectorSums` has them. `feed` comes a clock before its `words` and `products`."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        super().__init__(
            {
                "feed": In(vector_feed_layout()),
                "words": In(data.ArrayLayout(unsigned(8), channels)),
                "products": In(data.ArrayLayout(signed(PRODUCT_BITS), channels)),
                "sums": Out(data.ArrayLayout(signed(32), channels)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        feed, ended = Signal(vector_feed_layout(), name="feed_copy", attrs=COPY), Signal(name="ended", attrs=COPY)
        sums = Signal(self.sums.shape(), reset_less=True)
        m.d.sync += [feed.eq(self.feed), ended.eq(feed.valid & feed.last)]
        held = [
            self._accumulated(m, feed, self.words[channel].as_signed(), self.products[channel]) for channel in range(self.channels)
        ]
        with m.If(ended):
            m.d.sync += sums.eq(Cat(held))
        m.d.comb += self.sums.eq(sums)
        return m

    def _accumulated(self, m: Module, feed: data.View, x: Value, product: Value) -> Signal:
        """One accumulator."""
        held, greater = Signal(signed(32), reset_less=True), Signal()
        a = held[:8].as_signed()
        m.d.comb += greater.eq(x > a)
        with m.If(feed.valid), m.Switch(feed.op):
            with m.Case(MAX):
                m.d.sync += held.eq(Cat(Mux(feed.first | greater, x, a)[:8], Const(0, 24)))
            with m.Case(ELEMENTWISE):
                m.d.sync += held.eq(Cat(Mux(feed.first, x, a)[:8], Mux(feed.first, 0, x)[:8], Const(0, 16)))
            with m.Default():
                m.d.sync += held.eq(Mux(feed.first, 0, held) + product)
        return held
