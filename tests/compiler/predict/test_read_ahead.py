"""Reads of the vector engine that get ahead of its writes: where writes hold them up, and what a block leaves to the next one."""

import numpy as np
import pytest

from cnna.compiler.predict.active_engines import ActiveEngines, Flow, Walk
from cnna.compiler.predict.flow_rates import FlowRates
from cnna.compiler.predict.known_stretches import WalkGroups
from cnna.compiler.predict.read_ahead import (
    COMMAND_CLOCKS,
    SLOW_CLOCKS,
    GroupReads,
    QuickReads,
    SlowWrites,
    first_reads,
)
from cnna.compiler.predict.request_parts import GroupParts, Parts
from cnna.compiler.predict.shared_port import simulate
from cnna.spec.config import preset
from cnna.spec.ddr import DdrSpeed

ZCU102 = preset("zcu102")
OWN, OTHER = 1, 2  # banks
BURST, PAUSE = 29, 40  # groups that are written, then clocks without a write, as measured
WRITES = 2  # of a group that is enlarged four times, in clocks
MANY = 1000  # blocks


def parts(read):
    """Of groups that are read in a clock, and written in two."""
    return GroupParts(Parts.of_lists([[read]] * 10), Parts.of_lists([[OWN] * WRITES] * 10), 0, MANY)


def rate(read, groups):
    """The parts that are written in a clock, from the engine's begin on."""
    writes = SlowWrites(groups * WRITES)
    reads = QuickReads(parts(read), 0, first_reads(1), 0, writes)
    return simulate([writes, reads], 2 * groups * WRITES)[0]


def with_pauses(groups):
    """The clocks of so many groups whose writes hold up their reads: a pause before each 29, but for the first."""
    return groups * WRITES + (-(-groups // BURST) - 1) * PAUSE


def test_writes_that_need_the_banks_of_the_reads_stop_for_as_long_as_a_group_is_on_its_way():
    """29 groups are read while nothing is written. The RTL writes 58 clocks, and then waits 40, where nothing else disturbs it."""
    assert rate(OWN, 600) == pytest.approx(600 * WRITES / with_pauses(600), rel=0.002)
    assert rate(OTHER, 600) == 1, "reads that need other banks hold up nothing"


def test_the_first_groups_are_those_that_are_read_before_the_first_write():
    """The first pause would come too early or too late, and with it the end of every command behind."""
    reads = [group.read for group in first_reads(1)]
    assert len(reads) == BURST
    assert reads[0] == -SLOW_CLOCKS
    assert reads == sorted(set(reads))
    assert reads[-1] < 0
    assert len(first_reads(3)) == 13, "groups that are read in three clocks"


def test_what_was_written_of_a_group_is_not_written_again():
    """A stretch may begin in the middle of a group; its writes would take longer than they do."""
    writes = SlowWrites(7 * WRITES - 1)
    QuickReads(parts(OTHER), 0, [GroupReads(-60.0 + number) for number in range(7)], 1, writes)
    assert writes.waiting == 7 * WRITES - 1


@pytest.mark.parametrize("blocks", [1, 2, 6])
def test_a_walk_takes_the_same_clocks_in_one_block_or_in_several(blocks):
    """Each block would begin as if the engine had stood still, and a layer of many small blocks would seem a fifth too slow."""
    groups = 240 // blocks
    fields = {"op": 3, "images": 1, "out_width": 8 * groups, "out_height": 1, "in_width": 8 * groups, "in_height": 1}
    fields |= {"kernel_height": 1, "kernel_width": 1, "first_y": 0, "first_x": 0, "stride_y": 1, "stride_x": 1}
    fields |= dict.fromkeys(("stride_dilation_y", "stride_dilation_x", "src_row", "src_image", "src_ky", "src_kx", "src_block"), 0)
    fields |= {"src": 0, "blocks": MANY, "src_x": 1, "dst": 3, "dst_x": 4, "dst_row": 0, "dst_image": 0, "dst_block": 0}
    clocks = np.full(groups, WRITES)
    rates = FlowRates(ZCU102, DdrSpeed(), {"load": 4, "store": 4})
    now = 0.0
    for block in range(blocks):
        work = ActiveEngines.idle(4)
        work.reading = Walk(fields, (0, 1), WalkGroups(clocks), now, True, block > 0)
        flow = work.flows["vector"] = Flow(float(clocks.sum()), 1.0)
        work.changed = True
        while flow.left > 1e-6:
            rates.set(work, now)
            passed = min(flow.left / flow.speed, rates.until - now)
            flow.left -= passed * flow.speed
            now += passed
    assert now == pytest.approx(with_pauses(240), rel=0.005)


@pytest.mark.parametrize(("writes", "blocks", "pauses"), [(2, 1, 9), (2, 5, 1), (4, 1, 0)])
def test_a_command_begins_with_a_pause_that_only_quick_writes_show(writes, blocks, pauses):
    """Layers of one short command for each row would end too early: the RTL takes 163 clocks for 80 groups of two writes."""
    written = SlowWrites(100 * writes)
    walk = GroupParts(Parts.of_lists([[OTHER]] * 10), Parts.of_lists([[OWN] * writes] * 10), 0, blocks)
    reads = QuickReads(walk, 0, first_reads(1), 0, written)
    simulate([written, reads], 1000)
    assert written.ended == 100 * writes + pauses * COMMAND_CLOCKS


def test_a_read_that_was_held_up_goes_on_in_the_next_stretch():
    """A command that writes to other banks lets it pass; all groups behind it would be read too late."""
    written = SlowWrites(100)
    reads = QuickReads(parts(OWN | OTHER), 0, [GroupReads(-30.0)], 0, written)
    simulate([written, reads], 11)
    assert reads.begun(11) == [OWN], "the other bank has been read"
    following, late = SlowWrites(100), SlowWrites(100)
    for clock in range(20):
        late.add_part(float(clock), OTHER)
        following.add_part(float(clock), OTHER)
    carried = QuickReads(parts(OWN | OTHER), 1, [], 0, following, [OWN])
    anew = QuickReads(parts(OWN | OTHER), 1, [], 0, late)
    simulate([following, carried], 10)
    simulate([late, anew], 10)
    assert [len(each.before(0, 10)) for each in (carried, anew)] == [1, 0]
