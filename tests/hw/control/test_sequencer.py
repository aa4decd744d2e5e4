"""The sequencer with a read master, against the program in memory."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.control.sequencer import Sequencer

from ...rigs.axi_memory import BusMemory, BusPace, serve_reads

BASE = 0x30
PACES = {"fast": BusPace(latency=2), "stalled": BusPace(ready=0.5, valid=0.4, latency=30)}


def bench(memory: BusMemory):
    """A sequencer on a memory, and its simulator."""
    dut, master, top = Sequencer(), ReadMaster(1), Module()
    top.submodules.dut, top.submodules.master = dut, master
    connect(top, dut.client, master.clients[0])
    simulator = Simulator(top)
    simulator.add_clock(1e-6)

    async def serve(ctx):
        await serve_reads(ctx, master.bus, memory, 1)

    simulator.add_testbench(serve, background=True)
    return dut, simulator


async def play(ctx, dut, count):
    """Pulses start."""
    ctx.set(dut.base, BASE)
    ctx.set(dut.count, count)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("count", [1, 2, 33, 400])
def test_writes_come_in_order(pace, count):
    """A write would be lost, doubled or read from beyond the program's end, or the next program would not start at its
    beginning.
    """
    memory = BusMemory(0x2000, PACES[pace])
    program = memory.bytes[BASE : BASE + 8 * count].view("<u4").reshape(-1, 2).tolist()
    dut, simulator = bench(memory)

    async def check(ctx):
        rng = np.random.default_rng(count)
        for _ in range(2):
            await play(ctx, dut, count)
            found, ready = [], 0
            for _ in range(60 * count + 300):
                ready = int(rng.random() < 0.7)
                ctx.set(dut.write.ready, ready)
                if ready and ctx.get(dut.write.valid):
                    found.append([ctx.get(dut.write.payload.offset), ctx.get(dut.write.payload.value)])
                await ctx.tick()
                if len(found) >= count and ctx.get(dut.idle):
                    break
            assert found == program
            assert ctx.get(dut.idle)

    simulator.add_testbench(check)
    simulator.run()
    assert all(address + 16 * beats <= (BASE + 8 * count + 15) // 16 * 16 for address, beats in memory.reads)


def test_stop_drops_the_rest():
    """The next start would play the rest of a stopped program."""
    memory = BusMemory(0x2000, BusPace(latency=25))
    dut, simulator = bench(memory)
    first = memory.bytes[BASE : BASE + 8].view("<u4").tolist()

    async def check(ctx):
        await play(ctx, dut, 500)
        await ctx.tick().repeat(60)
        ctx.set(dut.stop, 1)
        await ctx.tick().repeat(2)
        for _ in range(200):
            assert not ctx.get(dut.write.valid)
            await ctx.tick()
        assert ctx.get(dut.idle)
        ctx.set(dut.stop, 0)
        await ctx.tick()
        await play(ctx, dut, 2)
        for _ in range(100):
            if ctx.get(dut.write.valid):
                break
            await ctx.tick()
        assert [ctx.get(dut.write.payload.offset), ctx.get(dut.write.payload.value)] == first

    simulator.add_testbench(check)
    simulator.run()
