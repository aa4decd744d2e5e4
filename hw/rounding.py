"""From a product to int8: `clamp(round_half_even(value * 2^-shift) + zero, low, high)`, five clocks.

The value is shifted right in three steps: by a multiple of 16, of 4, of 1. Each step keeps only the bits that may still
become the answer or its half bit, and notes whether a bit below them was 1 (`sticky`, which decides ties) and whether
those above them were not just sign (`over`: the answer is a clamp).
"""

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from cnna.hw.delay import delayed

SHIFT_BITS = 6
LATENCY = 5  # clocks from `value` and `shift` to the answer
ZERO_AT, CLAMP_AT = 3, 4  # clocks after the value's in which `zero`, and `low` and `high`, are looked at
_QUOTIENT_BITS = 9  # signed; beyond them the answer is a clamp, whatever the zero point
_STEPS = (  # (unit, bits kept): a step shifts by 0 to 3 units, and keeps what the later ones need; bit 0 is the half bit
    (16, 1 + _QUOTIENT_BITS + 15),
    (4, 1 + _QUOTIENT_BITS + 3),
    (1, 1 + _QUOTIENT_BITS),
)


def to_int8(m: Module, value: Value, shift: Value, zero: Value, low: Value, high: Value) -> Signal:
    """A pipeline for one lane. value signed, at most 72 bits; shift 1..55; zero, low, high int8, as late as *_AT say."""
    layout = data.StructLayout({"bits": unsigned(len(value) + 1), "sticky": 1, "over": 1, "sign": 1})
    window = data.View(layout, Cat(Const(0, 1), value, Const(0, 2), value[-1]))
    for number, (unit, kept) in enumerate(_STEPS):
        amount = delayed(m, shift, number)[SHIFT_BITS - 2 * number - 2 :][:2]
        window = _step(m, window, amount, unit, kept)
    rounded, answer = Signal(signed(_QUOTIENT_BITS + 2), reset_less=True), Signal(signed(8), reset_less=True)
    half, quotient = window.bits[0], window.bits[1:].as_signed()
    m.d.sync += rounded.eq(quotient + zero + (half & (window.sticky | quotient[0])))
    over, sign = delayed(m, window.over, 1), delayed(m, window.sign, 1)
    above, below = Mux(over, ~sign, rounded > high), Mux(over, sign, rounded < low)
    m.d.sync += answer.eq(Mux(above, high, Mux(below, low, rounded)))
    return answer


def _step(m: Module, window: data.View, amount: Value, unit: int, kept: int) -> data.View:
    """The window shifted right by `amount` (0..3) units, `kept` bits of it, a clock later."""
    width = len(window.bits)

    def part(start: int, stop: int) -> Value:
        """Bits start..stop-1; above the top there is only sign."""
        bits = window.bits[min(start, width) : min(stop, width)]
        return Cat(bits, window.sign.replicate(stop - start - len(bits)))

    def not_sign(start: int, stop: int) -> Value:
        return (part(start, stop) ^ window.sign.replicate(stop - start)).any()

    shifted = [part(unit * units, unit * units + kept) for units in range(4)]
    top = kept - 1  # of the bits kept; it must be sign too
    after = Signal(data.StructLayout({"bits": unsigned(kept), "sticky": 1, "over": 1, "sign": 1}), reset_less=True)
    m.d.sync += [
        after.bits.eq(Mux(amount[1], Mux(amount[0], shifted[3], shifted[2]), Mux(amount[0], shifted[1], shifted[0]))),
        after.sticky.eq(
            window.sticky | Cat((amount > units) & part(unit * units, unit * (units + 1)).any() for units in range(3)).any()
        ),
        after.over.eq(
            window.over
            | Cat((amount <= units) & not_sign(top + unit * units, top + unit * (units + 1)) for units in range(3)).any()
        ),
        after.sign.eq(window.sign),
    ]
    return after
