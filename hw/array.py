"""The convolution array: `pix * ci * co` multiply-accumulates a clock in `pix * co / 2 * ci` DSP48E2.

Two output channels share a DSP (see `dsp`), `min(8, ci)` input channels a cascade. It sits in `conv`, between the
words that `fetch` brings and the requantiser, and runs free: nothing holds it still.

Clock 0 is the one in which an input stands at the ports. The input is registered once, then channel i of a cascade
waits i clocks more, so that its product meets the sum coming down PCIN; cascades are summed, then accumulated.
"""

from amaranth import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw import dsp
from cnna.hw.config import Config
from cnna.hw.delay import delayed
from cnna.hw.ports import sums_layout

BUNDLE_PAIRS = 4  # pairs of accumulators that share one copy of their control bits: 256 loads a bit
HIGH_BITS = 19  # of a cascade's high lane: 8 products of -128 by -128 are 2^17


class Array(wiring.Component):
    """Sums of products of pixel groups.

    A step is a clock with `valid`: word p is channels 0..ci-1 of pixel p, the weight of (output channel k, input channel
    i) is byte `k * ci + i` of `weights`. `first` and `last` mark the first and the last step of a group (they may be
    the same); clocks without `valid` may lie anywhere. `latency` clocks after `last`, `o_valid` is 1 for a clock, and
    `sums` holds the group's sums from then to the next `o_valid`.

    One case fails: eight weights of an even output channel and their eight inputs in one cascade all -128.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = 2 + config.cascade + dsp.LATENCY
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                "words": In(data.ArrayLayout(unsigned(8 * config.ci), config.pix)),
                "weights": In(8 * config.ci * config.co),
                "o_valid": Out(1),
                "sums": Out(sums_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        activations, weights = self._activations(m), self._weights(m)
        totals = [
            self._totals(m, f"{pixel}_{pair}", activations[pixel], weights[pair])
            for pixel in range(config.pix)
            for pair in range(config.co // 2)
        ]
        wait = self.latency - 2  # clocks to one before the totals: their copies of the control bits are registers too
        valid = delayed(m, self.valid, wait, cleared=True)
        first = delayed(m, self.first, wait)
        last = delayed(m, self.last & self.valid, wait, cleared=True)
        held: list[Value] = []
        for start in range(0, len(totals), BUNDLE_PAIRS):
            copies = [self._copy(m, bit) for bit in (valid, first, last)]
            for low, high in totals[start : start + BUNDLE_PAIRS]:
                held += [self._accumulated(m, low, *copies), self._accumulated(m, high, *copies)]
        m.d.comb += self.sums.as_value().eq(Cat(held))
        m.d.sync += self.o_valid.eq(delayed(m, last, 1, cleared=True))
        return m

    def _skewed(self, m: Module, bytes_by_channel: list[list[Value]]) -> list[list[Value]]:
        """[channel][...] bytes, registered, and as many clocks later again as the channel's place in its cascade."""
        late: list[list[Value]] = [[] for _ in bytes_by_channel]
        for place in range(self.config.cascade):
            channels = range(place, self.config.ci, self.config.cascade)
            lane = delayed(m, Cat(byte for channel in channels for byte in bytes_by_channel[channel]), 1 + place)
            width = len(bytes_by_channel[place])
            for number, channel in enumerate(channels):
                late[channel] = [lane.word_select(number * width + index, 8) for index in range(width)]
        return late

    def _activations(self, m: Module) -> list[list[Value]]:
        """[pixel][channel] B ports."""
        words = [Value.cast(word) for word in self.words]
        late = self._skewed(m, [[word.word_select(channel, 8) for word in words] for channel in range(self.config.ci)])
        return [[dsp.sign_extended(lane[pixel], dsp.B_BITS) for lane in late] for pixel in range(self.config.pix)]

    def _weights(self, m: Module) -> list[list[tuple[Value, Value]]]:
        """[pair of output channels][channel] A and D ports."""
        ci, co = self.config.ci, self.config.co
        late = self._skewed(m, [[self.weights.word_select(k * ci + channel, 8) for k in range(co)] for channel in range(ci)])
        return [[dsp.packed(lane[pair + 1], lane[pair]) for lane in late] for pair in range(0, co, 2)]

    def _totals(self, m: Module, name: str, activations: list[Value], weights: list[tuple[Value, Value]]) -> tuple[Signal, Signal]:
        """The low and the high lane of one pixel and pair, summed over its cascades."""
        lows, highs = [], []
        for start in range(0, self.config.ci, self.config.cascade):
            pcin = None
            for channel in range(start, start + self.config.cascade):
                (a, d), out = weights[channel], Signal(dsp.P_BITS, name="dsp_p")
                m.submodules[f"dsp_{name}_{channel}"] = dsp.dsp48e2(
                    a=a,
                    b=activations[channel],
                    d=d,
                    pcin=pcin,
                    rnd=dsp.LANE_PRESET if pcin is None else 0,
                    opmode=dsp.opmode(dsp.ADD_RND if pcin is None else dsp.ADD_PCIN),
                    **{"p" if channel == start + self.config.cascade - 1 else "pcout": out},
                )
                pcin = out
            lows.append(dsp.low_lane(out))
            highs.append(out[dsp.LANE_BITS :][:HIGH_BITS].as_signed())
        low, high = (Signal(signed(HIGH_BITS + 1), reset_less=True) for _ in range(2))
        m.d.sync += [low.eq(sum(lows)), high.eq(sum(highs))]
        return low, high

    def _copy(self, m: Module, bit: Value) -> Signal:
        copy = Signal(attrs={"keep": "true"})  # or synthesis would merge the copies again
        m.d.sync += copy.eq(bit)
        return copy

    def _accumulated(self, m: Module, total: Signal, valid: Signal, first: Signal, last: Signal) -> Signal:
        """One output channel of one pixel: its sum, from the clock after `last` on."""
        accumulator, held = (Signal(signed(32), reset_less=True) for _ in range(2))
        following = Signal(signed(32))
        m.d.comb += following.eq(Mux(first, 0, accumulator) + total)
        with m.If(valid):
            m.d.sync += accumulator.eq(following)
        with m.If(last):
            m.d.sync += held.eq(following)
        return held
