"""Copies between stream ports and DDR, with the masters that they share, on a memory that stalls at random."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteArbiter, WriteMaster
from cnna.hw.dma.streams import StreamIn, StreamOut
from cnna.spec.config import BEAT_BYTES
from cnna.spec.regmap import STREAM_ERRORS

from ...rigs.axi_memory import BusMemory, BusPace, serve_reads, serve_writes
from ...rigs.deadline import CLOCK_SECONDS, deadline

PACES = {"fast": BusPace(latency=1), "stalled": BusPace(ready=0.3, valid=0.4, latency=5), "slow": BusPace(0.9, 0.9, latency=200)}
STREAM_PACES = {"full": 1.0, "ragged": 0.5, "starved": 0.2}  # the chance that the other end of the stream takes part in a clock
BOTH = [("fast", "full"), ("fast", "starved"), ("stalled", "ragged"), ("slow", "full")]
DDR_BYTES, DEADLINE_CLOCKS = 0x4000, 30_000
SLVERR, DECERR = 2, 3
COPIES = [(0x0, 1), (0x10, 15), (0x20, 16), (0xFF0, 17), (0x1FE0, 33), (0x840, 700), (0x2010, 1603)]  # address, bytes


@dataclass
class CopyBench:
    """The copies behind the masters, and for each master one more client with priority."""

    memory: BusMemory = field(default_factory=lambda: BusMemory(DDR_BYTES))
    pace: float = 1.0  # of the streams' other ends

    def __post_init__(self):
        top = Module()
        top.submodules.came, top.submodules.goes = self.came, self.goes = StreamIn(), StreamOut()
        top.submodules.read = self.read = ReadMaster(2, background=True)
        top.submodules.write = self.write = WriteMaster()
        top.submodules.share = self.share = WriteArbiter()
        connect(top, self.goes.client, self.read.clients[1])
        connect(top, self.came.client, self.share.clients[1])
        connect(top, self.share.master, self.write.client)
        top.d.comb += [self.goes.response.eq(self.read.response), self.came.response.eq(self.write.response)]
        top.d.comb += self.came.bad.eq(self.write.bad & self.share.second_done)
        self.reader, self.writer = self.read.clients[0], self.share.clients[0]
        self.simulator = Simulator(top)
        self.simulator.add_clock(CLOCK_SECONDS)
        self.rng = np.random.default_rng(1)

    def run(self, *testbenches):
        """Runs the testbenches to their ends."""

        async def reads(ctx):
            await serve_reads(ctx, self.read.bus, self.memory, 1)

        async def writes(ctx):
            await serve_writes(ctx, self.write.bus, self.memory, 2)

        async def promise(ctx):
            taken, offered, axis, burst = 0, 0, self.came.axis, self.came.client.burst
            seen = (self.came.request.start, axis.tvalid & axis.tready, burst.valid & burst.ready, burst.payload.beats)
            async for _, _, start, came, asked, beats in ctx.tick().sample(*seen):
                taken, offered = (0, 0) if start else (taken + came, offered + asked * beats)
                assert offered <= taken, "a burst was offered before its beats were there"

        for background in (reads, writes, deadline(DEADLINE_CLOCKS), promise):
            self.simulator.add_testbench(background, background=True)
        for testbench in testbenches:
            self.simulator.add_testbench(testbench)
        self.simulator.run()

    async def start(self, ctx, copy, address, size):
        """Asks for a copy."""
        ctx.set(copy.request.address, address)
        ctx.set(copy.request.bytes, size)
        ctx.set(copy.request.start, 1)
        await ctx.tick()
        ctx.set(copy.request.start, 0)
        assert ctx.get(copy.status.busy)
        assert not ctx.get(copy.status.done)

    async def send(self, ctx, transfers):
        """Offers transfers (data, keep, last) on the arriving stream; returns how many were taken before the copy ended."""
        axis = self.came.axis
        for number, (data, keep, last) in enumerate(transfers):
            while self.rng.random() >= self.pace:
                await ctx.tick()
            ctx.set(axis.tdata, int.from_bytes(data, "little"))
            ctx.set(axis.tkeep, keep)
            ctx.set(axis.tlast, last)
            ctx.set(axis.tvalid, 1)
            while not ctx.get(axis.tready):
                if not ctx.get(self.came.status.busy):
                    ctx.set(axis.tvalid, 0)
                    return number
                await ctx.tick()
            await ctx.tick()
            ctx.set(axis.tvalid, 0)
        return len(transfers)

    async def receive(self, ctx):
        """Receives a packet of the leaving stream: its bytes, and its number of transfers.

        A TKEEP with holes, or that moves, fails.
        """
        axis, found, count, waits = self.goes.axis, b"", 0, None
        while True:
            ready = int(self.rng.random() < self.pace)
            ctx.set(axis.tready, ready)
            valid = ctx.get(axis.tvalid)
            now = (ctx.get(axis.tdata), ctx.get(axis.tkeep), ctx.get(axis.tlast)) if valid else None
            assert ctx.get(self.goes.status.busy) or not valid, "done, though its last transfer was not taken"
            assert waits is None or now == waits, "a transfer moved before it was taken"
            waits = None if ready else now
            await ctx.tick()
            if now and ready:
                data, keep, last = now
                kept = keep.bit_length()
                assert keep == (1 << kept) - 1
                assert kept == BEAT_BYTES or last
                found, count = found + data.to_bytes(BEAT_BYTES, "little")[:kept], count + 1
                if last:
                    ctx.set(axis.tready, 0)
                    return found, count

    async def end(self, ctx, copy):
        """Waits for a copy's end; returns (done, cause, response)."""
        while ctx.get(copy.status.busy):
            await ctx.tick()
        return ctx.get(copy.status.done), STREAM_ERRORS[ctx.get(copy.status.cause)], ctx.get(copy.status.response)


