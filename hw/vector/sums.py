"""The vector engine's accumulators, one a pixel and channel: sums, maxima, or the operands of an elementwise operation.

Between `vector_issue` and `vector_drain`; free-running. Products come from `depthwise`; an average is one with weights of 1.
`tile.py` has the accumulators.
"""

from amaranth import Cat, Const, Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.timing import delayed
from cnna.hw.vector.depthwise import PixelProducts
from cnna.hw.vector.issue import DEPTHWISE, vector_feed_layout
from cnna.hw.vector.tile import CHANNELS, VectorTile
from cnna.spec.config import Config


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
        feed = delayed(m, self.feed, products.latency, cleared=True)  # a clock before its products: each tile has a copy
        words = delayed(m, products.words, products.latency)
        m.d.comb += self.o_valid.eq(delayed(m, feed.valid & feed.last, 3, cleared=True))
        for pixel in range(self.config.pix):
            for start in range(0, self.config.ci, CHANNELS):
                channels = range(start, min(start + CHANNELS, self.config.ci))
                m.submodules[f"tile_{pixel}_{start}"] = tile = VectorTile(len(channels))
                m.d.comb += [
                    tile.feed.eq(feed),
                    tile.words.eq(Cat(words[pixel][8 * channel : 8 * channel + 8] for channel in channels)),
                    tile.products.eq(Cat(products.products[pixel][channel] for channel in channels)),
                    Cat(self.sums[pixel][channel] for channel in channels).eq(tile.sums),
                ]
        return m
