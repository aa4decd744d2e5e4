"""The performance counters against sums of what was fed to them."""

import numpy as np
from amaranth.sim import Simulator

from cnna.hw.control.counters import COUNTER_NAMES, Counters
from cnna.spec.regmap import COUNTED, STALLS

PORTS, CLOCKS = 3, 400


def test_counters_count_what_happens_while_a_program_runs():
    """An event would count twice, in the wrong register, before start or after done; or a stall would count in a clock of work."""
    dut, rng = Counters(PORTS), np.random.default_rng(1)
    expected = dict.fromkeys(COUNTER_NAMES, 0)
    expected |= {f"DONE_{engine.upper()}": 100 + index for index, engine in enumerate(COUNTED)}

    async def drive(ctx):
        for index, _ in enumerate(COUNTED):
            ctx.set(dut.done[index], 100 + index)
        for clock in range(CLOCKS):
            running, active, vector = int(50 <= clock < 350), int(rng.integers(2)), int(rng.integers(2))
            stall, reads, writes = int(rng.integers(len(STALLS))), int(rng.integers(1 << PORTS)), int(rng.integers(1 << PORTS))
            ctx.set(dut.clear, int(clock == 48))
            ctx.set(dut.running, running)
            ctx.set(dut.array_active, active)
            ctx.set(dut.vector_active, vector)
            ctx.set(dut.stall, stall)
            ctx.set(dut.read_beat, reads)
            ctx.set(dut.write_beat, writes)
            await ctx.tick()
            expected["CYCLES"] += running
            expected["ARRAY_ACTIVE"] += running & active
            expected["VECTOR_ACTIVE"] += running & vector
            expected[f"STALL_{STALLS[stall].upper()}"] += running & (1 - active)
            for port in range(PORTS):
                expected[f"READ_BEATS{port}"] += running & (reads >> port)
                expected[f"WRITE_BEATS{port}"] += running & (writes >> port)
        await ctx.tick().repeat(3)
        assert {name: ctx.get(dut.words[name]) for name in COUNTER_NAMES} == expected
        ctx.set(dut.clear, 1)
        await ctx.tick()
        ctx.set(dut.clear, 0)
        await ctx.tick()
        assert [ctx.get(dut.words[name]) for name in COUNTER_NAMES if not name.startswith("DONE")] == [0] * (
            len(expected) - len(COUNTED)
        )

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
