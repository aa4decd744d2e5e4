"""The three FIFOs: order, no item lost or doubled, at every pace."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from cnna.hw.base.queues import CreditFifo, RegisteredFifo, SkidBuffer

from ...rigs.streams import PACES, run_stream

ITEMS = list(range(1, 200))


@pytest.mark.parametrize("pace", PACES)
def test_skid_buffer_gives_items_in_order(pace: str) -> None:
    """An item would be lost, doubled or overtaken, or would change while the reader makes it wait."""
    found, _ = run_stream(SkidBuffer(8), ITEMS, pace)
    assert found == ITEMS


def test_skid_buffer_passes_an_item_a_clock() -> None:
    """A register stage would cost the stream more than its latency."""
    _, clocks = run_stream(SkidBuffer(8), ITEMS)
    assert clocks == len(ITEMS) + 1


@pytest.mark.parametrize(("spare", "late"), [(0, False), (1, False), (3, False), (0, True), (1, True)])
@pytest.mark.parametrize(("push", "take"), [(1.0, 1.0), (0.3, 0.9), (0.9, 0.3)])
def test_registered_fifo_gives_items_once_and_in_order(push, take, spare, late):
    """An item would be lost, doubled, moved while it waits or late; or `room` would state more or less than there is."""
    dut, rng = RegisteredFifo(16, 8, spare, late), np.random.default_rng(1)

    async def drive(ctx):
        inside, waiting, number, seen = [], None, 0, [1] * (spare + 1)
        for clock in range(900):
            seen = [*seen[1:], ctx.get(dut.room)]
            go = bool(seen[0]) and rng.random() < push  # what was seen `spare` clocks ago
            ctx.set(dut.push, int(go))
            ctx.set(dut.item, number)
            ready = rng.random() < take
            ctx.set(dut.o.ready, int(ready))
            valid, item = ctx.get(dut.o.valid), ctx.get(dut.o.payload)
            stored = len(inside) - valid
            assert 0 <= stored <= dut.depth + late
            assert ctx.get(dut.room) or stored >= dut.depth - spare
            assert late or ctx.get(dut.room) == (stored < dut.depth - spare)
            if inside and clock - inside[0][1] >= 2 + late:
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
        assert number > 200

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


@pytest.mark.parametrize(("push", "take"), [(1.0, 1.0), (0.3, 0.9), (0.9, 0.3)])
def test_credit_fifo_gives_items_once_and_in_order(push, take):
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
