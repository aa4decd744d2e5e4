"""The tables behind the lanes by themselves: which entry an item gets, and when a table from the ring has been written."""

import numpy as np
import pytest

from cnna.hw.lanes import requant
from cnna.hw.lanes.look_up import GAP_AHEAD, LATENCY, LookUp
from cnna.hw.lanes.tables import BANKS, IDENTITY, WRITES
from cnna.spec.arith import look_up
from cnna.spec.config import TABLE_BYTES

from ...rigs import bench
from ...rigs.block import make_block

pytestmark = pytest.mark.cosim

LANES = 6  # a whole bundle and a part of one
CLOCKS = 2000
START = 20  # of the first table's words
AHEAD = requant.LATENCY - GAP_AHEAD  # clocks from an item to the gap that its write would need


@pytest.mark.parametrize("word_bytes", [16, 32, 48, 192, 256, 512])
def test_items_read_their_bank_while_the_other_is_written(word_bytes):
    """A write would hit an item's clock or bank, a byte would go to another entry, or a table would count as written too early.

    Tables come one after another, each into the bank before the newest. Items use the newest that is written when they reach the
    memory, or none; they come at all paces, some without a pause.
    """
    rng = np.random.default_rng(word_bytes)
    words = -(-TABLE_BYTES // word_bytes)
    valid = rng.random(CLOCKS) < np.repeat(rng.choice([0.1, 0.5, 0.9, 1.0], CLOCKS // 40), 40)
    free = np.cumsum(~valid)
    word = rng.integers(0, 256, (CLOCKS, word_bytes), np.uint8)
    load, newest, usable = np.zeros(CLOCKS, np.uint8), np.zeros(CLOCKS, np.uint8), np.full(CLOCKS, IDENTITY)
    tables, number = [np.arange(TABLE_BYTES, dtype=np.uint8)], np.zeros(CLOCKS, np.int64)  # number: of the table in use
    written, start = [], START
    while start + words + 8 < CLOCKS and free[-1] - free[start + words + 8] > WRITES:
        at = start + np.sort(rng.choice(words + 8, words, replace=False))
        load[at] = 1
        newest[at[-1] + 1 :] = len(tables) % 2
        written.append(AHEAD + int(np.searchsorted(free, free[at[-1] - AHEAD] + WRITES)))
        reads = written[-1] + GAP_AHEAD + 1 - requant.LATENCY  # the first item that meets the whole table
        usable[reads:], number[reads:] = len(tables) % 2, len(tables)
        tables.append(word[at + 1].reshape(-1)[:TABLE_BYTES])
        start = reads + requant.LATENCY + 2  # the items of the other bank have passed
    assert len(written) >= 4
    plain = rng.random(CLOCKS) < 0.2
    bank, number = np.where(plain, IDENTITY, usable), np.where(plain, 0, number)
    last = valid & (rng.random(CLOCKS) < 0.4)
    results = rng.integers(0, 256, (CLOCKS, LANES), np.uint8)
    bits = {"valid": valid, "last": last, "load": load, "newest": newest, "bank": bank}
    inputs = {name: value.astype(np.uint8) for name, value in bits.items()}
    late = {"results": np.roll(results, requant.LATENCY, axis=0), "results_valid": np.roll(inputs["valid"], requant.LATENCY)}
    late["results_valid"][: requant.LATENCY] = 0
    found = bench.run(make_block(LookUp, LANES, word_bytes), inputs | {"word": word[:, :TABLE_BYTES]} | late)

    np.testing.assert_array_equal(np.nonzero(found["written"][:, 0])[0], [clock for clock in written if clock < CLOCKS])
    seen = np.nonzero(valid[:-LATENCY])[0]
    np.testing.assert_array_equal(np.nonzero(found["o_valid"][:, 0])[0], seen + LATENCY)
    wanted = [look_up(tables[number[clock]].view(np.int8), results[clock].view(np.int8)) for clock in seen]
    np.testing.assert_array_equal(found["o"][seen + LATENCY].view(np.int8), np.stack(wanted))
    for group in range(BANKS):
        passed = np.nonzero((last & (bank == group))[: -requant.LATENCY])[0] + requant.LATENCY
        np.testing.assert_array_equal(np.nonzero(found["passed"][:, 0] >> group & 1)[0], passed)
