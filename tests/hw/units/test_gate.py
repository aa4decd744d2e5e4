"""Permits of units, against the WAIT registers' meaning."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from cnna.hw.units.gate import Gate
from cnna.spec.regmap import COUNTED


@pytest.mark.parametrize(("readers", "span"), [(2, 1), (1, 3)])
def test_permits_come_unit_by_unit_and_not_before_their_waits_are_met(readers, span):
    """A permit too many or too early lets reads overtake what they depend on; one too few hangs the engine."""
    dut, rng = Gate(readers, span), np.random.default_rng(span)

    async def drive(ctx):
        done = [0] * len(COUNTED)
        for trial in range(40):
            walks = int(rng.integers(1, 8))
            mask = 1 if readers == 1 else int(rng.choice([1, 3]))
            waits = {
                engine: [done[i] + int(rng.integers(3)), int(rng.integers(2)), int(rng.integers(2))]
                for i, engine in enumerate(COUNTED)
            }
            command = dut.command.p
            ctx.set(command.walks, walks)
            ctx.set(command.readers, mask)
            for engine, wait in waits.items():
                for part, value in zip(("count", "step", "enable"), wait, strict=True):
                    ctx.set(command.waits[f"wait_{engine}_{part}"], value)
            ctx.set(dut.command.valid, 1)
            given, permits, clock = 0, [0] * readers, 0
            while given < walks or ctx.get(dut.command.valid):
                accepted = ctx.get(dut.command.ready) and ctx.get(dut.command.valid)
                for reader in range(readers):
                    ready = rng.random() < 0.5
                    ctx.set(dut.permit[reader].ready, int(ready))
                    if ready and ctx.get(dut.permit[reader].valid):
                        unit = permits[reader] // span
                        permits[reader] += 1
                        assert all(not on or done[i] >= count + step * unit for i, (count, step, on) in enumerate(waits.values()))
                given += ctx.get(dut.given)
                index = int(rng.integers(len(COUNTED)))
                done[index] += int(rng.random() < 0.3)
                await ctx.tick()
                ctx.set(dut.done[index], done[index])
                if accepted:
                    ctx.set(dut.command.valid, 0)
                clock += 1
                assert clock < 2000, f"trial {trial}: {permits} of {walks} permits"
            assert permits == [walks if mask >> reader & 1 else 0 for reader in range(readers)]

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
