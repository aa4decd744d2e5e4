"""When groups may end: their distance and the room behind the lanes."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from cnna.hw.lanes.group_credit import GroupCredit


@pytest.mark.parametrize(("cost", "room"), [(2, 8), (4, 64), (6, 16)])
def test_groups_keep_their_distance_and_fit(cost, room):
    """Groups too close would overwrite sums that still drain, too many would overrun the FIFO, and a late one would be a bubble."""
    dut, rng = GroupCredit(cost, room), np.random.default_rng(cost)

    async def drive(ctx):
        used, ended, roomy = 0, -cost, 0
        for clock in range(3000):
            eager, drained = clock % 1000 < 500, clock % 700 < 350
            ok = ctx.get(dut.ok)
            if roomy >= 2 and clock - ended >= cost:
                assert ok, "held back without reason"
            end = ok and (eager or rng.random() < 0.4)
            short = rng.random() < 0.3
            free = used > 0 and (drained or rng.random() < 0.3)
            for port, value in ((dut.end, end), (dut.short, short), (dut.room_free, free)):
                ctx.set(port, int(value))
            if end:
                assert clock - ended >= cost
                used, ended = used + (cost // 2 if short else cost), clock
                assert used <= room
            used -= free
            roomy = roomy + 1 if room - used >= cost else 0
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
