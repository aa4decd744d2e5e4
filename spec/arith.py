"""The numerics. Reference, emulator, RTL tests and compiler call these functions; no other code rounds.

It needs only numpy. `docs/numerics.md` explains the choices.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cnna.spec.config import PARAM_BITS

MULT_BITS = 24  # of a normalised multiplier
SHIFT_MIN, SHIFT_MAX = 1, 55  # that the compiler makes
SHIFT_LIMIT = 1 << PARAM_BITS["shift"]  # a parameter word holds shifts below this one, and the RTL computes with all of them
ADD_OFFSET_BITS = 32  # of the constant beside the two products of an add, signed

Int8 = NDArray[np.int8]


def round_shift(product: ArrayLike, shift: ArrayLike) -> NDArray[np.int64]:
    """product / 2**shift, rounded half to even; int64, any shape that broadcasts. product is below 2**62 and not below -2**62.

    ValueError: a shift outside 0..63.
    """
    product, shift = np.asarray(product, np.int64), np.asarray(shift, np.int64)
    if shift.min() < 0 or shift.max() >= SHIFT_LIMIT:
        raise ValueError(f"shifts {shift.min()}..{shift.max()} are not within 0..{SHIFT_LIMIT - 1}")
    odd = (product >> shift) & np.minimum(shift, 1)  # a shift of 0 leaves the product
    half_below = ((np.int64(1) << shift) - 1) >> 1
    return (product + half_below + odd) >> shift


def requantise(
    acc: ArrayLike, mult: ArrayLike, shift: ArrayLike, zero: ArrayLike, low: ArrayLike = -128, high: ArrayLike = 127
) -> Int8:
    """clamp(round_half_even(acc * mult / 2**shift) + zero, low, high), the rounding of ONNX QLinearConv.

    acc int32[..., C], bias included; mult [C], 0 or within 2**23..2**24 - 1; shift [C]; zero int8. Returns int8[..., C].
    """
    product = np.asarray(acc, np.int64) * np.asarray(mult, np.int64)
    return np.clip(round_shift(product, shift) + np.asarray(zero, np.int64), low, high).astype(np.int8)


def combine(
    a: ArrayLike,
    factor_a: ArrayLike,
    b: ArrayLike,
    factor_b: ArrayLike,
    offset: ArrayLike,
    shift: ArrayLike,
    zero: ArrayLike,
    low: ArrayLike = -128,
    high: ArrayLike = 127,
) -> Int8:
    """clamp(round_half_even((a * factor_a + b * factor_b + offset) / 2**shift) + zero, low, high).

    The elementwise lanes: residual add, stand-alone add, affine and requantised copy (factor_b = 0). a, b int8 with
    their zero points still in them (`offset` takes them out), factors 26 bit signed, offset int32.
    """
    total = (
        np.asarray(a, np.int64) * np.asarray(factor_a, np.int64)
        + np.asarray(b, np.int64) * np.asarray(factor_b, np.int64)
        + np.asarray(offset, np.int64)
    )
    return np.clip(round_shift(total, shift) + np.asarray(zero, np.int64), low, high).astype(np.int8)


def look_up(table: ArrayLike, x: ArrayLike) -> Int8:
    """table[the byte of x]: entry 0 is the result for 0, entry 127 that for 127, entry 128 that for -128, entry 255 that for -1.

    table int8[256]; x int8[...]. Returns int8[...].
    """
    return np.asarray(table, np.int8)[np.asarray(x, np.int8).view(np.uint8)]


def multiplier(ratio: float) -> tuple[int, int]:
    """(mult, shift) with mult * 2**-shift nearest to `ratio`; mult is normalised to 24 bits.

    If the ratio is too small for shift 55, mult loses bits; if none is left, the result is (0, 1). ValueError: the ratio is
    negative, not finite, or too large for shift 1.
    """
    if not math.isfinite(ratio) or ratio < 0:
        raise ValueError(f"a scale ratio of {ratio} cannot be a multiplier")
    if ratio == 0:
        return 0, SHIFT_MIN
    mantissa, exponent = math.frexp(ratio)  # mantissa in [0.5, 1)
    shift = MULT_BITS - exponent
    mult = round(math.ldexp(mantissa, MULT_BITS))
    if mult == 1 << MULT_BITS:
        mult, shift = mult >> 1, shift - 1
    if shift > SHIFT_MAX:
        mult, shift = round(math.ldexp(ratio, SHIFT_MAX)), SHIFT_MAX
    if shift < SHIFT_MIN:
        raise ValueError(
            f"a scale ratio of {ratio:g} is above the greatest multiplier, 2^23: what it adds up is that much greater than its "
            "result; bring its weights and limits nearer to each other"
        )
    return (mult, shift) if mult else (0, SHIFT_MIN)


def multipliers(ratios: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`multiplier` of many ratios at once, which takes a fiftieth of the time: all of mult, all of shift. ValueError: as there."""
    given = np.asarray(ratios, np.float64)
    sound = np.isfinite(given) & (given >= 0)
    mantissa, exponent = np.frexp(np.where(sound, given, 0))
    mult, shift = np.rint(np.ldexp(mantissa, MULT_BITS)).astype(np.int64), MULT_BITS - exponent.astype(np.int64)
    full = mult == 1 << MULT_BITS
    mult, shift = mult >> full, shift - full
    small = shift > SHIFT_MAX
    mult = np.where(small, np.rint(np.ldexp(np.where(small, given, 0), SHIFT_MAX)).astype(np.int64), mult)
    for ratio in given[~sound | (shift < SHIFT_MIN)].tolist():
        multiplier(ratio)  # raises the error
    return mult, np.where(mult == 0, SHIFT_MIN, np.minimum(shift, SHIFT_MAX))


