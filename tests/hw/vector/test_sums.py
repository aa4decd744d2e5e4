"""The vector engine's multipliers and accumulators against numpy; under Verilator."""

import numpy as np
import pytest

from cnna.hw.vector.products import Factor, PairProducts
from cnna.hw.vector.sums import VectorSums
from cnna.spec.config import Config, preset
from cnna.spec.regmap import VECTOR_OPS

from ...rigs import bench
from ...rigs.block import make_block
from ...rigs.paced import bits

PRODUCT = VECTOR_OPS.index("product")

pytestmark = pytest.mark.cosim

WIDE = Config("wide", pix=4, ci=8, co=8, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)


def answer(op, x, w, zeros):
    """What a group's steps x int8 [steps, pix, ci] leave in the accumulators. w: weights int8 [steps, ci]; zeros: a product's."""
    x = x.astype(np.int64)
    if op == "product":
        return (x[1] - zeros[0]) * (x[0] - zeros[1])
    if op == "depthwise":
        return (x * w[:, None]).sum(axis=0)
    if op == "average":
        return x.sum(axis=0)
    if op in ("max", "minimum"):
        return (x.max(axis=0) if op == "max" else x.min(axis=0)) & 0xFF
    return (x[0] & 0xFF) | ((x[1] & 0xFF) << 8 if len(x) > 1 else 0)


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
    feed = np.zeros(clocks, np.int64)
    words = rng.choice([-128, -127, 0, 127, 5, -7], (clocks, config.pix, config.ci)).astype(np.int8)
    weight = rng.choice([-128, 127, -1, 3], (clocks, config.ci)).astype(np.int8)
    at, wanted = 5, []
    feed[:] = np.where(rng.random(clocks) < 0.5, rng.integers(0, 1 << 33, clocks) << 1, 0)  # flags without valid mean nothing
    before = None
    for op, steps, _ in groups:
        taken = []
        if op != before:
            zeros = (rng.choice([-128, 127, 0, -3]), rng.choice([-128, 127, 0, 90])) if op == PRODUCT else (0, 0)
        at += PRODUCT in (op, before) and op != before  # an accelerator takes longer from a command to the next
        before = op
        for step in range(steps):
            at += 1 + int(rng.integers(0, 3) == 0)
            feed[at - 1] = 1 | (step == 0) << 1 | (step == steps - 1) << 2 | op << 3 | packed_zeros(*zeros) << 6
            taken.append(at)
        if op == PRODUCT:
            feed[at] = feed[at] & 63 & ~1 | packed_zeros(*zeros) << 6
        late = block.component.latency + (op == PRODUCT)
        wanted.append((taken[-1] + late, answer(VECTOR_OPS[op], words[taken], weight[taken], zeros)))
    found = bench.run(block, {"feed": feed, "words": words.reshape(clocks, -1).view(np.uint8), "weight": weight.view(np.uint8)})
    np.testing.assert_array_equal(np.nonzero(found["o_valid"][:, 0])[0], [clock for clock, _ in wanted])
    sums = bench.integers(found["sums"], 32, signed=True).reshape(clocks, config.pix, config.ci)
    for number, (clock, group) in enumerate(wanted):
        held = range(clock, wanted[number + 1][0] if number + 1 < len(wanted) else clock + 1)
        for t in held:
            np.testing.assert_array_equal(sums[t], group, err_msg=f"group {number} of {VECTOR_OPS[groups[number][0]]}")


@pytest.mark.parametrize("channels", [4, 8])
def test_pairs_times_factors_equal_numpy(channels):
    """A pixel or channel would take another one's product, two pixels that share a DSP would disturb each other at the ends of
    int8 and of the zero points, or words would be kept or replaced in the wrong clock.
    """
    rng, block, clocks = np.random.default_rng(3), make_block(PairProducts, channels), 4000
    words, weight = (
        np.where(rng.random(shape) < 0.3, rng.choice([-128, 127], shape), rng.integers(-128, 128, shape)).astype(np.int8)
        for shape in ((clocks, 2, channels), (clocks, channels))
    )
    load, keep, factor = (rng.integers(limit, size=clocks) for limit in (2, 2, 4))
    load[0] = keep[0] = 0  # what to do with these words would come before the run
    zeros = rng.choice([-128, 127, 0, 1, -1, 55], (clocks, 2))
    control = [
        bits([(int(a), 1), (int(b), 1), (int(c), 2)]) | packed_zeros(*z) << 4
        for a, b, c, z in zip(load, keep, factor, zeros, strict=True)
    ]
    inputs = {"words": words.view(np.uint8), "weight": weight.view(np.uint8), "multiply": np.array([*control[1:], 0])}
    found = bench.run(block, inputs)
    held = kept = np.zeros((2, channels), np.int64)
    latency, wanted = block.component.latency, np.zeros((clocks, 2, channels), np.int64)
    for clock in range(clocks):
        by = {Factor.ONE: np.ones_like(held[0]), Factor.WEIGHT: weight[clock], Factor.EVEN: kept[0], Factor.ODD: kept[1]}
        difference = by[Factor(factor[clock])].astype(np.int64) - zeros[clock, 1]
        held = words[clock].astype(np.int64) if load[clock] else held
        kept = words[clock].astype(np.int64) if keep[clock] else kept
        wanted[clock] = (held - zeros[clock, 0]) * difference
    bits_of = np.unpackbits(found["products"], axis=1, bitorder="little")[:, : 34 * channels].reshape(clocks, 2 * channels, 17)
    got = (bits_of[..., :16] @ (1 << np.arange(16)) - (bits_of[..., 16].astype(np.int64) << 16)).reshape(clocks, 2, channels)
    begun = 1 + int(np.argmax(load & (np.cumsum(keep) > 0)))  # before that, registers hold what they held at power-up
    np.testing.assert_array_equal(got[begun + latency :], wanted[begun:-latency])
