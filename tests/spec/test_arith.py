"""`spec.arith`'s rounding against exact fractions; `tests/hw/lanes` holds the RTL to it."""

from fractions import Fraction

import numpy as np
import pytest

from cnna.spec.arith import SHIFT_LIMIT, pack_params, round_shift, unpack_params

PRODUCT_BITS = 56  # of a sum of 32 bits times a factor of 24


def test_every_shift_that_a_parameter_word_holds_rounds_half_to_even():
    """A damaged word holds shifts that the compiler never makes: the emulator would stop where the RTL computes on."""
    rng = np.random.default_rng(1)
    shift = np.repeat(np.arange(SHIFT_LIMIT), 100)
    product = rng.integers(-(1 << PRODUCT_BITS), 1 << PRODUCT_BITS, len(shift)) >> rng.integers(0, PRODUCT_BITS, len(shift))
    tie = rng.random(len(shift)) < 0.3
    halves = (2 * rng.integers(-4, 4, len(shift)) + 1) << np.clip(shift - 1, 0, PRODUCT_BITS - 4)
    product = np.where(tie, halves, product)
    wanted = [round(Fraction(int(value), 1 << int(bits))) for value, bits in zip(product, shift, strict=True)]
    assert round_shift(product, shift).tolist() == wanted
    assert unpack_params(pack_params(0, 0, shift))[2].tolist() == shift.tolist()


@pytest.mark.parametrize("shift", [-1, SHIFT_LIMIT])
def test_other_shifts_are_refused(shift):
    """numpy answers something for them, which no accelerator would."""
    with pytest.raises(ValueError, match=rf"shifts {shift}..{shift} are not within 0..63"):
        round_shift(1, shift)