DONE = (1, "none", 0)


def transfers(data, longer=0, shorter=0):
    """The transfers of a packet with TLAST on its last one; `longer` transfers are added, `shorter` ones taken away."""
    beats = [(data[at : at + BEAT_BYTES].ljust(BEAT_BYTES, b"\xee"), len(data) - at) for at in range(0, len(data), BEAT_BYTES)]
    beats = beats[: len(beats) - shorter] + [(b"\xdd" * BEAT_BYTES, BEAT_BYTES)] * longer
    return [(beat, (1 << min(left, BEAT_BYTES)) - 1, int(n == len(beats) - 1)) for n, (beat, left) in enumerate(beats)]


@pytest.mark.parametrize(("pace", "stream"), BOTH)
def test_a_packet_comes_into_memory(pace, stream):
    """A byte would miss its place or another one change, or `done` would come before the last B."""
    bench = CopyBench(BusMemory(DDR_BYTES, PACES[pace]), STREAM_PACES[stream])
    expected, data = bench.memory.bytes.copy(), np.random.default_rng(4)

    async def drive(ctx):
        for address, size in COPIES:
            packet = data.bytes(size)
            expected[address : address + size] = np.frombuffer(packet, np.uint8)
            await bench.start(ctx, bench.came, address, size)
            assert await bench.send(ctx, transfers(packet)) == -(-size // BEAT_BYTES)
            assert not ctx.get(bench.came.axis.tready), "the next packet would be torn by a reset"
            assert await bench.end(ctx, bench.came) == DONE
            np.testing.assert_array_equal(bench.memory.bytes, expected)

    bench.run(drive)


@pytest.mark.parametrize(("pace", "stream"), BOTH)
def test_a_packet_leaves_memory(pace, stream):
    """Bytes would change their order, TLAST or TKEEP would not be at the packet's end, or something would follow it."""
    bench = CopyBench(BusMemory(DDR_BYTES, PACES[pace]), STREAM_PACES[stream])

    async def drive(ctx):
        for address, size in COPIES:
            await bench.start(ctx, bench.goes, address, size)
            found, count = await bench.receive(ctx)
            assert (found, count) == (bench.memory.bytes[address : address + size].tobytes(), -(-size // BEAT_BYTES))
            assert await bench.end(ctx, bench.goes) == DONE

    bench.run(drive)


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_beat_a_clock(way):
    """A free master would wait for the copy."""
    bench, size = CopyBench(BusMemory(DDR_BYTES, BusPace(latency=120))), 0x3000
    clocks = []

    async def drive(ctx):
        if way == "in":
            await bench.start(ctx, bench.came, 0x100, size)
            await bench.send(ctx, transfers(bytes(size)))
            assert await bench.end(ctx, bench.came) == DONE
        else:
            await bench.start(ctx, bench.goes, 0x100, size)
            await bench.receive(ctx)
            assert await bench.end(ctx, bench.goes) == DONE
        clocks.append(True)

    async def count(ctx):
        while clocks[-1:] != [True]:
            clocks.append(False)
            await ctx.tick()

    bench.run(drive, count)
    assert len(clocks) < size // BEAT_BYTES + 120 + 40  # one latency, at the begin or the end


def test_either_side_may_stand_still():
    """Data beyond a copy's room would be lost while `m_axis`, or DDR, takes nothing for long."""
    bench, size = CopyBench(BusMemory(DDR_BYTES, BusPace(ready=0.1, latency=50))), 0x1400
    packet = np.random.default_rng(5).bytes(size)

    async def come(ctx):
        await bench.start(ctx, bench.came, 0x2000, size)
        await bench.send(ctx, transfers(packet))
        assert await bench.end(ctx, bench.came) == DONE
        assert bench.memory.bytes[0x2000 : 0x2000 + size].tobytes() == packet

    async def go(ctx):
        await bench.start(ctx, bench.goes, 0x10, size)
        await ctx.tick().repeat(1200)
        assert (await bench.receive(ctx))[0] == bench.memory.bytes[0x10 : 0x10 + size].tobytes()
        assert await bench.end(ctx, bench.goes) == DONE

    bench.run(come, go)


@pytest.mark.parametrize(("address", "size"), [(8, 32), (0x101, 16), (0x100, 0)])
def test_an_illegal_copy_is_refused(address, size):
    """An illegal copy must be reported and touch neither stream nor memory, and the next one must run."""
    bench = CopyBench()

    async def drive(ctx):
        for copy in (bench.came, bench.goes):
            await bench.start(ctx, copy, address, size)
            assert await bench.end(ctx, copy) == (0, "illegal", 0)
            assert not ctx.get(bench.came.axis.tready)
            assert not ctx.get(bench.goes.axis.tvalid)
        assert not bench.memory.reads
        assert not bench.memory.writes
        await bench.start(ctx, bench.goes, 0x100, 40)
        assert (await bench.receive(ctx))[0] == bench.memory.bytes[0x100 : 0x100 + 40].tobytes()
        assert await bench.end(ctx, bench.goes) == DONE

    bench.run(drive)


def cut(packet, at, **changes):
    """The packet with keep or last of one transfer changed."""
    data, keep, last = packet[at]
    return [*packet[:at], (data, changes.get("keep", keep), changes.get("last", last)), *packet[at + 1 :]]


PACKET = transfers(bytes(range(200)))  # 13 transfers, the last of 8 bytes
WRONG = {
    "a transfer early": (transfers(bytes(200), shorter=1), "early_end", 12),
    "a byte early": (cut(PACKET, 12, keep=0x7F), "early_end", 13),
    "a hole": (cut(PACKET, 5, keep=0xFFEF), "early_end", 13),
    "a byte late": (cut(PACKET, 12, keep=0x1FF), "late_end", 13),
    "transfers late": (transfers(bytes(200), longer=30), "late_end", 43),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("stream", ["full", "ragged"])
def test_a_packet_of_another_length_is_noticed(wrong, stream):
    """All of the packet must be taken, so that the next one meets the next copy, and no byte beyond the copy's be written."""
    packet, cause, count = WRONG[wrong]
    bench = CopyBench(pace=STREAM_PACES[stream])
    before = bench.memory.bytes.copy()

    async def drive(ctx):
        await bench.start(ctx, bench.came, 0x100, 200)
        assert await bench.send(ctx, packet) == count
        assert await bench.end(ctx, bench.came) == (0, cause, 0)
        assert (bench.memory.bytes == before)[[*range(0x100), *range(0x100 + 200, DDR_BYTES)]].all()
        await bench.start(ctx, bench.came, 0x800, 200)
        assert await bench.send(ctx, PACKET) == 13
        assert await bench.end(ctx, bench.came) == DONE
        assert bench.memory.bytes[0x800 : 0x800 + 200].tobytes() == bytes(range(200))

    bench.run(drive)


@pytest.mark.parametrize(("bad", "pace"), [(0x100, "fast"), (0x400, "stalled"), (0xFF0, "slow")])
def test_a_bad_response_stops_a_copy(bad, pace):
    """Cause and response must be kept, each packet come to its end, and a copy elsewhere run on."""
    other = {bad + 0x100: DECERR if bad == 0x400 else SLVERR} if bad < 0xF00 else {}  # which comes too late to be told
    bench = CopyBench(BusMemory(DDR_BYTES, PACES[pace], bad={bad: SLVERR if bad == 0x400 else DECERR} | other), 0.8)
    failure, size = (0, "response", SLVERR if bad == 0x400 else DECERR), 0x1000 - 0x100

    async def come(ctx):
        await bench.start(ctx, bench.came, 0x100, size)
        assert await bench.send(ctx, transfers(bytes(size))) == size // BEAT_BYTES
        assert await bench.end(ctx, bench.came) == failure
        await bench.start(ctx, bench.came, 0x2000, 99)
        await bench.send(ctx, transfers(b"x" * 99))
        assert await bench.end(ctx, bench.came) == DONE
        assert bench.memory.bytes[0x2000 : 0x2000 + 99].tobytes() == b"x" * 99

    async def go(ctx):
        await bench.start(ctx, bench.goes, 0x100, size)
        assert (await bench.receive(ctx))[1] == (bad - 0x100) // BEAT_BYTES + 1
        assert await bench.end(ctx, bench.goes) == failure
        await bench.start(ctx, bench.goes, 0x3000, 99)
        assert (await bench.receive(ctx))[0] == bench.memory.bytes[0x3000 : 0x3000 + 99].tobytes()
        assert await bench.end(ctx, bench.goes) == DONE

    bench.run(come, go)


@pytest.mark.parametrize("pace", PACES)
def test_copies_beside_busy_engines(pace):
    """Beats of a copy and of an engine that ask at once would be exchanged, or one of them would not come to its end."""
    bench, rng = CopyBench(BusMemory(DDR_BYTES, PACES[pace]), 0.7), np.random.default_rng(3)
    expected, packet = bench.memory.bytes.copy(), rng.bytes(1500)
    expected[0x10 : 0x10 + 1500] = np.frombuffer(packet, np.uint8)
    bursts = [(0x1000 + 256 * n + 16 * int(rng.integers(8)), int(rng.integers(1, 9))) for n in range(12)]
    words = {at + BEAT_BYTES * n: rng.bytes(BEAT_BYTES) for at, beats in bursts for n in range(beats)}
    for at, word in words.items():
        expected[at : at + BEAT_BYTES] = np.frombuffer(word, np.uint8)
    done = []

    async def come(ctx):
        await bench.start(ctx, bench.came, 0x10, len(packet))
        await bench.send(ctx, transfers(packet))
        assert await bench.end(ctx, bench.came) == DONE

    async def go(ctx):
        await bench.start(ctx, bench.goes, 0x2000, 1777)
        assert (await bench.receive(ctx))[0] == expected[0x2000 : 0x2000 + 1777].tobytes()
        assert await bench.end(ctx, bench.goes) == DONE

    async def ask(ctx, client):
        for address, beats in bursts:
            ctx.set(client.burst.payload, {"address": address, "beats": beats})
            ctx.set(client.burst.valid, 1)
            await ctx.tick().until(client.burst.ready)
            ctx.set(client.burst.valid, 0)
            await ctx.tick().repeat(int(rng.integers(1, 20)))

    async def store(ctx):
        await ask(ctx, bench.writer)

    async def words_out(ctx):
        for word in words.values():
            ctx.set(bench.writer.beat.payload, {"data": int.from_bytes(word, "little"), "strobe": 0xFFFF})
            ctx.set(bench.writer.beat.valid, 1)
            await ctx.tick().until(bench.writer.beat.ready)
        ctx.set(bench.writer.beat.valid, 0)

    async def answers(ctx):
        while len(done) < len(bursts):
            await ctx.tick().until(bench.writer.done)
            done.append(True)

    async def load(ctx):
        await ask(ctx, bench.reader)

    async def words_in(ctx):
        for address, beats in bursts:
            for beat in range(beats):
                while not ctx.get(bench.reader.beat.valid):
                    await ctx.tick()
                at = address + BEAT_BYTES * beat
                assert ctx.get(bench.reader.beat.payload.data) in (
                    int.from_bytes(initial[at : at + BEAT_BYTES], "little"),
                    int.from_bytes(words[at], "little"),
                )
                await ctx.tick()

    initial = bench.memory.bytes.tobytes()
    bench.run(come, go, store, words_out, answers, load, words_in)
    np.testing.assert_array_equal(bench.memory.bytes, expected)


def test_a_copy_that_fails_while_it_waits_takes_its_packet():
    """The copy's queue is full of data that no burst will take: the stream would stand still for ever."""
    bench, told = CopyBench(BusMemory(DDR_BYTES, BusPace(latency=400), bad={0x100: DECERR})), []

    async def come(ctx):
        await bench.start(ctx, bench.came, 0x100, 0xF00)
        assert await bench.send(ctx, transfers(bytes(0xF00))) == 0xF0
        assert await bench.end(ctx, bench.came) == (0, "response", DECERR)
        told.append(True)

    async def store(ctx):
        await ctx.tick().until(bench.came.client.burst.valid)
        await ctx.tick().repeat(2)
        ctx.set(bench.writer.burst.payload, {"address": 0x2000, "beats": 1})
        ctx.set(bench.writer.beat.valid, 1)
        ctx.set(bench.writer.burst.valid, 1)
        while not told:
            await ctx.tick()
            ctx.set(bench.writer.burst.valid, int(not ctx.get(bench.came.status.cause)))

    bench.run(come, store)


def test_engines_go_first():
    """While an engine wants bursts, a copy gets none: a layer would wait for the host's next image."""
    bench = CopyBench(BusMemory(DDR_BYTES, BusPace(latency=30)))
    taken = {"read": 0, "write": 0}

    async def ask(ctx, client, name):
        ctx.set(client.burst.payload, {"address": 0x200, "beats": 16})
        ctx.set(client.burst.valid, 1)
        while taken[name] < 40:
            await ctx.tick().until(client.burst.ready)
            taken[name] += 1
        ctx.set(client.burst.valid, 0)

    async def load(ctx):
        await ask(ctx, bench.reader, "read")

    async def store(ctx):
        ctx.set(bench.writer.beat.payload.strobe, 0xFFFF)
        ctx.set(bench.writer.beat.valid, 1)
        await ask(ctx, bench.writer, "write")

    async def copies(ctx):
        await ctx.tick().repeat(4)
        await bench.start(ctx, bench.goes, 0x1000, 600)
        await bench.start(ctx, bench.came, 0x2000, 600)
        await bench.send(ctx, transfers(bytes(600)))
        await bench.receive(ctx)
        assert await bench.end(ctx, bench.came) == DONE
        assert await bench.end(ctx, bench.goes) == DONE

    bench.run(load, store, copies)
    for own in (bench.memory.reads, bench.memory.writes):
        engines = [n for n, (address, _) in enumerate(own) if address == 0x200]
        others = [n for n, (address, _) in enumerate(own) if address != 0x200]
        assert len(engines) == 40
        assert others
        assert min(others) > engines[-2], "a copy's burst came between two of an engine that asked for more"
