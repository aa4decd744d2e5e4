"""The vector engine's multipliers: for depthwise convolution, averages, and products of two maps.

Two pixels share a DSP48E2, and so one factor (see `dsp`). A depthwise step multiplies words by weights, an average by 1. A product
of two maps has another factor for each pixel, so the DSP multiplies twice: the step of tap 0 only keeps its words, the step of tap
1 multiplies the even pixel, and the clock after it the odd one. Nothing else needs that clock, because another step of tap 0, or
a pause between commands, comes then.

Zero points cost hardly anything. That of tap 1 goes into the bits of the pre-adder's ports that a packed pair leaves free. That of
tap 0 is subtracted by the adder that also chooses the factor.
"""

from enum import Enum
from typing import Any

from amaranth import Array, Cat, Const, Module, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.lanes import dsp

PRODUCT_BITS = 17  # of a product of two differences of int8
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
    the step before if that is ODD.
    """
    return data.StructLayout({"load": 1, "keep": 1, "factor": Factor, "zeros": zeros_layout()})


class PairProducts(wiring.Component):
    """The products of two neighbouring pixels for a few channels, `latency` clocks after their words.

    `multiply` comes a clock before `words` and `weight`. `held` are the words that were loaded last, a clock after they came.
    """

    latency = 1 + dsp.LATENCY

    def __init__(self, channels: int) -> None:
        self.channels = channels
        pair = data.ArrayLayout(data.ArrayLayout(unsigned(8), channels), 2)
        super().__init__(
            {
                "multiply": In(multiply_layout()),
                "words": In(pair),
                "weight": In(data.ArrayLayout(unsigned(8), channels)),
                "held": Out(pair),
                "products": Out(data.ArrayLayout(data.ArrayLayout(signed(PRODUCT_BITS), channels), 2)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, kept = (Signal(self.words.shape(), name=name, reset_less=True) for name in ("held", "kept"))
        step = Signal(multiply_layout(), name="multiply_copy", attrs=COPY)
        low, high = (Signal(signed(DIFFERENCE_BITS), name=f"{name}_copy", attrs=COPY) for name in ("low", "high"))
        m.d.sync += [step.eq(self.multiply), low.eq(step.zeros.low), high.eq(step.zeros.high)]
        with m.If(step.load):
            m.d.sync += held.eq(self.words)
        with m.If(step.keep):
            m.d.sync += kept.eq(self.words)
        m.d.comb += self.held.eq(held)
        for channel in range(self.channels):
            choice = Array([Const(1, signed(8)), *(of[channel].as_signed() for of in (self.weight, kept[0], kept[1]))])
            factor = Signal(signed(DIFFERENCE_BITS), name="factor", reset_less=True)
            m.d.sync += factor.eq(step.zeros.factor + choice[step.factor])
            self._multiply(m, channel, held, (low, high), factor)
        return m

    def _multiply(self, m: Module, channel: int, held: data.View, zeros: tuple[Signal, Signal], factor: Signal) -> None:
        """One DSP48E2. Its adder adds the preset that keeps the low product from going negative."""
        even, odd = held[0][channel], held[1][channel]
        low, high = zeros
        a = Cat(dsp.sign_extended(low, dsp.LANE_BITS), dsp.sign_extended(odd, dsp.A_BITS - dsp.LANE_BITS))
        d = Cat(even ^ 0x80, Const(0, dsp.LANE_BITS - 8), high)
        p = Signal(dsp.P_BITS, name="dsp_p")
        m.submodules[f"dsp_{channel}"] = dsp.dsp48e2(
            a=a,
            b=dsp.sign_extended(factor, dsp.B_BITS),
            d=d,
            rnd=dsp.LANE_PRESET,
            opmode=dsp.opmode(dsp.ADD_RND),
            p=p,
        )
        m.d.comb += [self.products[0][channel].eq(dsp.low_lane(p)), self.products[1][channel].eq(p[dsp.LANE_BITS :])]
