"""The vector engine's multipliers: for depthwise convolution, averages, and products of two maps.

Two pixels share a DSP48E2, and so one factor (see `dsp`). A cascade of three adds the products of a step's taps; a lane of 18 bits
holds that sum. A depthwise step multiplies words by weights, an average by 1. A product of two maps has another factor for each
pixel, so the first DSP multiplies twice: the step of tap 0 only keeps its words, the step of tap 1 multiplies the even pixel, and
the clock after it the odd one. Nothing else needs that clock, because another step of tap 0, or a pause between commands, comes
then. The other two DSPs multiply zeros meanwhile, because such steps have no further taps.

Zero points cost hardly anything. That of tap 1 goes into the bits of the pre-adder's ports that a packed pair leaves free. That of
tap 0 is subtracted by the adder that also chooses the factor.
"""

from enum import Enum
from typing import Any

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY, PAIR
from cnna.hw.base.timing import delayed
from cnna.hw.lanes import dsp
from cnna.spec.config import TAPS

PRODUCT_BITS = 17  # of a product of two differences of int8, or of the sum of three of int8
DIFFERENCE_BITS = 9


class Factor(Enum):
    """What a step's words are multiplied by: 1, a word of the ring, or what tap 0 read for the even or the odd pixel."""

    ONE = 0
    WEIGHT = 1
    EVEN = 2
    ODD = 3


def zeros_layout() -> data.StructLayout:
    """The zero points of a command as `PairProducts` adds them, from `zeros_of`."""
    return data.StructLayout(dict.fromkeys(("low", "high", "factor"), signed(DIFFERENCE_BITS)))


def zeros_of(zeros: data.View, word: Value, factor: Value) -> list[Any]:
    """Sets `zeros` for the int8 zero points of words and of factors.

    A packed pair is `(odd << 18) + even`. The even pixel's byte is given as even + 128, without a sign, which leaves the bits above
    it free for `high`, and the odd pixel's byte leaves those below it for `low`. Together they add -(zero << 18) - zero - 128.
    """
    low = -128 - word
    return [zeros.low.eq(low), zeros.high.eq(-word - (low < 0)), zeros.factor.eq(-factor)]


def multiply_layout() -> data.StructLayout:
    """What to do with the words and weights of the next clock.

    load: multiply these words. keep: they are factors for the words to come. factor: a `Factor`, for the words of this step, or of
    the step before if that is ODD. least: pick the least tap, not the greatest. pads: what stands for each tap that does not count.
    """
    pads = data.ArrayLayout(signed(8), TAPS)
    return data.StructLayout({"load": 1, "keep": 1, "factor": Factor, "zeros": zeros_layout(), "least": 1, "pads": pads})


