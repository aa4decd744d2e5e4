"""The vector engine's multipliers and accumulators against numpy; under Verilator."""

import numpy as np
import pytest

from cnna.hw.vector.products import Factor, PairProducts
from cnna.hw.vector.sums import VectorSums
from cnna.spec.config import TAPS, Config, preset
from cnna.spec.regmap import VECTOR_OPS

from ...rigs import bench
from ...rigs.block import make_block
from ...rigs.paced import bits

PRODUCT = VECTOR_OPS.index("product")

pytestmark = pytest.mark.cosim

WIDE = Config("wide", pix=4, ci=8, co=8, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)


NOTHING = {"max": -128, "elementwise": -128, "minimum": 127}  # what taps that are not there must read; 0 for sums


def answer(op, x, w, zeros):
    """What steps x int8 [steps, taps, pix, ci] of a group leave in the accumulators. w: [steps, taps, ci]; zeros: a product's."""
    x = x.astype(np.int64)
    if op == "product":
        return (x[1, 0] - zeros[0]) * (x[0, 0] - zeros[1])
    if op == "depthwise":
        return (x * w[:, :, None]).sum(axis=(0, 1))
    if op == "average":
        return x.sum(axis=(0, 1))
    if op in ("max", "minimum"):
        return (x.max(axis=(0, 1)) if op == "max" else x.min(axis=(0, 1))) & 0xFF
    return (x[0, 0] & 0xFF) | ((x[1, 0] & 0xFF) << 8 if len(x) > 1 else 0)


def packed_zeros(word, factor):
    """`zeros_of` as bits, from the sums that they must make: (odd << 18) + even + 128 + these = the pair minus the zero points."""
    low = -128 - word
    return bits([(low, 9), (-word - (low < 0), 9), (-factor, 9)])


