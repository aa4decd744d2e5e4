"""From the vector engine's accumulators to int8, against `arith`; under Verilator."""

import numpy as np
import pytest

from cnna.hw.lanes.parameter_slots import SLOTS
from cnna.hw.lanes.tables import IDENTITY
from cnna.hw.vector.drain import VectorDrain
from cnna.hw.vector.issue import ROOM
from cnna.spec.arith import combine, requantise
from cnna.spec.config import Config, preset

from ...rigs.block import make_block
from ...rigs.engine_cases import params
from ...rigs.paced import bits, paced_groups, run_paced
from ...rigs.streams import PACES

pytestmark = pytest.mark.cosim

WIDE = Config("wide", pix=4, ci=8, co=8, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)
GROUPS = 60
FIRST = 40  # clock of the first sums; every slot is filled by then


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("config", [preset("tiny"), WIDE], ids=lambda config: config.name)
def test_each_group_in_its_own_mode(config, pace):
    """Sums would be taken for operands, a slot, half or table for another, or constants reach a neighbour two clocks away.

    A sink that is slow or waits for `valid` would find an item lost, doubled or changed where the FIFO is nearly full.
    """
    rng = np.random.default_rng(9)
    uppers = rng.integers(0, 2, GROUPS)
    starts, accepts = paced_groups(rng, pace, (1 + uppers).tolist(), 2, ROOM, FIRST)
    clocks, words, size = len(accepts), config.vector_param_words, config.vector_word_bytes
    shape = (SLOTS, config.ci)
    offset, factor = rng.integers(-(1 << 20), 1 << 20, shape), rng.integers(1 << 23, 1 << 24, shape)
    shift = rng.integers(26, 34, shape)
    inputs = {name: np.zeros(clocks, np.int64) for name in ("param_valid", "param", "group_push", "group", "sums_valid")}
    ring, sums = np.zeros((clocks, size), np.uint8), np.zeros((clocks, config.pix, config.ci), "<i4")
    for slot in range(SLOTS):
        at = slot * words
        ring[at : at + words] = params(offset[slot], factor[slot], shift[slot]).reshape(words, size)
        inputs["param_valid"][at : at + words], inputs["param"][at : at + words] = 1, slot | np.arange(words) << 2
    wanted, frees = [], []
    for number in range(GROUPS):
        at, upper = starts[number], int(uppers[number])
        slot, ends, mode = (int(rng.integers(limit)) for limit in (SLOTS, 2, 2))
        bank = int(rng.choice([0, IDENTITY, IDENTITY]))
        zero, other = int(rng.integers(-128, 128)), int(rng.integers(-(1 << 24), 1 << 24))
        low, high = np.sort(rng.integers(-128, 128, 2))
        fields = [(slot, 2), (ends, 1), (upper, 1), (mode, 1), (bank, 2), (other, 26), (zero, 8), (low, 8), (high, 8)]
        inputs["group_push"][at - 10], inputs["group"][at - 10] = 1, bits(fields)
        inputs["sums_valid"][at] = 1
        acc = rng.integers(-(1 << 18), 1 << 18, (config.pix, config.ci))
        sums[at : at + 2] = acc
        if mode:
            a, b = ((acc >> part & 0xFF).astype(np.int8) for part in (0, 8))
            y = combine(a, factor[slot], b, other, offset[slot], shift[slot], zero, low, high)
        else:
            y = requantise(acc + offset[slot], factor[slot], shift[slot], zero, low, high)
        y = y * (bank == IDENTITY)  # the other banks still hold zeros
        wanted += list(y.reshape(2, -1)[: 1 + upper])
        if ends:
            frees.append(at + upper)
    inputs |= {"ring_data": ring, "sums": sums.reshape(clocks, -1).view(np.uint8), "o__ready": accepts}
    found = run_paced(make_block(VectorDrain, config), inputs, pace)
    valid = found["o__valid"][:, 0] & inputs["o__ready"] == 1
    np.testing.assert_array_equal(found["o__payload"][valid].view(np.int8), np.array(wanted))
    np.testing.assert_array_equal(np.nonzero(found["slot_free"][:, 0])[0], frees)
    np.testing.assert_array_equal(found["room_free"][:, 0] == 1, valid)
