"""How the array of depth 2 chooses operands half by half."""

from typing import Any

import numpy as np
import pytest
from amaranth import ClockDomain, Module
from amaranth.sim import Simulator

from cnna.hw.array.fast_array import HalfChoice
from cnna.hw.base.timing import FAST

BITS, CLOCKS, SETTLED = 8, 400, 4  # clocks until the halves are known


def _shown(late: bool, words: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """`o` as it is at the ends of the two halves of each clock, [clocks, 2]; words: [clocks, 2], the first and the second word."""
    m, choice, shown = Module(), HalfChoice(BITS, late), []
    m.submodules.choice = choice
    m.domains += [ClockDomain("sync"), ClockDomain(FAST, reset_less=True)]

    async def drive(ctx: Any) -> None:
        for clock in range(len(words)):
            ctx.set(choice.valid, int(valid[min(clock + (not late), len(words) - 1)]))
            ctx.set(choice.first, int(words[clock, 0]))
            ctx.set(choice.second, int(words[max(clock - late, 0), 1]))
            await ctx.tick()

    async def watch(ctx: Any) -> None:
        while True:
            shown.append(ctx.get(choice.o))
            await ctx.tick(FAST)

    simulator = Simulator(m)
    simulator.add_clock(2e-6, phase=2e-6)
    simulator.add_clock(1e-6, phase=1e-6, domain=FAST)
    simulator.add_testbench(drive)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    return np.array(shown[: 2 * len(words)]).reshape(-1, 2)


@pytest.mark.parametrize("late", [False, True])
def test_a_choice_shows_both_words_and_then_stands_still(late: bool) -> None:
    """A word would be missing or stand in the wrong half; or operands would switch in each half while the array waits."""
    rng = np.random.default_rng(4)
    valid = rng.random(CLOCKS) < rng.choice([0.2, 0.8, 1.0], CLOCKS // 50).repeat(50)
    words = rng.integers(0, 1 << BITS, (CLOCKS, 2))
    for clock in np.flatnonzero(~valid[1:]) + 1:
        words[clock] = words[clock - 1]  # what comes in stands still too
    shown = _shown(late, words, valid).reshape(-1)
    ends = 2 * np.flatnonzero(valid[: CLOCKS - 2]) + 2  # the half behind each valid clock
    ends = ends[ends > 2 * SETTLED] + late - 1
    np.testing.assert_array_equal(shown[ends], words[(ends - late + 1) // 2 - 1, 0])
    np.testing.assert_array_equal(shown[ends + 1], words[(ends - late + 1) // 2 - 1, 1])
    may_change = np.zeros(2 * CLOCKS, bool)
    may_change[ends] = may_change[ends + 1] = True
    assert (~may_change).sum() > CLOCKS // 2
    still = ~may_change[2 * SETTLED + 2 : 2 * CLOCKS - 4]
    changed = np.diff(shown)[2 * SETTLED + 1 : 2 * CLOCKS - 5] != 0
    assert not (changed & still).any()
