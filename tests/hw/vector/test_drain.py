"""From the vector engine's accumulators to int8, against `arith`; under Verilator."""

import numpy as np
import pytest

from cnna.hw.lanes.parameter_slots import SLOTS
from cnna.hw.vector.drain import VectorDrain
from cnna.spec.arith import combine, requantise
from cnna.spec.config import Config, preset

from ...rigs import bench
from ...rigs.engine_cases import params

pytestmark = pytest.mark.cosim

WIDE = Config("wide", pix=4, ci=8, co=8, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)
GROUPS = 60
FIRST = 40  # clock of the first sums; every slot is filled by then


def bits(fields):
    """(value, width) pairs from bit 0 up, as one number."""
    total, at = 0, 0
    for value, width in fields:
        total |= (int(value) & ((1 << width) - 1)) << at
        at += width
    return total


@pytest.mark.parametrize("config", [preset("tiny"), WIDE], ids=lambda config: config.name)
def test_each_group_in_its_own_mode(config):
    """Sums taken for operands, a slot or half for another, constants that reach a neighbour: groups two clocks apart show them."""
    rng = np.random.default_rng(9)
    clocks, words = FIRST + 2 * GROUPS + 60, config.ci // 2
    shape = (SLOTS, config.ci)
    offset, factor = rng.integers(-(1 << 20), 1 << 20, shape), rng.integers(1 << 23, 1 << 24, shape)
    shift = rng.integers(26, 34, shape)
    inputs = {name: np.zeros(clocks, np.int64) for name in ("param_valid", "param", "group_push", "group", "sums_valid")}
    ring, sums = np.zeros((clocks, 16), np.uint8), np.zeros((clocks, config.pix, config.ci), "<i4")
    for slot in range(SLOTS):
        at = slot * words
        ring[at : at + words] = params(offset[slot], factor[slot], shift[slot]).reshape(words, 16)
        inputs["param_valid"][at : at + words], inputs["param"][at : at + words] = 1, slot | np.arange(words) << 2
    wanted, frees = [], []
    for number in range(GROUPS):
        at, slot, ends, upper, mode = FIRST + 2 * number, *(int(rng.integers(n)) for n in (SLOTS, 2, 2, 2))
        zero, (low, high), other = (
            int(rng.integers(-128, 128)),
            np.sort(rng.integers(-128, 128, 2)),
            int(rng.integers(-(1 << 24), 1 << 24)),
        )
        fields = [(slot, 2), (ends, 1), (upper, 1), (mode, 1), (other, 26), (zero, 8), (low, 8), (high, 8)]
        inputs["group_push"][at - 10], inputs["group"][at - 10] = 1, bits(fields)
        inputs["sums_valid"][at] = 1
        acc = rng.integers(-(1 << 18), 1 << 18, (config.pix, config.ci))
        sums[at : at + 2] = acc
        if mode:
            a, b = ((acc >> part & 0xFF).astype(np.int8) for part in (0, 8))
            y = combine(a, factor[slot], b, other, offset[slot], shift[slot], zero, low, high)
        else:
            y = requantise(acc + offset[slot], factor[slot], shift[slot], zero, low, high)
        wanted += list(y.reshape(2, -1)[: 1 + upper])
        if ends:
            frees.append(at + upper)
    found = bench.run(
        VectorDrain(config),
        {
            **inputs,
            "ring_data": ring,
            "sums": sums.reshape(clocks, -1).view(np.uint8),
            "o__ready": np.ones(clocks, np.int64),
        },
    )
    valid = found["o__valid"][:, 0] == 1
    np.testing.assert_array_equal(found["o__payload"][valid].view(np.int8), np.array(wanted))
    np.testing.assert_array_equal(np.nonzero(found["slot_free"][:, 0])[0], frees)
    np.testing.assert_array_equal(found["room_free"][:, 0] == 1, valid)
