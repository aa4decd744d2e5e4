"""The vector engine's accumulators, one a pixel and channel: sums, maxima, or the operands of an elementwise operation.

Between `vector_issue` and `vector_drain`; free-running. Products come from `depthwise`; an average is one with weights of 1.
"""

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.config import Config
from cnna.hw.delay import delayed
from cnna.hw.depthwise import PixelProducts
from cnna.hw.vector_issue import DEPTHWISE, ELEMENTWISE, MAX, vector_feed_layout


def vector_sums_layout(config: Config) -> data.ArrayLayout:
    """By pixel, then channel: the int32 sum, or operand a in bits 0..7 and b in bits 8..15."""
    return data.ArrayLayout(data.ArrayLayout(signed(32), config.ci), config.pix)


class VectorSums(wiring.Component):
    """A clock with `feed.valid` is a step of all pixels and channels; `weight` is the ring's word, of use to depthwise alone.

    `latency` clocks after a group's last step `o_valid` is 1 for a clock, and `sums` holds until the next `o_valid`.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.products = PixelProducts(config)
        self.latency = 1 + self.products.latency + 2
        super().__init__(
            {
                "feed": In(vector_feed_layout()),
                "words": In(data.ArrayLayout(8 * config.ci, config.pix)),
                "weight": In(8 * config.ci),
                "o_valid": Out(1),
                "sums": Out(vector_sums_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.products = products = self.products
        ones = Const(sum(1 << 8 * channel for channel in range(self.config.ci)), 8 * self.config.ci)
        m.d.sync += [
            products.valid.eq(self.feed.valid),
            products.words.eq(self.words),
            products.weight.eq(Mux(self.feed.op == DEPTHWISE, self.weight, ones)),
        ]
        feed = delayed(m, self.feed, 1 + products.latency, cleared=True)
        words = delayed(m, products.words, products.latency)
        ended = Signal()
        m.d.sync += [ended.eq(feed.valid & feed.last), self.o_valid.eq(ended)]
        for pixel in range(self.config.pix):
            for channel in range(self.config.ci):
                x = words[pixel][8 * channel : 8 * channel + 8].as_signed()
                held = self._accumulated(m, feed, x, products.products[pixel][channel])
                with m.If(ended):
                    m.d.sync += self.sums[pixel][channel].eq(held)
        return m

    def _accumulated(self, m: Module, feed: data.View, x: Value, product: Value) -> Signal:
        """One accumulator."""
        held, greater = Signal(signed(32)), Signal()
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
