"""The ring against a Python list: order, levels, room, wrap-around."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.sim import Simulator

from cnna.hw.base.ports import BEAT_BITS, RING_LATENCY
from cnna.hw.weights.ring import Ring, stripe_beats


@pytest.mark.parametrize(("width", "depth", "columns"), [(128, 24, 1), (256, 17, 1), (512, 12, 2), (768, 16, 3)])
def test_words_come_back_in_order(width, depth, columns):
    """Columns run apart at random, reads look ahead at random, words are popped at random: data, level and room must hold."""
    dut, rng = Ring(width, depth, columns), np.random.default_rng(width + depth)
    total, stripe = 5 * depth, dut.beats
    words = [int.from_bytes(rng.bytes(width // 8), "little") for _ in range(total)]

    def beat(column, number):
        word, index = divmod(number, stripe)
        return words[word] >> (BEAT_BITS * (column * stripe + index)) & ((1 << BEAT_BITS) - 1)

    async def drive(ctx):
        written, popped, answers, clock = [0] * columns, 0, [], 0
        while popped < total:
            room = [depth * stripe - (written[c] - popped * stripe) for c in range(columns)]
            for c in range(columns):
                assert ctx.get(dut.free[c]) == room[c]
                go = written[c] < total * stripe and room[c] > 0 and rng.random() < 0.8
                ctx.set(dut.write[c].valid, int(go))
                if go:
                    ctx.set(dut.write[c].payload, beat(c, written[c]))
                    written[c] += 1
            level = ctx.get(dut.read.level)
            assert popped + level <= min(w // stripe for w in written)
            take = level > 0 and rng.random() < (0.9 if clock // 200 % 2 else 0.3)
            ctx.set(dut.read.enable, int(level > 0))
            offset = int(rng.integers(level)) if level else 0
            ctx.set(dut.read.offset, offset)
            answers.append((clock + RING_LATENCY, words[popped + offset]) if level else None)
            ctx.set(dut.read.pop, int(take))
            popped += take
            await ctx.tick()
            clock += 1
            due = [a for a in answers if a and a[0] == clock]
            answers = [a for a in answers if a and a[0] > clock]
            for _, word in due:
                assert ctx.get(dut.read.data) == word
            assert clock < 40 * total * stripe, "words never came"

    top = Module()
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


def test_a_ring_of_broken_beats_is_refused():
    """A stripe that is no whole number of beats could never be filled."""
    with pytest.raises(ValueError, match="whole beats"):
        stripe_beats(192, 16, 1)
