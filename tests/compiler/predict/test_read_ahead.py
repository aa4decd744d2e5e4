"""Reads of the vector engine that get ahead of its writes: where writes hold them up, and what a block leaves to the next one."""

import numpy as np
import pytest

from cnna.compiler.predict.flow_rates import ActiveEngines, Flow, FlowRates, Walk
from cnna.compiler.predict.read_ahead import AHEAD_GROUPS, SLOW_CLOCKS, GroupParts, QuickReads, SlowWrites, first_reads
from cnna.compiler.predict.shared_port import simulate
from cnna.spec.config import preset
from cnna.spec.ddr import DdrSpeed

ZCU102 = preset("zcu102")
OWN, OTHER = 1, 2  # banks
PAUSE = (316 - 240) / 2  # clocks, as measured
WRITES = 4  # of a group that is enlarged eight times, in clocks


def parts(read):
    """Of groups that are read in a clock, and written in four."""
    return GroupParts([[read]] * 10, [[OWN] * WRITES] * 10)


def rate(read, groups):
    """The parts that are written in a clock, from the engine's begin on."""
    writes = SlowWrites(groups * WRITES)
    reads = QuickReads(parts(read), 0, first_reads(0, 1), 0, writes)
    return simulate([writes, reads], 2 * groups * WRITES)[0]


def with_pauses(groups):
    """The clocks of so many groups whose writes hold up their reads: a pause before each 30, but for the first."""
    return groups * WRITES + (-(-groups // 30) - 1) * PAUSE


def test_writes_that_need_the_banks_of_the_reads_stop_for_as_long_as_a_group_is_on_its_way():
    """30 groups are read while nothing is written: the RTL took 316 clocks for 60 of them, where their writes alone take 240."""
    assert rate(OWN, 600) == pytest.approx(600 * WRITES / with_pauses(600), rel=0.002)
    assert rate(OTHER, 600) == 1, "reads that need other banks hold up nothing"


def test_the_first_groups_are_those_that_are_read_before_the_first_write():
    """The first pause would come too early or too late, and with it the end of every command behind."""
    reads = first_reads(100, 1)
    assert len(reads) == AHEAD_GROUPS
    assert reads[0] == 100 - SLOW_CLOCKS
    assert reads == sorted(set(reads))
    assert reads[-1] < 100
    assert len(first_reads(100, 3)) == 13, "groups that are read in three clocks"


def test_what_was_written_of_a_group_is_not_written_again():
    """A stretch may begin in the middle of a group; its writes would take longer than they do."""
    writes = SlowWrites(7 * WRITES - 3)
    QuickReads(parts(OTHER), 0, [-60.0 + number for number in range(7)], 3, writes)
    assert writes.waiting == 7 * WRITES - 3


@pytest.mark.parametrize("blocks", [1, 2, 6])
def test_a_walk_takes_the_same_clocks_in_one_block_or_in_several(blocks):
    """Each block would begin as if the engine had stood still, and a layer of many small blocks would seem a fifth too slow."""
    groups = 240 // blocks
    fields = {"op": 3, "images": 1, "out_width": 8 * groups, "out_height": 1, "in_width": 8 * groups, "in_height": 1}
    fields |= {"kernel_height": 1, "kernel_width": 1, "first_y": 0, "first_x": 0, "stride_y": 1, "stride_x": 1}
    fields |= dict.fromkeys(("stride_dilation_y", "stride_dilation_x", "src_row", "src_image", "src_ky", "src_kx", "src_block"), 0)
    fields |= {"src": 0, "src_x": 1, "dst": 3, "dst_x": 8, "dst_row": 0, "dst_image": 0, "dst_block": 0}
    clocks = np.full(groups, WRITES)
    rates = FlowRates(ZCU102, DdrSpeed(), {"load": 4, "store": 4})
    now = 0.0
    for block in range(blocks):
        work = ActiveEngines.idle(4)
        work.reading = Walk(fields, (0, 1), clocks, clocks.cumsum(), now, True, block > 0)
        flow = work.flows["vector"] = Flow(float(clocks.sum()), 1.0)
        work.changed = True
        while flow.left > 1e-6:
            rates.set(work, now)
            passed = min(flow.left / flow.speed, rates.until - now)
            flow.left -= passed * flow.speed
            now += passed
    assert now == pytest.approx(with_pauses(240), rel=0.005)
