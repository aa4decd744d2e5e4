"""From a product to int8: `clamp(round_half_even(value * 2^-shift) + zero, low, high)`, five clocks.

The value is shifted right in three steps: by a multiple of 16, of 4, of 1. Each step keeps only the bits that may still
become the answer or its half bit, and notes whether a bit below them was 1 (`sticky`, which decides ties) and whether
those above them were not just sign (`over`: the answer is a clamp).

The clamp counts from `low`: what is less has a sign bit, and one comparison, with high - low, finds the rest.
"""

from typing import NamedTuple

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed

SHIFT_BITS = 6
LATENCY = 5  # clocks from `value` and `shift` to the answer
BASE_AT, CLAMP_AT = 3, 4  # clocks after the value's in which `base`, and `low` and `span`, are looked at
_QUOTIENT_BITS = 9  # signed; beyond them the answer is a clamp, whatever the zero point
_STEPS = (  # (unit, bits kept): a step shifts by 0 to 3 units, and keeps what the later ones need; bit 0 is the half bit
    (16, 1 + _QUOTIENT_BITS + 15),
    (4, 1 + _QUOTIENT_BITS + 3),
    (1, 1 + _QUOTIENT_BITS),
)


class Amount(NamedTuple):
    """A step's part of a shift: its units in Gray code, 2 bits, and whether they are more than 0, 1, 2.

    A choice by Gray code has no part in common with its neighbours': it takes one LUT6, where synthesis else finds LUT3s to share.
    """

    gray: Value
    beyond: Value


def amounts(m: Module, shift: Value) -> list[Amount]:
    """For each step, when it needs it, what lanes with the same shift share. `shift`, 1..63, comes a clock before the value."""
    found = []
    for number in range(len(_STEPS)):
        units = delayed(m, shift, number)[SHIFT_BITS - 2 * number - 2 :][:2]
        gray = Cat(units[0] ^ units[1], units[1])
        found.append(Amount(*(delayed(m, value, 1, attrs=COPY) for value in (gray, Cat(units.any(), units[1], units.all())))))
    return found


def to_int8(m: Module, value: Value, shift: list[Amount], base: Value, span: Value, low: Value) -> Signal:
    """A pipeline for one lane. value signed, at most 72 bits; `shift` from `amounts`; low int8; all as late as *_AT say.

    base is zero - low, signed 9 bits; span is high - low, 0..255.
    """
    layout = data.StructLayout({"bits": unsigned(len(value) + 1), "sticky": 1, "over": 1, "sign": 1})
    window = data.View(layout, Cat(Const(0, 1), value, Const(0, 2), value[-1]))
    for amount, (unit, kept) in zip(shift, _STEPS, strict=True):
        window = _step(m, window, amount, unit, kept)
    rounded, answer = Signal(signed(_QUOTIENT_BITS + 1), reset_less=True), Signal(signed(8), reset_less=True)
    half, quotient = window.bits[0], window.bits[1:].as_signed()
    total = Signal(rounded.shape())
    m.d.comb += total.eq(quotient + base + (half & (window.sticky | quotient[0])))
    # what is over becomes less than 0, or more than any span
    m.d.sync += rounded.eq(Cat(total[:8], Mux(window.over, Cat(~window.sign, window.sign), total[8:])))
    below, above = rounded[9], rounded[:9] > span
    m.d.sync += answer.eq(Mux(below, 0, Mux(above, span, rounded[:8])) + low)
    return answer


def _step(m: Module, window: data.View, amount: Amount, unit: int, kept: int) -> data.View:
    """The window shifted right by `amount` (0..3) units, `kept` bits of it, a clock later."""
    width = len(window.bits)

    def part(start: int, stop: int) -> Value:
        """Bits start..stop-1; above the top there is only sign."""
        bits = window.bits[min(start, width) : min(stop, width)]
        return Cat(bits, window.sign.replicate(stop - start - len(bits)))

    def found(gate: Value, bits: Value, size: int) -> Value:
        """Whether a bit is 1, in LUTs that take the gate, too."""
        return Cat(gate & bits[start : start + size].any() for start in range(0, len(bits), size)).any()

    def low(number: int) -> Value:
        return found(amount.beyond[number], part(unit * number, unit * (number + 1)), 5)

    def high(number: int) -> Value:
        bits = part(top + unit * number, top + unit * (number + 1))
        return found(~amount.beyond[number], bits ^ window.sign.replicate(len(bits)), 4)

    shifted = [part(start, start + kept) for start in range(0, 4 * unit, unit)]
    gray = amount.gray
    top = kept - 1  # of the bits kept; it must be sign too
    after = Signal(data.StructLayout({"bits": unsigned(kept), "sticky": 1, "over": 1, "sign": 1}), reset_less=True)
    m.d.sync += [
        after.bits.eq(Mux(gray[1], Mux(gray[0], shifted[2], shifted[3]), Mux(gray[0], shifted[1], shifted[0]))),
        after.sticky.eq(window.sticky | Cat(low(number) for number in range(3)).any()),
        after.over.eq(window.over | Cat(high(number) for number in range(3)).any()),
        after.sign.eq(window.sign),
    ]
    return after
