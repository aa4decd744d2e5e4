"""A piece of the convolution array: one pixel's sums for a few pairs of output channels, from the DSP48E2 cascades on.

`array.py` is made of equal tiles and brings each its bytes, skewed as the cascades want them. A tile is a module by itself, so that
synthesis has to look at one only; attributes keep its copies of the control bits apart from other tiles'.
"""

from amaranth import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.lanes import dsp
from cnna.spec.config import Config

PAIRS = 4  # of output channels in a tile, at most: 256 accumulator bits that a control bit drives
HIGH_BITS = 19  # of a cascade's high lane: 8 products of -128 by -128 are 2^17
LATENCY = 2 + dsp.LATENCY  # clocks from a cascade's last byte to `sums`


class Tile(wiring.Component):
    """`pairs` pairs' sums over a group, int32 by output channel.

    `activations` and `weights` (by channel, then output channel) stand at a cascade's channel i when its product meets the sum
    coming down PCIN: a clock later than channel i - 1. `valid`, `first` and `last` (only with `valid`) come dsp.LATENCY clocks
    after the cascade's last channel; `sums` has the group's from two clocks after `last` to two after the next one.
    """

    def __init__(self, config: Config, pairs: int) -> None:
        self._config, self._pairs = config, pairs
        super().__init__(
            {
                **dict.fromkeys(("valid", "first", "last"), In(1)),
                "activations": In(data.ArrayLayout(unsigned(8), config.ci)),
                "weights": In(data.ArrayLayout(data.ArrayLayout(unsigned(8), 2 * pairs), config.ci)),
                "sums": Out(data.ArrayLayout(signed(32), 2 * pairs)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid, last = (Signal(name=name, attrs=COPY) for name in ("valid_copy", "last_copy"))
        first = Signal(name="first_copy", reset_less=True, attrs=COPY)
        m.d.sync += [valid.eq(self.valid), first.eq(self.first), last.eq(self.last)]
        held = [self._accumulated(m, total, valid, first, last) for pair in range(self._pairs) for total in self._totals(m, pair)]
        m.d.comb += self.sums.as_value().eq(Cat(held))
        return m

    def _totals(self, m: Module, pair: int) -> tuple[Signal, Signal]:
        """The low and the high lane of a pair, summed over its cascades."""
        lows, highs = [], []
        for start in range(0, self._config.ci, self._config.cascade):
            pcin = None
            for channel in range(start, start + self._config.cascade):
                out = Signal(dsp.P_BITS, name="dsp_p")
                a, d = dsp.packed(self.weights[channel][2 * pair + 1], self.weights[channel][2 * pair])
                m.submodules[f"dsp_{pair}_{channel}"] = dsp.dsp48e2(
                    a=a,
                    b=dsp.sign_extended(self.activations[channel], dsp.B_BITS),
                    d=d,
                    pcin=pcin,
                    rnd=dsp.LANE_PRESET if pcin is None else 0,
                    opmode=dsp.opmode(dsp.ADD_RND if pcin is None else dsp.ADD_PCIN),
                    **{"p" if channel == start + self._config.cascade - 1 else "pcout": out},
                )
                pcin = out
            lows.append(dsp.low_lane(out))
            highs.append(out[dsp.LANE_BITS :][:HIGH_BITS].as_signed())
        low, high = (Signal(signed(HIGH_BITS + 1), reset_less=True) for _ in range(2))
        m.d.sync += [low.eq(sum(lows)), high.eq(sum(highs))]
        return low, high

    def _accumulated(self, m: Module, total: Value, valid: Signal, first: Signal, last: Signal) -> Signal:
        """One output channel's sum, from the clock after `last` on."""
        accumulator, held = (Signal(signed(32), reset_less=True) for _ in range(2))
        following = Signal(signed(32))
        m.d.comb += following.eq(Mux(first, 0, accumulator) + total)
        with m.If(valid):
            m.d.sync += accumulator.eq(following)
        with m.If(last):
            m.d.sync += held.eq(following)
        return held
