"""The convolution array: `pix * ci * co` multiply-accumulates a clock in `pix * co / 2 * ci` DSP48E2.

Two output channels share a DSP (see `dsp`), and `min(8, ci)` input channels share a cascade. The array stands in `conv`, between
the words that `fetch` brings and the requantiser. It cannot be stopped.

Clock 0 is the clock in which an input stands at the ports. The input is registered once. Then channel i of a cascade waits i
clocks more, so that its product meets the sum that comes down PCIN.

`Array` consists of equal `ArrayTile`s, each a module by itself, so that synthesis has to look at only one. A tile contains the
cascades and accumulators; attributes keep its copies of the control bits apart from those of other tiles.
"""

from collections.abc import Iterator
from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import CHAIN, COPY
from cnna.hw.base.ports import sums_layout
from cnna.hw.base.timing import delayed
from cnna.hw.lanes import dsp
from cnna.spec.config import Config

TILE_PAIRS = 4  # pairs of output channels in a tile, at most: a control bit drives 256 accumulator bits
HIGH_BITS = 19  # of a cascade's high lane: 8 products of -128 by -128 make 2^17
TILE_LATENCY = 2 + dsp.LATENCY  # clocks from a cascade's last byte to `sums`


def tile_members(config: Config, pairs: int) -> dict[str, wiring.Member]:
    """The ports of a tile."""
    return {
        **dict.fromkeys(("valid", "first", "last"), In(1)),
        "activations": In(data.ArrayLayout(unsigned(8), config.ci)),
        "weights": In(data.ArrayLayout(data.ArrayLayout(unsigned(8), 2 * pairs), config.ci)),
        "sums": Out(data.ArrayLayout(signed(32), 2 * pairs)),
    }


class ArrayTile(wiring.Component):
    """One pixel's sums over a group for `pairs` pairs of output channels, int32 by output channel.

    `activations` and `weights` (by channel, then output channel) come skewed: channel i of a cascade comes a clock after channel
    i - 1, when its product meets the sum that comes down PCIN. `valid`, `first` and `last` (only with `valid`) come dsp.LATENCY
    clocks after the cascade's last channel. `sums` holds the group's sums from two clocks after its `last` to two clocks after the
    next `last`.
    """

    def __init__(self, config: Config, pairs: int, more: dict[str, wiring.Member] | None = None) -> None:
        """more: ports beside those of `tile_members`."""
        self._config, self._pairs = config, pairs
        super().__init__({**tile_members(config, pairs), **(more or {})})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid, last = (Signal(name=name, attrs=COPY) for name in ("valid_copy", "last_copy"))
        first = Signal(name="first_copy", reset_less=True, attrs=COPY)
        m.d.sync += [valid.eq(self.valid), first.eq(self.first), last.eq(self.last)]
        self._prepare(m)
        held = [self._accumulated(m, total, valid, first, last) for pair in range(self._pairs) for total in self._totals(m, pair)]
        m.d.comb += self.sums.as_value().eq(Cat(held))
        return m

    def _prepare(self, m: Module) -> None:
        """Adds what all pairs share; nothing here."""

    def _totals(self, m: Module, pair: int) -> tuple[Signal, Signal]:
        """The low and the high lane of a pair, each summed over all cascades."""
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
        low = Signal(signed(HIGH_BITS + 1), reset_less=True)
        high = Signal(signed(HIGH_BITS + 1), reset_less=True)
        m.d.sync += [low.eq(sum(lows)), high.eq(sum(highs))]
        return low, high

    def _accumulated(self, m: Module, total: Value, valid: Signal, first: Signal, last: Signal) -> Signal:
        """One output channel's sum, held from the clock after `last` until the next `last`."""
        accumulator = Signal(signed(32), reset_less=True)
        held = Signal(signed(32), reset_less=True)
        following = Signal(signed(32))
        m.d.comb += following.eq(Mux(first, 0, accumulator) + total)
        with m.If(valid):
            m.d.sync += accumulator.eq(following)
        with m.If(last):
            m.d.sync += held.eq(following)
        return held


class Array(wiring.Component):
    """The sum of products of each pixel group.

    Each clock with `valid` is a step: word p is channels 0..ci-1 of pixel p, and byte `k * ci + i` of `weights` is the weight from
    input channel i to output channel k. `first` and `last` mark the first and the last step of a group, which may be the same
    step. Clocks without `valid` may lie anywhere. `latency` clocks after `last`, `o_valid` is 1 for one clock; `sums` holds the
    group's sums from then to the next `o_valid`.

    One case overflows: eight weights of an even output channel and their eight inputs in one cascade are all -128.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = config.cascade + TILE_LATENCY
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                "words": In(data.ArrayLayout(unsigned(8 * config.depth * config.ci), config.pix)),
                "weights": In(8 * config.ring_word_bytes),
                "o_valid": Out(1),
                "sums": Out(sums_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        activations, weights = self._activations(m), self._weights(m)
        wait = self.latency - 2  # clocks to one before the totals: each tile registers its own copies
        valid = delayed(m, self.valid, wait, cleared=True)
        first = delayed(m, self.first, wait, attrs=CHAIN)
        last = delayed(m, self.last & self.valid, wait, cleared=True)
        for tile, pixels, channels in self._tiles(m):
            m.d.comb += [
                *(tile.valid.eq(valid), tile.first.eq(first), tile.last.eq(last)),
                Cat(tile.activations).eq(Cat(lane[pixel] for pixel in pixels for lane in activations)),
                tile.weights.eq(Cat(Cat(lane[channels.start : channels.stop]) for lane in weights)),
                Cat(self.sums[pixel][k] for pixel in pixels for k in channels).eq(Cat(tile.sums)),
            ]
        m.d.sync += self.o_valid.eq(delayed(m, last, 1, cleared=True))
        return m

    def _tiles(self, m: Module) -> Iterator[tuple[Any, range, range]]:
        """Adds the tiles. Gives each with the pixels and the output channels that it computes."""
        for pixel in range(self.config.pix):
            for start in range(0, self.config.co, 2 * TILE_PAIRS):
                pairs = min(TILE_PAIRS, (self.config.co - start) // 2)
                m.submodules[f"tile_{pixel}_{start}"] = tile = ArrayTile(self.config, pairs)
                yield tile, range(pixel, pixel + 1), range(start, start + 2 * pairs)

    def _skewed(self, m: Module, bytes_by_channel: list[list[Value]]) -> list[list[Value]]:
        """[channel][...] bytes, registered, then delayed by the channel's place in its cascade."""
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
