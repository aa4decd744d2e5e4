"""Copies that share their masters with busy engines: each comes to its end with its own beats, and engines go first."""

import numpy as np
import pytest

from cnna.spec.config import BEAT_BYTES

from ...rigs.axi_memory import BusMemory, BusPace
from ...rigs.copy_bench import DDR_BYTES, DONE, PACES, CopyBench, transfers

DECERR = 3


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
