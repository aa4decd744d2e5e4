"""A bench for copies between stream ports and DDR, with the masters that they share, on a memory that stalls at random."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from amaranth import Elaboratable, Module
from amaranth.lib.wiring import connect

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteArbiter, WriteMaster
from cnna.hw.dma.streams import StreamIn, StreamOut
from cnna.spec.config import BEAT_BYTES
from cnna.spec.regmap import STREAM_ERRORS

from .axi_memory import BusMemory, BusPace, serve_reads, serve_writes
from .replay import Replay

PACES = {"fast": BusPace(latency=1), "stalled": BusPace(ready=0.3, valid=0.4, latency=5), "slow": BusPace(0.9, 0.9, latency=200)}
DDR_BYTES = 0x4000


class Copies(Elaboratable):
    """The copies behind the masters, and for each master one more client with priority."""

    def __init__(self) -> None:
        self.came, self.goes = StreamIn(), StreamOut()
        self.read, self.write, self.share = ReadMaster(2, background=True), WriteMaster(), WriteArbiter()

    def elaborate(self, platform):
        m = Module()
        m.submodules.came, m.submodules.goes = self.came, self.goes
        m.submodules.read, m.submodules.write, m.submodules.share = self.read, self.write, self.share
        connect(m, self.goes.client, self.read.clients[1])
        connect(m, self.came.client, self.share.clients[1])
        connect(m, self.share.master, self.write.client)
        m.d.comb += [self.goes.response.eq(self.read.response), self.came.response.eq(self.write.response)]
        m.d.comb += self.came.bad.eq(self.write.bad & self.share.second_done)
        return m


@cache
def _simulation() -> Replay:
    return Replay(Copies())


@dataclass
class CopyBench:
    """Copies with a memory and with the other ends of their streams."""

    memory: BusMemory = field(default_factory=lambda: BusMemory(DDR_BYTES))
    pace: float = 1.0  # of the streams' other ends

    def __post_init__(self):
        self.simulation = _simulation()
        design = self.simulation.design
        self.came, self.goes, self.read, self.write = design.came, design.goes, design.read, design.write
        self.reader, self.writer = design.read.clients[0], design.share.clients[0]
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

        self.simulation.run(*testbenches, before=(reads, writes, promise))

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
