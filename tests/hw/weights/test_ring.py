"""The ring against a Python list (order, levels, room, wrap-around), and the cursor of its reader."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from cnna.hw.base.ports import RING_LATENCY
from cnna.hw.weights.ring import RingCursor, WordRing, stripe_beats
from cnna.spec.machine import BEAT_BITS


@pytest.mark.parametrize(
    ("width", "depth", "columns", "pairs"),
    [
        (128, 24, 1, False),
        (256, 17, 1, False),
        (512, 12, 2, False),
        (768, 16, 3, False),
        (256, 17, 1, True),
        (1024, 12, 2, True),
        (768, 16, 1, True),
    ],
)
def test_words_come_back_in_order(width, depth, columns, pairs):
    """Columns advance apart, reads look ahead and words are popped at random: data, level or room would be wrong."""
    dut, rng = WordRing(width, depth, columns, pairs), np.random.default_rng(width + depth)
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
                two = pairs and written[c] % 2 == 0 and room[c] > 1 and rng.random() < 0.7
                if go and pairs:
                    first, second = beat(c, written[c]), beat(c, written[c] + two)
                    ctx.set(dut.write[c].payload, {"low": first, "high": second, "pair": int(two)})
                elif go:
                    ctx.set(dut.write[c].payload, beat(c, written[c]))
                written[c] += (1 + two) if go else 0
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
    """A stripe that is not a whole number of beats could never be filled."""
    with pytest.raises(ValueError, match="whole beats"):
        stripe_beats(192, 16, 1)


def test_held_words_come_again_and_freed_ones_do_not():
    """Sets of words are used several times and freed the last time. They would come out too often or not often enough."""
    dut, ring, rng = RingCursor(BEAT_BITS), WordRing(BEAT_BITS, 16, 1), np.random.default_rng(3)
    sets = [(int(rng.integers(1, 17)), int(rng.integers(1, 4))) for _ in range(40)]  # words, times
    numbers, uses, start = [], [], 0
    for size, times in sets:
        for time in range(times):
            for word in range(size):
                numbers.append(start + word)
                uses.append((time == times - 1, word == size - 1))
        start += size
    top = Module()
    top.submodules.dut, top.submodules.ring = dut, ring
    wiring.connect(top, dut.ring, ring.read)

    async def drive(ctx):
        written, at, due, clock = 0, 0, [], 0
        while at < len(uses) or due:
            push = written < start and ctx.get(ring.free[0]) > 0 and rng.random() < (0.6 if clock % 600 < 300 else 0.1)
            ctx.set(ring.write[0].valid, int(push))
            ctx.set(ring.write[0].payload, written)
            written += push
            take = at < len(uses) and ctx.get(dut.there) and rng.random() < 0.8
            ctx.set(dut.take, int(take))
            free, rewind = uses[at] if at < len(uses) else (False, False)
            ctx.set(dut.free, int(free))
            ctx.set(dut.rewind, int(rewind))
            if take:
                due.append((clock + RING_LATENCY, numbers[at]))
                at += 1
            await ctx.tick()
            clock += 1
            assert clock < 20000, f"stuck at use {at} of {len(uses)}"
            if due and due[0][0] == clock:
                assert ctx.get(ring.read.data) == due.pop(0)[1]
        assert ctx.get(ring.read.level) == 0

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
