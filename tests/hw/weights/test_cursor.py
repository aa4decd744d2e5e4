"""The cursor in a ring, with the ring itself, against a list."""

import numpy as np
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from cnna.hw.base.ports import BEAT_BITS, RING_LATENCY
from cnna.hw.weights.cursor import RingCursor
from cnna.hw.weights.ring import Ring


def test_held_words_come_again_and_freed_ones_do_not():
    """Sets of words, used several times over and freed the last time, must come out as often as they are used."""
    dut, ring, rng = RingCursor(BEAT_BITS), Ring(BEAT_BITS, 16, 1), np.random.default_rng(3)
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
