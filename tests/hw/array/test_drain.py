"""From the array's sums to int8, against numpy; under Verilator."""

import numpy as np
import pytest

from cnna.hw.array.drain import Drain
from cnna.hw.array.issue import ROOM
from cnna.hw.lanes.parameter_slots import SLOTS
from cnna.hw.lanes.tables import IDENTITY
from cnna.spec.arith import requantise
from cnna.spec.config import Config, preset

from ...rigs.block import make_block
from ...rigs.engine_cases import params
from ...rigs.paced import bits, paced_groups, run_paced
from ...rigs.streams import PACES

pytestmark = pytest.mark.cosim

THREE = Config("three", pix=4, ci=8, co=24, ports=3, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)
GROUPS = 40
FIRST = 20  # clock of the first sums; every slot is filled by then


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("config", [preset("tiny"), THREE], ids=lambda config: config.name)
def test_halves_then_blocks_by_their_own_parameters(config, pace):
    """A half, block, channel, slot or table would be taken for another, bounds would reach a neighbour, or a slot be freed at a
    wrong time.

    A sink that is slow or waits for `valid` would find an item lost, doubled or changed where the FIFO is nearly full.
    """
    rng, span = np.random.default_rng(5), 2 * config.chunk_blocks
    uppers = rng.random(GROUPS) < 0.7
    starts, accepts = paced_groups(rng, pace, (config.chunk_blocks * (1 + uppers)).tolist(), span, ROOM, FIRST)
    clocks = len(accepts)
    offset, shift = rng.integers(-(1 << 12), 1 << 12, (SLOTS, config.co)), rng.integers(28, 34, (SLOTS, config.co))
    factor = rng.integers(1 << 23, 1 << 24, (SLOTS, config.co))
    inputs = {name: np.zeros(clocks, np.int64) for name in ("param_valid", "param", "group_push", "group", "sums_valid")}
    ring = np.zeros((clocks, config.ring_word_bytes), np.uint8)
    sums = np.zeros((clocks, config.pix, config.co), "<i4")
    for slot in range(SLOTS):
        raw = np.zeros((config.param_words, config.ring_word_bytes), np.uint8)
        raw.reshape(-1)[: 8 * config.co] = params(offset[slot], factor[slot], shift[slot])
        for word, row in enumerate(raw):
            at = slot * config.param_words + word
            inputs["param_valid"][at], inputs["param"][at], ring[at] = 1, slot | word << 2, row
    wanted, frees = [], []
    for number in range(GROUPS):
        at, upper = starts[number], int(uppers[number])
        slot, ends = (int(rng.integers(limit)) for limit in (SLOTS, 2))
        zero, (low, high) = int(rng.integers(-128, 128)), np.sort(rng.integers(-128, 128, 2))
        last, bank = number == GROUPS - 1, int(rng.choice([0, IDENTITY, IDENTITY]))
        inputs["group_push"][at - 12] = inputs["sums_valid"][at] = 1
        inputs["group"][at - 12] = bits([(slot, 2), (upper, 1), (ends, 1), (last, 1), (bank, 2), (zero, 8), (low, 8), (high, 8)])
        sums[at : at + span] = acc = rng.integers(-(1 << 16), 1 << 16, (config.pix, config.co))
        y = requantise(acc + offset[slot], factor[slot], shift[slot], zero, low, high)
        y = y * (bank == IDENTITY)  # the other banks still hold zeros
        y = y.reshape(2, config.half, config.chunk_blocks, config.ci).swapaxes(1, 2)[: 1 + upper]
        wanted += list(y.reshape(-1, config.half * config.ci))
        if ends:
            frees.append(at + span * (1 + upper) // 2 - 1)
    inputs |= {"ring_data": ring, "sums": sums.reshape(clocks, -1).view(np.uint8), "o__ready": accepts}
    found = run_paced(make_block(Drain, config), inputs, pace)
    valid = found["o__valid"][:, 0] & inputs["o__ready"] == 1
    payload = found["o__payload"][valid]
    np.testing.assert_array_equal(payload[:, : config.half * config.ci].view(np.int8), np.array(wanted))
    np.testing.assert_array_equal(payload[:, -1], np.arange(len(wanted)) == len(wanted) - 1)
    np.testing.assert_array_equal(np.nonzero(found["slot_free"][:, 0])[0], frees)
    np.testing.assert_array_equal(found["room_free"][:, 0] == 1, valid)
