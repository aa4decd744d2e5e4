"""The vector engine's accumulators, one a pixel and channel: sums, maxima, or the operands of an elementwise operation.

They stand between `VectorIssue` and `VectorDrain` and cannot be stopped. `PixelProducts` multiplies for depthwise convolution: two
pixels share a weight, and so a DSP48E2 (see `dsp`). An average is a depthwise convolution with weights of 1.

`VectorSums` consists of `VectorTile`s, each a module by itself; attributes keep their copies of the step's bits apart.
"""

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed
from cnna.hw.lanes import dsp
from cnna.hw.vector.issue import DEPTHWISE, ELEMENTWISE, MAX, vector_feed_layout
from cnna.spec.config import Config

TILE_CHANNELS = 8  # channels in a tile, at most: a bit of the step drives 256 accumulator bits
PRODUCT_BITS = 16


def products_layout(config: Config) -> data.ArrayLayout:
    """Products by pixel, then channel."""
    return data.ArrayLayout(data.ArrayLayout(signed(PRODUCT_BITS), config.ci), config.pix)


class PixelProducts(wiring.Component):
    """`products[p][i] = words[p] byte i * weight byte i` (int8 each), `latency` clocks later.

    The weight comes in the same clock as its words. `o_valid` is `valid`, delayed like the products.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = dsp.LATENCY
        super().__init__(
            {
                "valid": In(1),
                "words": In(data.ArrayLayout(unsigned(8 * config.ci), config.pix)),
                "weight": In(8 * config.ci),
                "o_valid": Out(1),
                "products": Out(products_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [Value.cast(word) for word in self.words]
        for channel in range(self.config.ci):
            b = dsp.sign_extended(self.weight.word_select(channel, 8), dsp.B_BITS)
            for pixel in range(0, self.config.pix, 2):
                a, d = dsp.packed(words[pixel + 1].word_select(channel, 8), words[pixel].word_select(channel, 8))
                p = Signal(dsp.P_BITS, name="dsp_p")
                m.submodules[f"dsp_{pixel}_{channel}"] = dsp.dsp48e2(
                    a=a, b=b, d=d, rnd=dsp.LANE_PRESET, opmode=dsp.opmode(dsp.ADD_RND), p=p
                )
                m.d.comb += [
                    self.products[pixel][channel].eq(dsp.low_lane(p)),
                    self.products[pixel + 1][channel].eq(p[dsp.LANE_BITS :]),
                ]
        m.d.comb += self.o_valid.eq(delayed(m, self.valid, self.latency, cleared=True))
        return m


class VectorTile(wiring.Component):
    """The sums of a few channels of one pixel, as in `VectorSums`. `feed` comes a clock before its `words` and `products`."""

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
        """One channel's accumulator."""
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


def vector_sums_layout(config: Config) -> data.ArrayLayout:
    """By pixel, then channel: the int32 sum, or operand a in bits 0..7 and operand b in bits 8..15."""
    return data.ArrayLayout(data.ArrayLayout(signed(32), config.ci), config.pix)


class VectorSums(wiring.Component):
    """Each clock with `feed.valid` is a step of all pixels and channels. `weight` is the ring's word; only depthwise uses it.

    `latency` clocks after a group's last step, `o_valid` is 1 for one clock. `sums` holds until the next `o_valid`.
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
        feed = delayed(
            m, self.feed, products.latency, cleared=True
        )  # a clock before its products, because each tile registers a copy
        words = delayed(m, products.words, products.latency)
        m.d.comb += self.o_valid.eq(delayed(m, feed.valid & feed.last, 3, cleared=True))
        for pixel in range(self.config.pix):
            for start in range(0, self.config.ci, TILE_CHANNELS):
                channels = range(start, min(start + TILE_CHANNELS, self.config.ci))
                m.submodules[f"tile_{pixel}_{start}"] = tile = VectorTile(len(channels))
                m.d.comb += [
                    tile.feed.eq(feed),
                    tile.words.eq(Cat(words[pixel][8 * channel : 8 * channel + 8] for channel in channels)),
                    tile.products.eq(Cat(products.products[pixel][channel] for channel in channels)),
                    Cat(self.sums[pixel][channel] for channel in channels).eq(tile.sums),
                ]
        return m
