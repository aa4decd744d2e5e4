"""The decoder of weights in 4 bits against `spec.codebook`, beat by beat."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import Simulator

from cnna.hw.weights.codebook import CodeDecoder
from cnna.spec.codebook import BOOKS, CODES, PLAIN, book_beats, decoded, packed_books, stripe_rows, word_beats
from cnna.spec.config import BEAT_BYTES, PRESETS, Config, ConfigError

CONFIGS = [replace(config, codebook=True) for config in PRESETS.values()]
LATENCY = 2  # clocks from a beat to what it becomes
SHARES = {"every clock": 1.0, "gaps": 0.4}


def stream(config: Config, rng: np.random.Generator) -> tuple[list[tuple[int, bytes]], list[tuple[bytes, ...]]]:
    """Beats of all kinds as (kind, beat), and what the ring gets for them: one beat, or two."""
    beats: list[tuple[int, bytes]] = []
    wanted: list[tuple[bytes, ...]] = []

    def add(kind: int, data: np.ndarray) -> list[bytes]:
        cut = [row.tobytes() for row in data.reshape(-1, BEAT_BYTES)]
        beats.extend((kind, beat) for beat in cut)
        return cut

    for _ in range(3):
        wanted += [(beat,) for beat in add(PLAIN, rng.integers(0, 256, 3 * BEAT_BYTES, np.uint8))]
        books = rng.integers(-128, 128, (stripe_rows(config), 16)).astype(np.int8)
        assert len(add(BOOKS, packed_books(books))) == book_beats(config)
        codes = rng.integers(0, 256, 5 * word_beats(config) * BEAT_BYTES, np.uint8)
        add(CODES, codes)
        halves = decoded(codes, books, config).reshape(-1, 2, BEAT_BYTES)
        wanted += [(low.tobytes(), high.tobytes()) for low, high in halves]
    return beats, wanted


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("share", SHARES)
def test_codes_become_what_their_books_have(config, share, seed):
    """A code would be looked up in another row's book or in the books before, or a beat be lost or late behind another kind."""
    rng = np.random.default_rng(seed)
    beats, wanted = stream(config, rng)
    dut, found = CodeDecoder(config), []

    def seen(ctx):
        if not ctx.get(dut.o.valid):
            return
        low, high = (ctx.get(getattr(dut.o.payload, name)).to_bytes(BEAT_BYTES, "little") for name in ("low", "high"))
        if ctx.get(dut.o.payload.pair):
            found.append((low, high))
        else:
            assert low == high, "a plain beat stands in both places"
            found.append((low,))

    async def drive(ctx):
        for kind, beat in beats:
            while rng.random() >= SHARES[share]:
                ctx.set(dut.i.valid, 0)
                await ctx.tick()
                seen(ctx)
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload, {"data": int.from_bytes(beat, "little"), "kind": kind})
            await ctx.tick()
            seen(ctx)
        ctx.set(dut.i.valid, 0)
        for _ in range(LATENCY - 1):
            await ctx.tick()
            seen(ctx)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert found == wanted


def test_stripes_of_an_odd_beat_are_refused():
    """Half of a pair of beats would belong to the next ring word."""
    with pytest.raises(ConfigError, match=r"codebook.*16 bytes of a ring word"):
        Config("odd", pix=2, ci=4, co=8, ports=2, regions=1, bank_words=128, ring_words=64, vector_ring_words=256, codebook=True)
