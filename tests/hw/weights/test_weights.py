"""The weight engine with its read masters and both rings, against the stripes in memory."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.base.ports import RING_LATENCY
from cnna.hw.verilog.blocks import vector_ring, weight_ring
from cnna.hw.weights.weights import Weights
from cnna.spec.codebook import BOOKS, CODES, PLAIN, book_beats, decoded, stripe_rows, unpacked_books, word_beats
from cnna.spec.config import BEAT_BYTES, Config, preset

from ...rigs.axi_memory import BusMemory, BusPace, serve_reads
from ...rigs.deadline import CLOCK_SECONDS, deadline

CONFIGS = (
    preset("tiny"),
    Config("three", pix=4, ci=8, co=24, ports=3, regions=1, bank_words=256, ring_words=64, vector_ring_words=256),
    replace(preset("tiny"), name="tiny in codes", codebook=True),
    Config("three in codes", 4, 8, 24, ports=3, regions=1, bank_words=256, ring_words=64, vector_ring_words=256, codebook=True),
)
PACES = {"fast": BusPace(latency=20), "stalled": BusPace(ready=0.4, valid=0.5, latency=5)}
FULL_CLOCKS = 100  # how long a ring stands full to its last beat before anything is read
DEADLINE_CLOCKS = 15_000
SEGMENTS = (0x0, 0x8000, 0x10000, 0x18000)
PORT_BYTES = 0x2010


def commands(config: Config) -> list[dict[str, int]]:
    """Both rings in turn, with repeats, one command that fills the ring to its last beat, and starts beside a 256-byte boundary.

    With books, the same in codes: some between plain words, some that fill the ring, and books that come while codes wait for room.
    """
    word = config.stripe_bytes // BEAT_BYTES  # beats of a ring word on a port

    def one(ring: int, ddr: int, beats: int, repeat: int = 1, seg: int = 0, code: int = PLAIN) -> dict[str, int]:
        kind = {"code": code} if config.codebook else {}
        return {"ring": ring, "seg": seg, "ddr": ddr, "port": PORT_BYTES, "beats": beats, "repeat": repeat, **kind}

    coded = [
        one(0, 0x20, book_beats(config), code=BOOKS),
        one(0, 0x230, 9 * word_beats(config), code=CODES),
        one(0, 0x400, 2 * word),
        one(0, 0x510, 3 * word_beats(config), repeat=2, code=CODES, seg=2),
        one(1, 0x110, 2 * config.vector_word_beats),
        one(0, 0xF0, book_beats(config), code=BOOKS, seg=2),
        one(0, 0x10, config.ring_words * word_beats(config), code=CODES, seg=1),
        one(0, 0xFC0, book_beats(config), code=BOOKS, seg=1),
        one(0, 0x7F0, 30 * word_beats(config), code=CODES),
    ]
    return [
        *(coded if config.codebook else []),
        one(0, 0x30, 5 * word),
        one(1, 0x7F0, 18, seg=1),
        one(0, 0x100, 7 * word, repeat=4),
        one(1, 0x40, 3 * config.vector_word_beats, repeat=2, seg=2),
        one(0, 0x0, config.ring_words * word, seg=3),
        one(0, 0xFF0, 20 * word, seg=1),
        one(1, 0x10, 300 * config.vector_word_beats),
    ]


def expected(config: Config, memory: BusMemory, ring: int) -> list[bytes]:
    """The words that a ring must get, by docs/engines.md."""
    columns = config.ports if ring == 0 else 1
    size = config.stripe_bytes if ring == 0 else config.vector_word_bytes
    words, books = [], []
    for command in (c for c in commands(config) if c["ring"] == ring):
        base, kind = SEGMENTS[command["seg"]] + command["ddr"], command.get("code", PLAIN)
        if kind != PLAIN:
            stripes = [memory.bytes[base + port * PORT_BYTES :][: command["beats"] * BEAT_BYTES] for port in range(columns)]
            if kind == BOOKS:
                books = [unpacked_books(stripe, stripe_rows(config)) for stripe in stripes]
                continue
            parts = [decoded(stripe, own, config) for stripe, own in zip(stripes, books, strict=True)]
            words += [row.tobytes() for row in np.concatenate(parts, axis=1)] * command["repeat"]
            continue
        for _ in range(command["repeat"]):
            for at in range(0, command["beats"] * BEAT_BYTES, size):
                starts = [base + port * PORT_BYTES + at for port in range(columns)]
                words.append(b"".join(memory.bytes[start : start + size].tobytes() for start in starts))
    return words


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("pace", PACES)
def test_rings_get_every_word_in_order(config, pace):
    """A stripe in the wrong column, a burst into a full ring or a lost repeat would change a word; a ring never quite full would
    hang.
    """
    memory = BusMemory(0x20000, PACES[pace])
    dut, rings = Weights(config), (weight_ring(config), vector_ring(config))
    top = Module()
    top.submodules.dut = dut
    top.submodules.ring0, top.submodules.ring1 = rings
    columns = [*zip(dut.ring, rings[0].write, rings[0].free, strict=True), (dut.vector_ring, rings[1].write[0], rings[1].free[0])]
    for writer, write, free in columns:
        connect(top, writer.beat, write)
        top.d.comb += writer.free.eq(free)
    buses = []
    for port, client in enumerate(dut.clients):
        top.submodules[f"master{port}"] = master = ReadMaster(1)
        connect(top, client, master.clients[0])
        buses.append(master.bus)
    simulator = Simulator(top)
    simulator.add_clock(CLOCK_SECONDS)
    ends = []

    async def drive(ctx):
        for number, base in enumerate(SEGMENTS):
            ctx.set(dut.segments[number], base)
        for command in commands(config):
            ctx.set(dut.command.payload, command)
            ctx.set(dut.command.valid, 1)
            await ctx.tick().until(dut.command.ready)
        ctx.set(dut.command.valid, 0)
        await ctx.tick().until(~dut.busy)
        ends.append(True)

    def read(number):
        async def check(ctx):
            rng, ring = np.random.default_rng(number), rings[number].read
            while ctx.get(ring.level) < rings[number].depth:
                await ctx.tick()
            for _ in range(FULL_CLOCKS):
                await ctx.tick()
            for word in expected(config, memory, number):
                for _ in range(int(rng.integers(8))):
                    await ctx.tick()
                while not ctx.get(ring.level):
                    await ctx.tick()
                ctx.set(ring.enable, 1)
                ctx.set(ring.pop, 1)
                await ctx.tick()
                ctx.set(ring.enable, 0)
                ctx.set(ring.pop, 0)
                for _ in range(RING_LATENCY - 1):
                    await ctx.tick()
                assert ctx.get(ring.data).to_bytes(len(word), "little") == word

        return check

    for port, bus in enumerate(buses):

        async def serve(ctx, bus=bus, port=port):
            await serve_reads(ctx, bus, memory, port)

        simulator.add_testbench(serve, background=True)
    simulator.add_testbench(deadline(DEADLINE_CLOCKS), background=True)
    for testbench in (drive, read(0), read(1)):
        simulator.add_testbench(testbench)
    simulator.run()
    assert ends
