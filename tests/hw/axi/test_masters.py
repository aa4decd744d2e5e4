"""The read and write masters against an AXI4 memory that checks the protocol and stalls at random."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteMaster
from cnna.spec.config import BEAT_BYTES
from cnna.spec.machine import READS_OUTSTANDING, WRITES_OUTSTANDING

from ...rigs.axi_memory import BusMemory, BusPace, ProtocolError, serve_reads, serve_writes
from ...rigs.deadline import CLOCK_SECONDS, deadline

PACES = {"fast": BusPace(latency=1), "stalled": BusPace(ready=0.3, valid=0.4, latency=1), "slow": BusPace(0.8, 0.8, latency=500)}
DEADLINE_CLOCKS = 20_000
SLVERR = 2


def bursts(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """(address, beats) of bursts that cross no 4 KiB boundary, some ending at one."""
    found = []
    for _ in range(count):
        beats = int(rng.integers(1, 17))
        page, at = int(rng.integers(4)) * 4096, int(rng.choice([4096 - beats * BEAT_BYTES, rng.integers(0, 200) * BEAT_BYTES]))
        found.append((page + at, beats))
    return found


def simulate(dut: wiring.Component, serve, memory: BusMemory, *testbenches) -> None:
    """Runs the testbenches to their ends with the memory on the master's bus."""
    top = Module()
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(CLOCK_SECONDS)

    async def port(ctx):
        await serve(ctx, dut.bus, memory, 1)

    simulator.add_testbench(port, background=True)
    simulator.add_testbench(deadline(DEADLINE_CLOCKS), background=True)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


async def ask(ctx, client, wanted, rng) -> None:
    """Asks for bursts at random intervals."""
    for address, beats in wanted:
        ctx.set(client.burst.payload, {"address": address, "beats": beats})
        ctx.set(client.burst.valid, 1)
        await ctx.tick().until(client.burst.ready)
        ctx.set(client.burst.valid, 0)
        for _ in range(int(rng.integers(3))):
            await ctx.tick()


def reader(dut, client, wanted, memory, bad):
    """Two testbenches: one asks for bursts, the other checks their beats, in order, with `last` and those of errors."""

    async def drive(ctx):
        await ask(ctx, client, wanted, np.random.default_rng(5))

    async def check(ctx):
        for address, beats in wanted:
            for beat in range(beats):
                while not ctx.get(client.beat.valid):
                    await ctx.tick()
                at = address + BEAT_BYTES * beat
                assert ctx.get(client.beat.payload.data) == int.from_bytes(memory.bytes[at : at + BEAT_BYTES].tobytes(), "little")
                assert ctx.get(client.beat.payload.last) == (beat == beats - 1)
                if ctx.get(dut.bad):
                    bad.append((at, ctx.get(dut.response)))
                await ctx.tick()

    return drive, check


@pytest.mark.parametrize("pace", PACES)
def test_every_reader_gets_its_beats(pace):
    """When three clients ask at once, beats would go astray or change their order, or a burst would be lost."""
    rng, memory, dut = np.random.default_rng(2), BusMemory(0x4000, PACES[pace]), ReadMaster(3)
    wanted, bad = [bursts(rng, 25) for _ in range(3)], []
    benches = [b for client, own in zip(dut.clients, wanted, strict=True) for b in reader(dut, client, own, memory, bad)]
    beats = []

    async def count(ctx):
        while sum(beats) < sum(n for own in wanted for _, n in own):
            beats.append(ctx.get(dut.beat))
            await ctx.tick()

    async def idle(ctx):
        told = []
        while not (memory.reads and told[-1]):
            await ctx.tick()
            told.append(ctx.get(dut.idle))
            assert not (told[-1] and memory.outstanding)

    simulate(dut, serve_reads, memory, *benches, count, idle)
    assert sorted(memory.reads) == sorted(burst for own in wanted for burst in own)
    assert not bad
    assert pace != "slow" or 16 <= memory.most_outstanding <= READS_OUTSTANDING


def test_a_bad_read_is_reported():
    """The beats of an error must count like others, and `bad` must name the response."""
    memory, dut, bad = BusMemory(0x4000, BusPace(latency=5), bad={0x120: SLVERR, 0x340: 3}), ReadMaster(1), []
    simulate(dut, serve_reads, memory, *reader(dut, dut.clients[0], [(0x100, 16), (0x300, 8), (0x0, 4)], memory, bad))
    assert bad == [(0x120, SLVERR), (0x340, 3)]


def test_halt_starts_no_burst_and_ends_those_begun():
    """A soft reset would leave the interconnect with half a burst."""
    memory, dut = BusMemory(0x4000, BusPace(latency=60)), ReadMaster(2)
    beats = []

    async def drive(ctx):
        await ask(ctx, dut.clients[0], [(256 * n, 16) for n in range(6)], np.random.default_rng(1))
        while len(memory.reads) < 6:
            await ctx.tick()
        ctx.set(dut.halt, 1)
        ctx.set(dut.clients[0].burst.valid, 1)
        await ctx.tick().until(dut.idle)
        for _ in range(20):
            await ctx.tick()
            assert not ctx.get(dut.bus.arvalid)

    async def count(ctx):
        while True:
            await ctx.tick()
            beats.append(ctx.get(dut.clients[0].beat.valid))
            if sum(beats) == 96:
                return

    simulate(dut, serve_reads, memory, drive, count)
    assert len(memory.reads) == 6


