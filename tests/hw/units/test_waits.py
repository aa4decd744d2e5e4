"""Counts of finished units, the waits on them, and the permits that a gate gives."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.sim import Simulator

from cnna.hw.units.waits import WAIT_CLOCKS, UnitCounts, UnitGate, UnitWaiter
from cnna.spec.regmap import COUNTED


def test_counts_follow_pulses_and_clear():
    """A pulse that is lost, counted twice or kept over a clear would let an engine start too early or never."""
    dut, rng = UnitCounts(), np.random.default_rng(1)

    async def drive(ctx):
        expected = [0] * len(COUNTED)
        for clock in range(300):
            unit, clear = int(rng.integers(16)), clock % 97 == 96
            ctx.set(dut.unit, unit)
            ctx.set(dut.clear, int(clear))
            await ctx.tick()
            expected = [0 if clear else count + (unit >> i & 1) for i, count in enumerate(expected)]
            assert [ctx.get(dut.done[i]) for i in range(len(COUNTED))] == expected

    run(dut, drive)


def test_waiter_clears_exactly_when_every_enabled_wait_is_met():
    """Clearing early breaks a dependence; not clearing hangs. Differences are 24 bit signed, so counts may wrap."""
    dut, rng = UnitWaiter(), np.random.default_rng(2)

    async def drive(ctx):
        for trial in range(200):
            base = int(rng.integers(1 << 24)) if trial % 2 else (1 << 24) - 2
            unit = int(rng.integers(6))
            wants = []
            for engine in COUNTED:
                wait = {
                    "count": (base + int(rng.integers(4))) % (1 << 24),
                    "step": int(rng.integers(2)),
                    "enable": int(rng.integers(2)),
                }
                for part, value in wait.items():
                    ctx.set(dut.waits[f"wait_{engine}_{part}"], value)
                wants.append((wait["count"] + wait["step"] * unit, wait["enable"]))
            counts = [base] * len(COUNTED)

            def late(counts, wants=wants):
                return [bool(on) and (count - want) % (1 << 24) >> 23 == 1 for count, (want, on) in zip(counts, wants, strict=True)]

            for i, count in enumerate(counts):
                ctx.set(dut.done[i], count)
            ctx.set(dut.unit, unit)
            ctx.set(dut.check, 1)
            await ctx.tick()
            ctx.set(dut.check, 0)
            ctx.set(dut.unit, 0)  # taken with check
            for _ in range(WAIT_CLOCKS - 1):
                assert not ctx.get(dut.clear), "stale"
                await ctx.tick()
            for _ in range(300):
                await ctx.tick().repeat(3)
                assert ctx.get(dut.clear) == (not any(late(counts)))
                if not any(late(counts)):
                    break
                assert [bool(ctx.get(dut.blocked) >> i & 1) for i in range(len(COUNTED))] == late(counts)
                index = int(rng.integers(len(COUNTED)))
                counts[index] = (counts[index] + 1) % (1 << 24)
                ctx.set(dut.done[index], counts[index])
            else:
                raise AssertionError("never cleared")

    run(dut, drive)


def run(dut, drive):
    top = Module()
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


@pytest.mark.parametrize(("readers", "span"), [(2, 1), (1, 3)])
def test_permits_come_unit_by_unit_and_not_before_their_waits_are_met(readers, span):
    """A permit too many or too early would let reads overtake what they depend on; one too few would hang the engine."""
    dut, rng = UnitGate(readers, span), np.random.default_rng(span)

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
