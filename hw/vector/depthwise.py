"""Products of `pix` pixels with one weight word, channel by channel: the multipliers of depthwise convolution.

Two pixels share a weight, and so a DSP48E2 (see `dsp`). It sits in `vector`, between the words that `fetch` brings and the
accumulators, and runs free.
"""

from amaranth import Module, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.timing import delayed
from cnna.hw.lanes import dsp
from cnna.spec.config import Config

PRODUCT_BITS = 16


def products_layout(config: Config) -> data.ArrayLayout:
    """Products by pixel, then channel."""
    return data.ArrayLayout(data.ArrayLayout(signed(PRODUCT_BITS), config.ci), config.pix)


class PixelProducts(wiring.Component):
    """`products[p][i] = words[p] byte i * weight byte i` (int8 each), `latency` clocks later.

    The weight stands at the port in the clock of its words. `o_valid` is `valid`, as late as the products.
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
