"""From a product to int8: `clamp(round_half_even(value * 2^-shift) + zero, low, high)` in five clocks.

Three steps shift the value right: by a multiple of 16, then of 4, then of 1. Each step keeps only the bits that may still become
the answer or its half bit. It notes in `sticky` whether a bit below them was 1, which decides ties, and in `over` whether the
bits above them were more than copies of the sign, which makes the answer a clamp.

The clamp works on the distance from `low`: a negative distance is below, and one comparison with high - low finds what is above.
"""

from typing import NamedTuple

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed

SHIFT_BITS = 6
LATENCY = 5  # clocks from `value` and `shift` to the answer
BASE_AT, CLAMP_AT = 3, 4  # clocks after the value in which `base` is used, and `low` and `span`
_QUOTIENT_BITS = 9  # signed; a larger quotient is clamped whatever the zero point is
_STEPS = (  # (unit, bits kept): a step shifts by 0 to 3 units and keeps what later steps need; bit 0 is the half bit
    (16, 1 + _QUOTIENT_BITS + 15),
    (4, 1 + _QUOTIENT_BITS + 3),
    (1, 1 + _QUOTIENT_BITS),
)


class Amount(NamedTuple):
    """One step's part of a shift: its number of units in Gray code (2 bits), and whether that number exceeds 0, 1 and 2.

    A multiplexer with a Gray-coded select fits into one LUT6. With a binary select, synthesis shares parts between neighbouring
    bits and uses more LUTs.
    """

    gray: Value
    beyond: Value


def amounts(m: Module, shift: Value) -> list[Amount]:
    """The Amount of each step, delayed to its clock; lanes with the same shift share it.

    `shift` (1..63) comes a clock before the value.
    """
    found = []
    for number in range(len(_STEPS)):
        units = delayed(m, shift, number)[SHIFT_BITS - 2 * number - 2 :][:2]
        gray = Cat(units[0] ^ units[1], units[1])
        found.append(Amount(*(delayed(m, value, 1, attrs=COPY) for value in (gray, Cat(units.any(), units[1], units.all())))))
    return found


def to_int8(m: Module, value: Value, shift: list[Amount], base: Value, span: Value, low: Value) -> Signal:
    """The pipeline of one lane. value is signed, at most 72 bits; shift comes from `amounts`; low is int8.

    base is zero - low, signed 9 bits; span is high - low, 0..255. BASE_AT and CLAMP_AT say when base, low and span come.
    """
    layout = data.StructLayout({"bits": unsigned(len(value) + 1), "sticky": 1, "over": 1, "sign": 1})
    window = data.View(layout, Cat(Const(0, 1), value, Const(0, 2), value[-1]))
    for amount, (unit, kept) in zip(shift, _STEPS, strict=True):
        window = _step(m, window, amount, unit, kept)
    rounded = Signal(signed(_QUOTIENT_BITS + 1), reset_less=True)
    answer = Signal(signed(8), reset_less=True)
    half, quotient = window.bits[0], window.bits[1:].as_signed()
    total = Signal(rounded.shape())
    m.d.comb += total.eq(quotient + base + (half & (window.sticky | quotient[0])))
    # an `over` becomes a distance below 0 or above any span
    m.d.sync += rounded.eq(Cat(total[:8], Mux(window.over, Cat(~window.sign, window.sign), total[8:])))
    below, above = rounded[9], rounded[:9] > span
    m.d.sync += answer.eq(Mux(below, 0, Mux(above, span, rounded[:8])) + low)
    return answer


def _step(m: Module, window: data.View, amount: Amount, unit: int, kept: int) -> data.View:
    """The window shifted right by `amount` (0..3) units, a clock later; `kept` of its bits remain."""
    width = len(window.bits)

    def part(start: int, stop: int) -> Value:
        """Bits start..stop-1; bits above the top are the sign."""
        bits = window.bits[min(start, width) : min(stop, width)]
        return Cat(bits, window.sign.replicate(stop - start - len(bits)))

    def found(gate: Value, bits: Value, size: int) -> Value:
        """Whether a bit is 1 while `gate` is; each LUT takes the gate and `size` bits."""
        return Cat(gate & bits[start : start + size].any() for start in range(0, len(bits), size)).any()

    def low(number: int) -> Value:
        return found(amount.beyond[number], part(unit * number, unit * (number + 1)), 5)

    def high(number: int) -> Value:
        bits = part(top + unit * number, top + unit * (number + 1))
        return found(~amount.beyond[number], bits ^ window.sign.replicate(len(bits)), 4)

    shifted = [part(start, start + kept) for start in range(0, 4 * unit, unit)]
    gray = amount.gray
    top = kept - 1  # the highest bit kept; it must equal the sign too
    after = Signal(data.StructLayout({"bits": unsigned(kept), "sticky": 1, "over": 1, "sign": 1}), reset_less=True)
    m.d.sync += [
        after.bits.eq(Mux(gray[1], Mux(gray[0], shifted[2], shifted[3]), Mux(gray[0], shifted[1], shifted[0]))),
        after.sticky.eq(window.sticky | Cat(low(number) for number in range(3)).any()),
        after.over.eq(window.over | Cat(high(number) for number in range(3)).any()),
        after.sign.eq(window.sign),
    ]
    return after
