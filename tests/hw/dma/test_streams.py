"""Copies between stream ports and DDR, on a memory that stalls at random: packets, illegal copies and errors."""

import numpy as np
import pytest

from cnna.spec.config import BEAT_BYTES

from ...rigs.axi_memory import BusMemory, BusPace
from ...rigs.copy_bench import DDR_BYTES, DONE, PACES, CopyBench, transfers

STREAM_PACES = {"full": 1.0, "ragged": 0.5, "starved": 0.2}  # the chance that the other end of the stream takes part in a clock
BOTH = [("fast", "full"), ("fast", "starved"), ("stalled", "ragged"), ("slow", "full")]
SLVERR, DECERR = 2, 3
COPIES = [(0x0, 1), (0x10, 15), (0x20, 16), (0xFF0, 17), (0x1FE0, 33), (0x840, 700), (0x2010, 1603)]  # address, bytes


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
