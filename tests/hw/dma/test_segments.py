"""Transfers outside of their segment are found, and stopped before they reach the bus."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteMaster
from cnna.hw.control.control import Control
from cnna.hw.control.faults import Faults
from cnna.hw.dma.bursts import RUN_BITS
from cnna.hw.dma.load import Load
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BOUND_CLOCKS, SIZE_BEAT_BITS, SegmentCheck
from cnna.hw.dma.store import Store
from cnna.hw.weights.weights import Weights
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.regmap import BOUNDED, ERRORS, offset

CONFIG = preset("tiny")
NO_LIMIT = (1 << SIZE_BEAT_BITS) - 1
BASE, SIZE_BEATS = 0x7000, 48  # of the segment that the engines reach into, the base in bytes
CLOCKS = 120


def transfers(count):
    """(size, origin, more, at): near both ends of segments, far from them, and around the ends of the bus. All in beats."""
    rng = np.random.default_rng(1)
    bus = 1 << BEAT_ADDRESS_BITS
    for number in range(count):
        size = int(rng.choice([0, 1, 2, 48, 1 << 20, NO_LIMIT - 1, NO_LIMIT]))
        origin = int(rng.choice([0, 256, bus - 256, int(rng.integers(bus))]))
        more = int(rng.choice([0, 1, 47, 48, (1 << RUN_BITS) - 1]))
        start = [0, size, size - more, int(rng.integers(bus)), 1 << SIZE_BEAT_BITS][number % 5] + int(rng.integers(-2, 3))
        yield size, origin, more, (origin + start) % bus


def test_transfers_are_outside_where_a_beat_of_theirs_is():
    """Wrong verdicts at one beat too many, at one before the segment, at sums that wrap, at an empty segment or one without a
    limit.
    """
    dut, cases, found = SegmentCheck(RUN_BITS), list(transfers(400)), []
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)

    async def drive(ctx):
        for size, origin, more, at in cases:
            for name, value in (("segment", 2), ("origin", origin), ("more", more), ("at", at)):
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.sizes[2], size)
            await ctx.tick().repeat(2)
            ctx.set(dut.check, 1)
            await ctx.tick()
            ctx.set(dut.check, 0)
            await ctx.tick().repeat(BOUND_CLOCKS - 1)
            found.append(bool(ctx.get(dut.outside)))
            await ctx.tick()
            assert not ctx.get(dut.outside), "outside without a check"

    simulator.add_testbench(drive)
    simulator.run()
    bus = 1 << BEAT_ADDRESS_BITS
    expected = [size != NO_LIMIT and (at - origin) % bus + more >= size for size, origin, more, at in cases]
    assert found == expected
    assert {True, False} == set(found)


def engines():
    """By name: the engine, its masters' class, and members of a command for as many beats from an offset on."""
    run = {"blocks": 1, "runs": 1, "ddr_run": 0, "ddr_block": 0}
    return {
        "load": (Load, ReadMaster, lambda ddr, beats: {"ddr": ddr, "run": beats * CONFIG.beat_words, **run}),
        "weight": (Weights, ReadMaster, lambda ddr, beats: {"ddr": ddr, "beats": beats, "repeat": 2, "ring": 1}),
        "store": (Store, WriteMaster, lambda ddr, beats: {"ddr": ddr, "run": beats * CONFIG.beat_words, **run}),
    }


def bus_addresses(engine, commands):
    """The addresses of all beats on the bus, and the fault's (cause, offset) or None.

    The engine and its masters are at their quickest, with `faults` and `control` behind them as in top.
    """
    made, master_class, _ = engines()[engine]
    top, dut, faults, control = Module(), made(CONFIG), Faults(CONFIG.ports), Control()
    top.submodules += [dut, faults, control]
    top.d.comb += [faults.running.eq(1), faults.outside[BOUNDED.index(engine)].eq(dut.outside), control.error.eq(faults.error)]
    buses, found = [], []
    for client in dut.clients:
        master = ReadMaster(1) if master_class is ReadMaster else WriteMaster()
        top.submodules += master
        connect(top, client, master.clients[0] if master_class is ReadMaster else master.client)
        top.d.comb += master.halt.eq(control.halt)
        buses.append(master.bus)
    if engine == "weight":
        top.d.comb += [ring.free.eq(64) for ring in (*dut.ring, dut.vector_ring)]
    simulator = Simulator(top)
    simulator.add_clock(1e-6)

    async def drive(ctx):
        ctx.set(dut.segments[1], BASE)
        ctx.set(dut.sizes[1], SIZE_BEATS)
        for command in commands:
            ctx.set(dut.command.payload, dict.fromkeys(dict(dut.command.payload.shape()), 0) | {"seg": 1} | command)
            ctx.set(dut.command.valid, 1)
            await ctx.tick().until(dut.command.ready)
        ctx.set(dut.command.valid, 0)

    async def watch(ctx):
        kind = "aw" if master_class is WriteMaster else "ar"
        if engine == "store":  # feature memory answers at once, whatever is asked
            ctx.set(dut.read.request.ready, 1)
        if engine == "load":
            ctx.set(dut.write.request.ready, 1)
        for bus in buses:
            ctx.set(getattr(bus, f"{kind}ready"), 1)
            if kind == "aw":
                ctx.set(bus.wready, 1)
        for _ in range(CLOCKS):
            for bus in buses:
                if ctx.get(getattr(bus, f"{kind}valid")):
                    address, beats = ctx.get(getattr(bus, f"{kind}addr")), ctx.get(getattr(bus, f"{kind}len")) + 1
                    found.extend(range(address, address + beats * BEAT_BYTES, BEAT_BYTES))
            if engine == "store":
                asked = ctx.get(dut.read.request.valid)
                ctx.set(dut.read.response.valid, asked)
                ctx.set(dut.read.response.payload.tag, ctx.get(dut.read.request.payload.tag))
            for bus in buses if engine == "store" else ():  # a B response a clock after the last beat
                ctx.set(bus.bvalid, ctx.get(bus.wvalid) & ctx.get(bus.wlast))
            await ctx.tick()
        if ctx.get(faults.error):
            found.append((ERRORS[ctx.get(faults.cause)], ctx.get(faults.offset)))

    simulator.add_testbench(drive, background=True)
    simulator.add_testbench(watch)
    simulator.run()
    fault = found.pop() if isinstance(found[-1], tuple) else None
    return found, fault


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("engine", BOUNDED)
def test_no_beat_outside_is_asked_for(engine, before):
    """The fault would halt the masters too late, so another owner's DDR would be read or written; or a whole transfer be
    refused.
    """
    command = engines()[engine][2]
    inside = [command(BEAT_BYTES * number, 3) for number in range(before)]
    addresses, fault = bus_addresses(engine, [*inside, command(BEAT_BYTES * (SIZE_BEATS - 4), 4)])
    assert fault is None
    assert max(addresses) == BASE + (SIZE_BEATS - 1) * BEAT_BYTES, "the last beat of a segment is its own"
    for start, beats in ((SIZE_BEATS - 3, 4), (SIZE_BEATS, 1), (SIZE_BEATS + 1000, 2)):
        addresses, fault = bus_addresses(engine, [*inside, command(BEAT_BYTES * start, beats)])
        assert fault == ("outside_segment", offset(f"{engine.upper()}_SEG"))
        assert all(BASE <= address < BASE + SIZE_BEATS * BEAT_BYTES for address in addresses)