@pytest.mark.parametrize("master", [ReadMaster, WriteMaster])
def test_bursts_that_nobody_answers_are_counted(master):
    """A time-out would name a port that waits for nothing, or miss one that does.

    A burst that is offered but not taken is not counted.
    """
    reads = master is ReadMaster
    dut = ReadMaster(2) if reads else WriteMaster()
    client, ready = (dut.clients[1], dut.bus.arready) if reads else (dut.client, dut.bus.awready)
    valid, memory = (dut.bus.arvalid if reads else dut.bus.awvalid), BusMemory(0x4000)

    async def silent(ctx, bus, memory, seed):
        """A memory that takes five addresses and then answers no more."""
        for _ in range(5):
            ctx.set(ready, 1)
            await ctx.tick().until(valid)
        ctx.set(ready, 0)

    async def drive(ctx):
        assert ctx.get(dut.outstanding) == 0
        ctx.set(client.burst.valid, 1)
        ctx.set(client.burst.payload, {"address": 0x100, "beats": 4})
        for _ in range(60):
            await ctx.tick()
        assert ctx.get(valid)
        assert ctx.get(dut.outstanding) == 5

    simulate(dut, silent, memory, drive)


def test_turns_begin_anew_when_nothing_is_outstanding():
    """A program's first bursts would go out in the order that the run before left, so its clocks would differ from run to run."""
    memory, dut, orders = BusMemory(0x4000, BusPace(latency=3)), ReadMaster(3), []

    async def drive(ctx):
        for client in (1, 0, 2):  # whose burst comes last before the turn is looked at
            await ask(ctx, dut.clients[client], [(0x1000, 1)], np.random.default_rng(1))
            await ctx.tick().repeat(4)
            await ctx.tick().until(dut.idle)
            await ctx.tick()
            first = len(memory.reads)
            for number, other in enumerate(dut.clients):
                ctx.set(other.burst.payload, {"address": 0x100 * number, "beats": 1})
                ctx.set(other.burst.valid, 1)
            await ctx.tick()
            for other in dut.clients:
                ctx.set(other.burst.valid, 0)
            await ctx.tick().repeat(20)
            orders.append([address >> 8 for address, _ in memory.reads[first:]])

    simulate(dut, serve_reads, memory, drive)
    assert orders == [[1, 2, 0]] * 3


@pytest.mark.parametrize("pace", PACES)
def test_writes_land_with_their_strobes(pace):
    """A lost, doubled or moved beat, strobe or burst would show in memory, and a missing B in the count of `done`."""
    rng, memory, dut = np.random.default_rng(3), BusMemory(0x4000, PACES[pace]), WriteMaster()
    wanted, expected = bursts(rng, 25 if pace != "slow" else 12), memory.bytes.copy()
    beats = []
    for address, count in wanted:
        for beat in range(count):
            data, strobe = rng.bytes(BEAT_BYTES), int(rng.integers(1 << 16))
            beats.append((int.from_bytes(data, "little"), strobe))
            for byte in range(BEAT_BYTES):
                if strobe >> byte & 1:
                    expected[address + BEAT_BYTES * beat + byte] = data[byte]
    done, moved = [], []

    async def drive(ctx):
        await ask(ctx, dut.client, wanted, rng)

    async def stream(ctx):
        for data, strobe in beats:
            ctx.set(dut.client.beat.payload, {"data": data, "strobe": strobe})
            ctx.set(dut.client.beat.valid, 1)
            await ctx.tick().until(dut.client.beat.ready)
        ctx.set(dut.client.beat.valid, 0)

    async def count(ctx):
        while sum(done) < len(wanted):
            await ctx.tick()
            done.append(ctx.get(dut.client.done))
            moved.append(ctx.get(dut.beat))
            assert not ctx.get(dut.bad)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.idle)

    simulate(dut, serve_writes, memory, drive, stream, count)
    np.testing.assert_array_equal(memory.bytes, expected)
    assert memory.writes == wanted
    assert sum(moved) == len(beats)


def test_a_bad_write_is_reported_and_outstanding_is_bounded():
    """More bursts than the master counts would overrun its queue of lengths."""
    memory, dut, bad = BusMemory(0x4000, BusPace(latency=300), bad={0x500: 3}), WriteMaster(), []
    outstanding = []

    async def drive(ctx):
        ctx.set(dut.client.beat.valid, 1)
        ctx.set(dut.client.beat.payload.strobe, 0xFFFF)
        ctx.set(dut.client.burst.valid, 1)
        for number in range(20):
            ctx.set(dut.client.burst.payload, {"address": 256 * number, "beats": 2})
            await ctx.tick().until(dut.client.burst.ready)
        ctx.set(dut.client.burst.valid, 0)

    async def count(ctx):
        answered = 0
        while answered < 20:
            await ctx.tick()
            answered += ctx.get(dut.client.done)
            outstanding.append(len(memory.writes) - answered)
            if ctx.get(dut.bad):
                bad.append((answered - 1, ctx.get(dut.response)))

    simulate(dut, serve_writes, memory, drive, count)
    assert bad == [(5, 3)]
    assert max(outstanding) == WRITES_OUTSTANDING


def test_the_memory_catches_a_burst_over_4_kib():
    """The protocol check itself must be able to fail."""
    memory, dut = BusMemory(0x4000), ReadMaster(1)

    async def drive(ctx):
        ctx.set(dut.clients[0].burst.payload, {"address": 4096 - 16, "beats": 2})
        ctx.set(dut.clients[0].burst.valid, 1)
        for _ in range(10):
            await ctx.tick()

    with pytest.raises(ProtocolError, match="illegal burst of 2 beats at 0xff0"):
        simulate(dut, serve_reads, memory, drive)