class PairProducts(wiring.Component):
    """The sums of products of two neighbouring pixels for a few channels, `latency` clocks after their words.

    `multiply` and `counts` come a clock before `words` and `weights`. Tap t of the even pixel is word t, and of the odd pixel word
    t + 1, where `counts` says so. `picked` is the greatest or least tap of the words that were loaded last, `pick_latency` clocks
    after they came.
    """

    latency = 1 + dsp.LATENCY + TAPS - 1
    pick_latency = TAPS

    def __init__(self, channels: int) -> None:
        self.channels = channels
        word = data.ArrayLayout(unsigned(8), channels)
        super().__init__(
            {
                "multiply": In(multiply_layout()),
                "counts": In(data.ArrayLayout(unsigned(TAPS), 2)),
                "words": In(data.ArrayLayout(word, TAPS + 1)),
                "weights": In(data.ArrayLayout(word, TAPS)),
                "picked": Out(data.ArrayLayout(word, 2)),
                "products": Out(data.ArrayLayout(data.ArrayLayout(signed(PRODUCT_BITS), channels), 2)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pair = data.ArrayLayout(data.ArrayLayout(unsigned(8), self.channels), 2)
        taps = [Signal(pair, name=f"tap{tap}", reset_less=True) for tap in range(TAPS)]
        kept = Signal(pair, reset_less=True)
        step = Signal(multiply_layout(), name="multiply_copy", attrs=COPY)
        inside = Signal(self.counts.shape(), name="counts_copy", attrs=COPY)
        low, high = (Signal(signed(DIFFERENCE_BITS), name=f"{name}_copy", attrs=COPY) for name in ("low", "high"))
        m.d.sync += [step.eq(self.multiply), inside.eq(self.counts), low.eq(step.zeros.low), high.eq(step.zeros.high)]
        counts = [[inside[odd][tap] for odd in (0, 1)] for tap in range(TAPS)]
        with m.If(step.load):
            for tap, odd, channel in ((t, o, c) for t in range(TAPS) for o in (0, 1) for c in range(self.channels)):
                value = Mux(counts[tap][odd], self.words[tap + odd][channel], step.pads[tap])
                m.d.sync += taps[tap][odd][channel].eq(value)
        with m.If(step.keep):
            for odd, channel in ((o, c) for o in (0, 1) for c in range(self.channels)):
                m.d.sync += kept[odd][channel].eq(Mux(counts[0][odd], self.words[odd][channel], step.pads[0]))
        self._pick(m, taps, delayed(m, step.least, 1))
        late = [delayed(m, words, tap) for tap, words in enumerate(taps)]
        for channel in range(self.channels):
            choice = Array([Const(1, signed(8)), *(of[channel].as_signed() for of in (self.weights[0], kept[0], kept[1]))])
            factor = Signal(signed(DIFFERENCE_BITS), name="factor", reset_less=True)
            m.d.sync += factor.eq(step.zeros.factor + choice[step.factor])
            factors = [factor]
            for tap in range(1, TAPS):
                other = Signal(signed(8), name=f"factor{tap}", reset_less=True)
                m.d.sync += other.eq(Mux(step.factor == Factor.WEIGHT, self.weights[tap][channel].as_signed(), 1))
                factors.append(delayed(m, other, tap, attrs=PAIR if tap == 2 else None))
            self._multiply(m, channel, late, (low, high), factors)
        return m

    def _pick(self, m: Module, taps: list[Signal], least: Signal) -> None:
        """The greatest or least of the taps, one more a clock."""
        best = taps[0]
        for tap in range(1, TAPS):
            other, lesser = (delayed(m, value, tap - 1) for value in (taps[tap], least))
            better = Signal(taps[0].shape(), name=f"best{tap}", reset_less=True)
            for odd, channel in ((o, c) for o in (0, 1) for c in range(self.channels)):
                a, b = best[odd][channel], other[odd][channel]
                m.d.sync += better[odd][channel].eq(Mux((b.as_signed() > a.as_signed()) ^ lesser, b, a))
            best = better
        m.d.comb += self.picked.eq(best)

    def _multiply(self, m: Module, channel: int, taps: list[Any], zeros: tuple[Signal, Signal], factors: list[Any]) -> None:
        """A cascade of three DSP48E2. The first adds zero points, and the preset that keeps the low sum from going negative."""
        even, odd = taps[0][0][channel], taps[0][1][channel]
        low, high = zeros
        a = Cat(dsp.sign_extended(low, dsp.LANE_BITS), dsp.sign_extended(odd, dsp.A_BITS - dsp.LANE_BITS))
        d = Cat(even ^ 0x80, Const(0, dsp.LANE_BITS - 8), high)
        ports: dict[str, Any] = {"a": a, "d": d, "rnd": dsp.LANE_PRESET, "opmode": dsp.opmode(dsp.ADD_RND)}
        p, cascade = Signal(dsp.P_BITS, name="dsp_p"), [Signal(dsp.P_BITS, name=f"cascade{tap}") for tap in range(TAPS - 1)]
        for tap in range(TAPS):
            if tap:
                high_part, low_part = dsp.packed(taps[tap][1][channel], taps[tap][0][channel])
                ports = {"a": high_part, "d": low_part, "pcin": cascade[tap - 1], "opmode": dsp.opmode(dsp.ADD_PCIN)}
            ports |= {"p": p} if tap == TAPS - 1 else {"pcout": cascade[tap]}
            m.submodules[f"dsp_{channel}_{tap}"] = dsp.dsp48e2(b=dsp.sign_extended(factors[tap], dsp.B_BITS), **ports)
        m.d.comb += [self.products[0][channel].eq(dsp.low_lane(p)), self.products[1][channel].eq(p[dsp.LANE_BITS :])]
