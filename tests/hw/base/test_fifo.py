"""The FIFO behind pipelines that cannot be stopped."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from cnna.hw.base.fifo import CreditFifo


@pytest.mark.parametrize(("push", "take"), [(1.0, 1.0), (0.3, 0.9), (0.9, 0.3)])
def test_items_come_out_once_and_in_order(push, take):
    """An item lost, doubled, moved while it waits, or late beyond two clocks would break what the writer's credits promise."""
    dut, rng = CreditFifo(16, 8), np.random.default_rng(1)

    async def drive(ctx):
        inside, waiting, number = [], None, 0
        for clock in range(600):
            go = len(inside) < dut.depth and rng.random() < push
            ctx.set(dut.push, int(go))
            ctx.set(dut.item, number)
            ready = rng.random() < take
            ctx.set(dut.o.ready, int(ready))
            valid, item = ctx.get(dut.o.valid), ctx.get(dut.o.p)
            if inside and clock - inside[0][1] >= 2:
                assert valid, "late"
            if valid:
                assert item == inside[0][0]
                assert waiting in (None, item)
                waiting = item
                if ready:
                    inside.pop(0)
                    waiting = None
            if go:
                inside.append((number, clock))
                number += 1
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
