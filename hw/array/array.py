"""The convolution array: `pix * ci * co` multiply-accumulates a clock in `pix * co / 2 * ci` DSP48E2.

Two output channels share a DSP (see `dsp`), `min(8, ci)` input channels a cascade. It sits in `conv`, between the
words that `fetch` brings and the requantiser, and runs free: nothing holds it still.

Clock 0 is the one in which an input stands at the ports. The input is registered once, then channel i of a cascade
waits i clocks more, so that its product meets the sum coming down PCIN. `tile.py` has the cascades and what follows them.
"""

from amaranth import Cat, Module, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.array.tile import LATENCY, PAIRS, Tile
from cnna.hw.base.attributes import CHAIN
from cnna.hw.base.ports import sums_layout
from cnna.hw.base.timing import delayed
from cnna.spec.config import Config


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
        self.latency = config.cascade + LATENCY
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
        wait = self.latency - 2  # clocks to one before the totals: the tiles have copies of the control bits
        valid = delayed(m, self.valid, wait, cleared=True)
        first = delayed(m, self.first, wait, attrs=CHAIN)
        last = delayed(m, self.last & self.valid, wait, cleared=True)
        for pixel in range(config.pix):
            for start in range(0, config.co, 2 * PAIRS):
                pairs = min(PAIRS, (config.co - start) // 2)
                m.submodules[f"tile_{pixel}_{start}"] = tile = Tile(config, pairs)
                channels = slice(start, start + 2 * pairs)
                m.d.comb += [
                    *(tile.valid.eq(valid), tile.first.eq(first), tile.last.eq(last)),
                    tile.activations.eq(Cat(lane[pixel] for lane in activations)),
                    tile.weights.eq(Cat(Cat(lane[channels]) for lane in weights)),
                    Cat(self.sums[pixel][k] for k in range(start, start + 2 * pairs)).eq(tile.sums),
                ]
        m.d.sync += self.o_valid.eq(delayed(m, last, 1, cleared=True))
        return m

    def _skewed(self, m: Module, bytes_by_channel: list[list[Value]]) -> list[list[Value]]:
        """[channel][...] bytes, registered, and as many clocks later again as the channel's place in its cascade."""
        late: list[list[Value]] = [[] for _ in bytes_by_channel]
        for place in range(self.config.cascade):
            channels = range(place, self.config.ci, self.config.cascade)
            lane = delayed(m, Cat(byte for channel in channels for byte in bytes_by_channel[channel]), 1 + place, attrs=CHAIN)
            width = len(bytes_by_channel[place])
            for number, channel in enumerate(channels):
                late[channel] = [lane.word_select(number * width + index, 8) for index in range(width)]
        return late

    def _activations(self, m: Module) -> list[list[Value]]:
        """[channel][pixel] bytes."""
        words = [Value.cast(word) for word in self.words]
        return self._skewed(m, [[word.word_select(channel, 8) for word in words] for channel in range(self.config.ci)])

    def _weights(self, m: Module) -> list[list[Value]]:
        """[channel][output channel] bytes."""
        ci, co = self.config.ci, self.config.co
        return self._skewed(m, [[self.weights.word_select(k * ci + channel, 8) for k in range(co)] for channel in range(ci)])
