"""`spec.arith`'s rounding against exact fractions; `tests/hw/lanes` holds the RTL to it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from cnna.spec.arith import (
    SHIFT_LIMIT,
    channel_factors,
    factors,
    multiplier,
    multipliers,
    pack_params,
    round_shift,
    unpack_params,
)

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


EDGES = [0.0, 5e-324, 1e-320, 2.0**-57, 2.0**-56, 2.0**-55, 1 - 2.0**-25, 1 - 2.0**-26, 1.0, (1 << 24) - 0.5, 2.0**23 - 0.5]


def test_many_multipliers_are_those_of_each():
    """Constants of a layer are made at once; one that differs from what reference and pools compute would be another network."""
    rng = np.random.default_rng(2)
    ratios = [*(each / 4 for each in EDGES), *np.ldexp(rng.random(3000) + 0.5, rng.integers(-70, 23, 3000)).tolist()]
    mult, shift = multipliers(ratios)
    assert list(zip(mult.tolist(), shift.tolist(), strict=True)) == [multiplier(ratio) for ratio in ratios]


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan, 2.0**23])
def test_a_multiplier_that_cannot_be_is_named_among_many(wrong):
    """The line names the first that is wrong, as if they were made one after the other."""
    with pytest.raises(ValueError, match="a scale ratio of") as alone:
        multiplier(wrong)
    with pytest.raises(ValueError, match="a scale ratio of") as among:
        multipliers([0.5, wrong, -7.0])
    assert str(among.value) == str(alone.value)


def test_factors_of_channels_are_those_of_each():
    """As for multipliers. Constants near the limit of the offset take the shift down, some by several steps."""
    rng = np.random.default_rng(3)
    ratios = [*EDGES, *np.ldexp(rng.random(4000) - 0.5, rng.integers(-60, 24, 4000)).tolist()]
    near = np.float64((1 << 31) - rng.choice([0, 0.25, 0.5, 0.75, 1], 2000)) * np.ldexp(1.0, rng.integers(-40, 0, 2000))
    constants = [
        *[0.0] * (len(ratios) - 4000),
        *near.tolist(),
        *np.ldexp(rng.random(2000) - 0.5, rng.integers(-30, 31, 2000)).tolist(),
    ]
    for zero in (-128, 0, 77):
        wanted = {pair: _alone(pair[0], zero, pair[1]) for pair in zip(ratios, constants, strict=True)}
        sound = {pair: made for pair, made in wanted.items() if not isinstance(made, str)}
        columns = channel_factors([ratio for ratio, _ in sound], zero, [constant for _, constant in sound])
        found = zip(*(column.tolist() for column in columns), strict=True)
        assert list(found) == [(factor, offset, shift) for factor, _, offset, shift in sound.values()]
        assert 3000 < len(sound) < len(wanted)
        for ratio, constant in wanted.keys() - sound.keys():
            with pytest.raises(ValueError, match="too large for the elementwise lanes") as among:
                channel_factors([0.5, ratio, math.inf], zero, [0.0, constant, 0.0])
            assert str(among.value) == wanted[ratio, constant]


def _alone(ratio: float, zero: int, constant: float) -> tuple[int, int, int, int] | str:
    try:
        return factors(ratio, zero, constant=constant)
    except ValueError as error:
        return str(error)
