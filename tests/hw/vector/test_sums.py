"""The vector engine's multipliers and accumulators against numpy; under Verilator."""

import numpy as np
import pytest

from cnna.hw.vector.sums import PixelProducts, VectorSums
from cnna.spec.config import Config, preset
from cnna.spec.regmap import VECTOR_OPS

from ...rigs import bench
from ...rigs.block import make_block

pytestmark = pytest.mark.cosim

WIDE = Config("wide", pix=4, ci=8, co=8, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)


def answer(op, x, w):
    """What a group's steps x int8 [steps, pix, ci] leave in the accumulators, with weights w int8 [steps, ci]."""
    x = x.astype(np.int64)
    if op == "depthwise":
        return (x * w[:, None]).sum(axis=0)
    if op == "average":
        return x.sum(axis=0)
    if op == "max":
        return x.max(axis=0) & 0xFF
    return (x[0] & 0xFF) | ((x[1] & 0xFF) << 8 if len(x) > 1 else 0)


@pytest.mark.parametrize("config", [preset("tiny"), WIDE], ids=lambda config: config.name)
def test_groups_of_every_operation(config):
    """Operations alternate, with gaps between steps. A group that kept something of the one before, or of a gap, would be wrong."""
    rng, block = np.random.default_rng(8), make_block(VectorSums, config)
    groups = []
    for number in range(200):
        op = int(rng.integers(len(VECTOR_OPS)))
        steps = int(rng.integers(1, 3)) if VECTOR_OPS[op] == "elementwise" else int(rng.integers(1, 12))
        groups.append((op, steps, number))
    clocks = 3 * sum(steps for _, steps, _ in groups) + 100
    feed = np.zeros(clocks, np.int64)
    words = rng.choice([-128, -127, 0, 127, 5, -7], (clocks, config.pix, config.ci)).astype(np.int8)
    weight = rng.choice([-128, 127, -1, 3], (clocks, config.ci)).astype(np.int8)
    at, wanted = 5, []
    for op, steps, _ in groups:
        taken = []
        for step in range(steps):
            at += 1 + int(rng.integers(0, 3) == 0)
            feed[at] = 1 | (step == 0) << 1 | (step == steps - 1) << 2 | op << 3
            taken.append(at)
        wanted.append((taken[-1] + block.component.latency, answer(VECTOR_OPS[op], words[taken], weight[taken])))
    feed[feed & 1 == 0] = rng.choice([2, 4, 14, 30], (feed & 1 == 0).sum())  # flags without valid mean nothing
    found = bench.run(block, {"feed": feed, "words": words.reshape(clocks, -1).view(np.uint8), "weight": weight.view(np.uint8)})
    np.testing.assert_array_equal(np.nonzero(found["o_valid"][:, 0])[0], [clock for clock, _ in wanted])
    sums = bench.integers(found["sums"], 32, signed=True).reshape(clocks, config.pix, config.ci)
    for number, (clock, group) in enumerate(wanted):
        held = range(clock, wanted[number + 1][0] if number + 1 < len(wanted) else clock + 1)
        for t in held:
            np.testing.assert_array_equal(sums[t], group, err_msg=f"group {number} of {VECTOR_OPS[groups[number][0]]}")


@pytest.mark.parametrize("config", [preset("tiny"), WIDE], ids=lambda config: config.name)
def test_products_equal_numpy(config: Config) -> None:
    """A pixel or channel would take another one's product, or two pixels that share a DSP would disturb each other, even at
    -128.
    """
    rng, block, clocks = np.random.default_rng(3), make_block(PixelProducts, config), 3000
    words, weight = (
        np.where(rng.random(shape) < 0.3, rng.choice([-128, 127], shape), rng.integers(-128, 128, shape)).astype(np.int8)
        for shape in ((clocks, config.pix, config.ci), (clocks, 1, config.ci))
    )
    valid = rng.integers(0, 2, clocks)
    found = bench.run(block, {"words": words.view(np.uint8), "weight": weight.view(np.uint8), "valid": valid})
    latency = block.component.latency
    late, asked = slice(latency, None), slice(None, -latency)
    np.testing.assert_array_equal(found["o_valid"][late, 0], valid[asked])
    got = bench.integers(found["products"], 16, signed=True).reshape(words.shape)[late]
    np.testing.assert_array_equal(got, (words.astype(np.int64) * weight)[asked])
