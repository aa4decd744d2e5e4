"""The array of depth 2: its DSP48E2 run at `aclk2x` (`base.timing.FAST`) and take both channel blocks of a set in each clock.

Half clocks are counted from 0, the first half of the clock in which registers of `aclk` first show the operands of a cascade's
last channel. "At h" says that a register shows the first block's value in half h; the second block's follows in h + 1.

| half | |
|---|---|
| 0 | registers of `aclk`: both blocks' operands |
| 1 | FAST: one block's by half, for all tiles (`HalfChoice`) |
| 2 | FAST: a copy for a tile, or for two |
| 3, 4, 5 | A, B and D; pre-adder; M |
| 6 | P: the first block's sum |
| 7 | P: the second block's products and the first block's sum |
| 8 | registers of `aclk`: P |

A channel's operands come half a clock after those of the channel before it in the cascade. In the second half, the last DSP adds
its own P to PCIN. So a lane holds the sum of two blocks' products, which takes 19 bits, and one capture a clock is enough.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.array.array import TILE_PAIRS, Array, ArrayTile, tile_members
from cnna.hw.base.attributes import CHAIN, COPY
from cnna.hw.base.slices import slices
from cnna.hw.base.timing import FAST, delayed, in_half
from cnna.hw.lanes import dsp
from cnna.spec.config import Config

LANE_BITS = 19  # of a packed pair's low lane: 16 products of int8 by -127..127
HIGH_BITS = 20  # of a cascade's high lane: 16 products of -128 by -128 make 2^18
PRESET = 1 << (LANE_BITS - 2)  # of each half's sum: the two together make the low lane's
TILE_PIXELS = 2  # that share copies of weights
CAPTURED = 4  # clocks from half 0 to the registers with P
ADDS = 2  # clocks from half 0 to OPMODE at the inputs of last DSPs: the half before P takes the second block
CHOICE_BITS = 64  # that a copy of the half chooses


class HalfChoice(wiring.Component):
    """`first` and then `second`, each for half a clock, in registers of FAST; both come from registers of `aclk`.

    `first` shows in the second half of the clock in which it stands here. With `late`, it shows half a clock later, and `second`
    must come a clock after `first`. `valid`, from a register of `aclk`, says that a word counts; it comes a clock before `first`,
    with `late` together with it. Where it is 0, `o` stays with `second`, so that nothing behind it switches while the array waits.
    """

    def __init__(self, bits: int, late: bool) -> None:
        self._late = late
        super().__init__({"valid": In(1), "first": In(bits), "second": In(bits), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, shown = in_half(m, second=self._late, when=self.valid), Signal(self.o.shape(), reset_less=True)
        m.d[FAST] += shown.eq(Mux(first, self.first, self.second))
        m.d.comb += self.o.eq(shown)
        return m


class FastTile(ArrayTile):
    """As `ArrayTile`, with operands from registers of FAST. `activations` get copies here; `weights` are a copy for some tiles.

    `adds`, a register of `aclk`, is `valid` as it is ADDS clocks behind half 0. Without it, P does not add itself: it would switch
    in each half, even where the products stand still.
    """

    def __init__(self, config: Config, pairs: int) -> None:
        super().__init__(config, pairs, {"adds": In(1)})

    def _prepare(self, m: Module) -> None:
        shape = unsigned(len(self.activations.as_value()))
        copy = Signal(shape, name="activations_copy", reset_less=True, attrs=COPY)
        m.d[FAST] += copy.eq(self.activations.as_value())
        self._copies = [copy.word_select(channel, 8) for channel in range(self._config.ci)]
        self._second = in_half(m, second=True, when=self.adds)

    def _totals(self, m: Module, pair: int) -> tuple[Signal, Signal]:
        lows, highs = [], []
        config = self._config
        for start in range(0, config.ci, config.cascade):
            pcin = None
            for channel in range(start, start + config.cascade):
                out, ends = Signal(dsp.P_BITS, name="dsp_p"), channel == start + config.cascade - 1
                a, d = dsp.packed(self.weights[channel][2 * pair + 1], self.weights[channel][2 * pair], LANE_BITS)
                m.submodules[f"dsp_{pair}_{channel}"] = dsp.dsp48e2(
                    a=a,
                    b=dsp.sign_extended(self._copies[channel], dsp.B_BITS),
                    d=d,
                    pcin=pcin,
                    rnd=PRESET if pcin is None else 0,
                    opmode=self._opmode(pcin is None, ends),
                    domain=FAST,
                    **{"p" if ends else "pcout": out},
                )
                pcin = out
            captured = Signal(LANE_BITS + HIGH_BITS, name="captured", reset_less=True)
            m.d.sync += captured.eq(out)
            lows.append(dsp.low_lane(captured, LANE_BITS))
            highs.append(captured[LANE_BITS:].as_signed())
        low, high = (Signal(Value.cast(sum(highs)).shape(), name=name, reset_less=True) for name in ("low", "high"))
        m.d.sync += [low.eq(sum(lows)), high.eq(sum(highs))]
        return low, high

    def _opmode(self, begins: bool, ends: bool) -> Value:
        """OPMODE of a DSP that begins or ends a cascade. At its input the second half says what P is in the half after the next."""
        if begins:
            return dsp.opmode(dsp.ADD_RND)
        alone, both = (dsp.opmode(dsp.ADD_PCIN, *more).value for more in ((), (dsp.ALSO_P,)))
        if not ends:
            return Const(alone, 9)
        return Cat(Const(alone >> bit & 1, 1) if not (alone ^ both) >> bit & 1 else self._second for bit in range(9))


class SharedWeights(wiring.Component):
    """Tiles of some pixels for the same `pairs` of output channels, with one copy of their weights."""

    def __init__(self, config: Config, pairs: int) -> None:
        self._config, self._pairs = config, pairs
        members = tile_members(config, pairs)
        own = {name: members[name].array(TILE_PIXELS) for name in ("activations", "sums")}
        super().__init__({"adds": In(1), **{name: members[name] for name in ("valid", "first", "last", "weights")}, **own})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        copy = Signal(self.weights.shape(), name="weights_copy", reset_less=True, attrs=COPY)
        m.d[FAST] += copy.eq(self.weights)
        adds = delayed(m, self.adds, 1, attrs=COPY)
        for pixel in range(TILE_PIXELS):
            m.submodules[f"pixel{pixel}"] = tile = FastTile(self._config, self._pairs)
            m.d.comb += [
                *(tile.valid.eq(self.valid), tile.first.eq(self.first), tile.last.eq(self.last), tile.adds.eq(adds)),
                *(tile.activations.eq(self.activations[pixel]), tile.weights.eq(copy), self.sums[pixel].eq(tile.sums)),
            ]
        return m


class FastArray(Array):
    """As `Array`, for both blocks of a set: a word is channels 0..ci-1 of the first block, then those of the second.

    Bytes `k * ci + i` of `weights` are for the first block; the second block's follow behind `co * ci` bytes. Two cases overflow: a
    weight of -128 of an odd output channel beside a negative one of the even channel below it, and 16 products of -128 by -128 in
    the two blocks of a cascade of an even channel.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._half_0 = 1 + config.cascade // 2  # clocks from the inputs
        self.latency = self._half_0 + CAPTURED + 2  # the totals and the sums

    def _tiles(self, m: Module) -> Iterator[tuple[Any, range, range]]:
        adds = delayed(m, self.valid, self._half_0 + ADDS - 1)  # a tile's copy is the last register
        for start in range(0, self.config.co, 2 * TILE_PAIRS):
            pairs = min(TILE_PAIRS, (self.config.co - start) // 2)
            for pixel in range(0, self.config.pix, TILE_PIXELS):
                m.submodules[f"tile_{pixel}_{start}"] = tile = SharedWeights(self.config, pairs)
                m.d.comb += tile.adds.eq(adds)
                yield tile, range(pixel, pixel + TILE_PIXELS), range(start, start + 2 * pairs)

    def _in_halves(self, m: Module, name: str, blocks: Sequence[list[list[Value]]]) -> list[list[Value]]:
        """[channel][...] bytes of both blocks as registers of FAST, in the halves that their places in a cascade take."""
        found = []
        for channel, (first, second) in enumerate(zip(*blocks, strict=True)):
            place = channel % self.config.cascade
            later, late = (place + 1) // 2, place % 2 == 0
            valid = delayed(m, self.valid, later + late, attrs=COPY)
            one = delayed(m, Cat(first), 1 + later, attrs=CHAIN)
            other = delayed(m, Cat(second), 1 + later + late, attrs=CHAIN)
            shown = []
            for number, part in enumerate(slices(len(one), CHOICE_BITS)):
                m.submodules[f"{name}{channel}_{number}"] = choice = HalfChoice(part.stop - part.start, late)
                m.d.comb += [choice.valid.eq(valid), choice.first.eq(one[part]), choice.second.eq(other[part])]
                shown.append(choice.o)
            whole = Cat(shown)
            found.append([whole.word_select(index, 8) for index in range(len(first))])
        return found

    def _activations(self, m: Module) -> list[list[Value]]:
        words, ci = [Value.cast(word) for word in self.words], self.config.ci
        channels = [[[word.word_select(block * ci + i, 8) for word in words] for i in range(ci)] for block in range(2)]
        return self._in_halves(m, "activations", channels)

    def _weights(self, m: Module) -> list[list[Value]]:
        ci, co = self.config.ci, self.config.co
        weights = [
            [[self.weights.word_select((block * co + k) * ci + i, 8) for k in range(co)] for i in range(ci)] for block in range(2)
        ]
        return self._in_halves(m, "weights", weights)


def array_of(config: Config) -> Array:
    """The array of a configuration."""
    return FastArray(config) if config.depth == 2 else Array(config)