def factors(ratio_a: float, zero_a: int, ratio_b: float = 0.0, zero_b: int = 0, constant: float = 0.0) -> tuple[int, int, int, int]:
    """(factor_a, factor_b, offset, shift) for `combine`: y = ratio_a * (a - zero_a) + ratio_b * (b - zero_b) + constant.

    y is in units of the output's scale, before its zero point is added. Ratios may be negative. The shift is the largest that keeps
    both factors within 24 bits and the offset within 32. So the greater ratio has 24 bits, or as many as the offset leaves.
    ValueError: no shift of 1 or more can hold the values.
    """
    greatest = max(abs(ratio_a), abs(ratio_b))
    for shift in range(SHIFT_MAX, SHIFT_MIN - 1, -1):
        scale = math.ldexp(1.0, shift)
        if greatest * scale >= (1 << MULT_BITS) - 0.5 or abs(constant) * scale >= 1 << (ADD_OFFSET_BITS - 1):
            continue
        a, b = round(ratio_a * scale), round(ratio_b * scale)
        offset = round(constant * scale) - a * zero_a - b * zero_b
        if -(1 << (ADD_OFFSET_BITS - 1)) <= offset < 1 << (ADD_OFFSET_BITS - 1):
            return a, b, offset, shift
    raise ValueError(f"ratios {ratio_a:g}, {ratio_b:g} and constant {constant:g} are too large for the elementwise lanes")


def channel_factors(
    ratios: ArrayLike, zero: int, constants: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(factor, offset, shift) of each channel: `factors` of one input, for all channels at once. ValueError: as there."""
    given = np.asarray(ratios, np.float64), np.asarray(constants, np.float64)
    sound = np.isfinite(given[0]) & np.isfinite(given[1])
    ratio, constant = np.where(sound, given, 0)
    most = (1 << MULT_BITS) - 0.5, float(1 << (ADD_OFFSET_BITS - 1))
    shift = np.minimum(_room(np.abs(ratio), most[0]), _room(np.abs(constant), most[1]))
    while True:
        scale = np.ldexp(1.0, shift)
        factor = np.rint(ratio * scale)
        offset = np.rint(constant * scale) - factor * zero
        beyond = (shift >= SHIFT_MIN) & ((offset < -most[1]) | (offset >= most[1]))
        if not beyond.any():
            break
        shift = shift - beyond
    for place in np.flatnonzero(~sound | (shift < SHIFT_MIN)).tolist():
        factors(float(given[0][place]), zero, constant=float(given[1][place]))  # raises the error
    return factor.astype(np.int64), offset.astype(np.int64), shift


def _room(values: NDArray[np.float64], limit: float) -> NDArray[np.int64]:
    """The largest shift, up to SHIFT_MAX, with which each value, which is not negative, stays below the limit."""
    (mantissa, exponent), (most, bits) = np.frexp(values), math.frexp(limit)
    fits = bits - exponent.astype(np.int64) - (mantissa >= most)
    return np.where(values == 0, SHIFT_MAX, np.minimum(SHIFT_MAX, fits))


def pack_params(offset: ArrayLike, factor: ArrayLike, shift: ArrayLike) -> NDArray[np.uint64]:
    """A channel's requantiser parameters as 64 bits of a ring word: offset int32, factor int26, shift 1..55. Shapes broadcast."""
    bit, word = 0, np.zeros((), np.uint64)
    for value, bits in zip((offset, factor, shift), PARAM_BITS.values(), strict=True):
        own = np.asarray(value, np.int64).astype(np.uint64) & np.uint64((1 << bits) - 1)
        bit, word = bit + bits, np.asarray(word | own << np.uint64(bit))
    return word


def unpack_params(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(offset, factor, shift) from the words that `pack_params` makes."""
    high = np.asarray(words).astype(np.int64)
    offset, factor, shift = PARAM_BITS.values()
    signed = (high << (64 - offset)) >> (64 - offset), (high << (64 - offset - factor)) >> (64 - factor)
    return *signed, (high >> (offset + factor)) & ((1 << shift) - 1)