@pytest.mark.parametrize("config", [preset("tiny"), WIDE], ids=lambda config: config.name)
def test_groups_of_every_operation(config):
    """Operations alternate, with gaps between steps. A group that kept something of the one before, or of a gap, would be wrong.

    A product takes the clock after its last step too, and its zero points with it; products follow each other without a gap.
    """
    rng, block = np.random.default_rng(8), make_block(VectorSums, config)
    groups = []
    for number in range(300):
        op = PRODUCT if number % 50 > 40 else int(rng.integers(len(VECTOR_OPS)))
        steps = 2 if op == PRODUCT else int(rng.integers(1, 3)) if VECTOR_OPS[op] == "elementwise" else int(rng.integers(1, 12))
        groups.append((op, steps, number))
    clocks = 3 * sum(steps for _, steps, _ in groups) + 1000
    values = np.array([-128, -127, 0, 127, 5, -7], np.int8)
    words = rng.choice(values, (clocks, config.pix + TAPS - 1, config.ci))
    weights = rng.choice([-128, 127, -1, 3], (clocks, TAPS, config.ci)).astype(np.int8)
    inside = rng.random((clocks, config.pix, TAPS)) < 0.7
    pads = rng.choice(values, (clocks, TAPS))
    feed = np.where(rng.random(clocks) < 0.5, rng.integers(0, 1 << 33, clocks) << 1, 0)  # flags without valid mean nothing
    at, wanted, before = 5, [], None
    for op, steps, _ in groups:
        name, taken = VECTOR_OPS[op], []
        if op != before:
            zeros = (rng.choice([-128, 127, 0, -3]), rng.choice([-128, 127, 0, 90])) if op == PRODUCT else (0, 0)
        at += PRODUCT in (op, before) and op != before  # an accelerator takes longer from a command to the next
        before = op
        for step in range(steps):
            at += 1 + int(rng.integers(0, 3) == 0)
            feed[at - 1] = 1 | (step == 0) << 1 | (step == steps - 1) << 2 | op << 3 | packed_zeros(*zeros) << 6
            taps = 1 if name in ("elementwise", "product") else int(rng.integers(1, TAPS + 1))
            inside[at, :, taps:], pads[at, taps:] = False, NOTHING.get(name, 0)
            taken.append(at)
        if op == PRODUCT:
            feed[at] = feed[at] & 63 & ~1 | packed_zeros(*zeros) << 6
        late = block.component.latency + (op == PRODUCT)
        tops = np.stack([words[taken, tap : tap + config.pix] for tap in range(TAPS)], axis=1)
        x = np.where(inside[taken].swapaxes(1, 2)[..., None], tops, pads[taken][:, :, None, None])
        wanted.append((taken[-1] + late, answer(name, x, weights[taken], zeros)))
    fields = [
        [(int(feed[at]), 33), *((int(bit), 1) for bit in inside[at + 1].flat), *((int(p), 8) for p in pads[at + 1])]
        for at in range(clocks - 1)
    ]
    size = -(-(33 + 3 * config.pix + 8 * TAPS) // 8)
    rows = np.array([np.frombuffer(bits(row).to_bytes(size, "little"), np.uint8) for row in [*fields, [(0, 1)]]])
    given = {"feed": rows, "words": words.reshape(clocks, -1), "weights": weights.reshape(clocks, -1)}
    found = bench.run(block, {name: np.ascontiguousarray(rows).view(np.uint8) for name, rows in given.items()})
    np.testing.assert_array_equal(np.nonzero(found["o_valid"][:, 0])[0], [clock for clock, _ in wanted])
    sums = bench.integers(found["sums"], 32, signed=True).reshape(clocks, config.pix, config.ci)
    for number, (clock, group) in enumerate(wanted):
        held = range(clock, wanted[number + 1][0] if number + 1 < len(wanted) else clock + 1)
        for t in held:
            np.testing.assert_array_equal(sums[t], group, err_msg=f"group {number} of {VECTOR_OPS[groups[number][0]]}")


@pytest.mark.parametrize("channels", [4, 8])
def test_pairs_times_factors_equal_numpy(channels):
    """A pixel, tap or channel would take another one's product, two pixels that share a DSP would disturb each other at the ends of
    int8 and of the zero points, or words would be kept, replaced or picked in the wrong clock.
    """
    rng, block, clocks = np.random.default_rng(3), make_block(PairProducts, channels), 4000
    words, weights = (
        np.where(rng.random(shape) < 0.3, rng.choice([-128, 127], shape), rng.integers(-128, 128, shape)).astype(np.int8)
        for shape in ((clocks, TAPS + 1, channels), (clocks, TAPS, channels))
    )
    load, keep, factor, least = (rng.integers(limit, size=clocks) for limit in (2, 2, 4, 2))
    zeros, inside = rng.choice([-128, 127, 0, 1, -1, 55], (clocks, 2)), rng.random((clocks, 2, TAPS)) < 0.7
    pads = rng.integers(-128, 128, (clocks, TAPS))
    product = np.arange(clocks) % 50 < 25  # a product has one tap a step, and only it has zero points and factors of its own
    load[::25] = keep[::25] = 1
    load[0] = keep[0] = 0  # what to do with these words would come before the run
    inside[product, :, 1:], pads[product, 1:] = False, 0
    zeros[~product], factor[~product] = 0, factor[~product] & 1
    control = [
        bits([(a, 1), (b, 1), (c, 2), (packed_zeros(*z), 27), (d, 1), *((value, 8) for value in p)])
        for a, b, c, z, d, p in zip(load, keep, factor, zeros, least, pads, strict=True)
    ]
    masks = [bits([(bit, 1) for bit in row.flat]) for row in inside]
    inputs = {"words": words.reshape(clocks, -1).view(np.uint8), "weights": weights.reshape(clocks, -1).view(np.uint8)}
    found = bench.run(block, inputs | {"multiply": np.array([*control[1:], 0]), "counts": np.array([*masks[1:], 0])})
    held, kept = np.zeros((TAPS, 2, channels), np.int64), np.zeros((2, channels), np.int64)
    latency, late = block.component.latency, block.component.pick_latency
    wanted, picked = (np.zeros((clocks, 2, channels), np.int64) for _ in range(2))
    for clock in range(clocks):
        by = {Factor.ONE: np.ones_like(kept[0]), Factor.WEIGHT: weights[clock, 0], Factor.EVEN: kept[0], Factor.ODD: kept[1]}
        difference = by[Factor(factor[clock])].astype(np.int64) - zeros[clock, 1]
        taps = np.stack([np.stack([words[clock, tap + odd] for odd in (0, 1)]) for tap in range(TAPS)]).astype(np.int64)
        taps = np.where(inside[clock].T[..., None], taps, pads[clock][:, None, None])
        held = taps if load[clock] else held
        kept = taps[0] if keep[clock] else kept
        others = (
            weights[clock, 1:].astype(np.int64) if factor[clock] == Factor.WEIGHT.value else np.ones((TAPS - 1, channels), np.int64)
        )
        wanted[clock] = (held[0] - zeros[clock, 0]) * difference + (held[1:] * others[:, None]).sum(axis=0)
        picked[clock] = held.min(axis=0) if least[clock] else held.max(axis=0)
    bits_of = np.unpackbits(found["products"], axis=1, bitorder="little")[:, : 34 * channels].reshape(clocks, 2 * channels, 17)
    got = (bits_of[..., :16] @ (1 << np.arange(16)) - (bits_of[..., 16].astype(np.int64) << 16)).reshape(clocks, 2, channels)
    begun = 51  # before that, registers hold what they held at power-up
    np.testing.assert_array_equal(got[begun + latency :], wanted[begun:-latency])
    np.testing.assert_array_equal(found["picked"].view(np.int8).reshape(clocks, 2, channels)[begun + late :], picked[begun:-late])
