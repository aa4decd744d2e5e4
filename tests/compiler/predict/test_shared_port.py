"""The shared port of feature memory, clock by clock: banks are granted as `hw/memory/feature_memory.py` grants them."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.predict.array_writes import ArrayWrites
from cnna.compiler.predict.bank_clocks import plane_words, source_words, walk_clocks, write_clocks
from cnna.compiler.predict.known_stretches import WrittenPlane
from cnna.compiler.predict.shared_port import (
    ROOM_PARTS,
    DueParts,
    VectorReads,
    VectorWrites,
    WrittenPart,
    simulate,
)
from cnna.compiler.predict.walk_parts import group_parts
from cnna.spec.config import preset
from cnna.spec.program.commands import commands

from ...graph_builder import Builder

ZCU102 = preset("zcu102")


def listed(*parts):
    """A requester that asks for these banks, one part after another."""
    return VectorWrites([WrittenPart(0, 0.0, part) for part in parts])


def fields_of(engine, grow):
    """The registers of a small network's first command of that engine."""
    b = Builder(np.random.default_rng(1), "one")
    program = compile_graph(b.graph(grow(b)), ZCU102)
    return next(vars(command.f) for command in commands(program.program) if command.engine == engine)


def test_a_part_waits_for_each_of_its_banks_and_keeps_those_it_got():
    """The lower requester asks for banks 0 and 1 while the higher one takes 0, and then 1 again, which the lower has had by
    then.
    """
    higher, lower = listed(0b01, 0b10, 0b01), listed(0b11, 0b01)
    simulate([higher, lower], 8)
    left = [[len(one.left(clock, 1, 8)) for clock in range(3)] for one in (higher, lower)]
    assert left == [[2, 1, 0], [1, 1, 0]], "bank 0 waits for clock 1, so the second part is offered at clock 2"
    assert (lower.asks, lower.ended) == (0, 2)


def test_what_passes_a_clock_counts_no_clock_after_the_end():
    """A short block would seem slow if the clocks after its end were counted."""
    fields = fields_of("vector", lambda b: b.max_pool(b.input(16, 6, 6), ir.Window((3, 3))))
    reads = VectorReads(group_parts(fields, ZCU102, 0), 0, 9.0, VectorWrites())
    (speed,) = simulate([reads], 500)
    assert speed == pytest.approx(1, rel=0.05)
    assert reads.done == walk_clocks(fields, ZCU102).sum()


def test_a_group_is_read_no_quicker_than_it_is_written():
    """Eight words apart, two pixels of a half share a bank: 4 clocks of writes for a group whose single tap takes one."""
    fields = {**fields_of("vector", lambda b: b.max_pool(b.input(16, 6, 6), ir.Window((1, 1)))), "dst_x": 8}
    reads = VectorReads(group_parts(fields, ZCU102, 0), 0, 9.0, VectorWrites())
    simulate([reads], 500)
    assert reads.done == np.maximum(walk_clocks(fields, ZCU102), write_clocks(fields, ZCU102)).sum() >= 4 * 36 // 8


def test_reads_wait_for_the_arrays_writes_in_their_region_alone():
    """A mean over all places would predict the wrong speed of a pool beside a convolution: it depends on where the maps lie."""
    pool = fields_of("vector", lambda b: b.max_pool(b.input(16, 30, 30), ir.Window((3, 3))))
    conv = fields_of("conv", lambda b: b.conv(b.input(16, 30, 30), 32, ir.Window()))
    speeds = []
    for base in (pool["src"], (pool["src"] + 2 * ZCU102.banks * ZCU102.bank_words) % ZCU102.feature_words):
        written = VectorWrites()
        writes = ArrayWrites(WrittenPlane("dst", {**conv, "dst": base}, ZCU102, (0, 2), 0), [*range(4, 404, 4)], 0)
        far = (base + ZCU102.banks * ZCU102.bank_words) % ZCU102.feature_words  # its own writes meet nobody
        requesters = [writes, written, VectorReads(group_parts({**pool, "dst": far}, ZCU102, 0), 0, 9.0, written)]
        speeds.append(simulate(requesters, 256)[-1])
    assert speeds[0] < 0.9 < speeds[1]


def test_walks_read_and_write_the_words_that_lie_there():
    """A walk would read other words than the source's rows and columns, or read its padding."""
    fields = fields_of("conv", lambda b: b.conv(b.input(16, 5, 5), 32, ir.Window((3, 3), pads=(1, 1, 1, 1))))
    groups = (0, 99)
    read = source_words(fields, ZCU102, 0, groups)
    inside = {fields["src"] + (y + 1) * fields["src_ky"] + (x + 1) * fields["src_kx"] for y in range(5) for x in range(5)}
    assert {int(word) % ZCU102.feature_words for word in read[read >= 0]} == {word % ZCU102.feature_words for word in inside}
    written = plane_words("dst", fields, ZCU102, (0, 2), groups)
    assert len(set(written[written >= 0].tolist())) == (written >= 0).sum() == 2 * 25


def test_a_stretch_counts_the_part_that_passed_in_its_last_clock():
    """A block as long as the stretch would seem a part too slow: 5 % of a mean over 7x7 pixels."""
    fields = fields_of("vector", lambda b: b.max_pool(b.input(16, 6, 6), ir.Window((3, 3))))
    clocks = int(walk_clocks(fields, ZCU102).sum())
    assert simulate([VectorReads(group_parts(fields, ZCU102, 0), 0, 9.0, VectorWrites())], clocks) == [1]


def test_reads_that_had_to_wait_catch_up_while_results_are_written():
    """The vector engine would seem slowed down by the array where its writes take longer than its reads."""
    fields = fields_of("vector", lambda b: b.copy(b.input(16, 16, 16)))
    writes = 2 * len(walk_clocks(fields, ZCU102))
    every_bank = sum(1 << bank for bank in range(ZCU102.regions * ZCU102.banks))
    array = DueParts()
    for clock in range(0, writes, 2):
        array.add_part(clock, every_bank)
    _, alone = simulate([array, VectorReads(group_parts(fields, ZCU102, 0), 0, 2.0, VectorWrites())], writes)
    assert alone > 0.98, "every other clock is free, and it reads in every other clock"


def test_writes_that_fell_behind_are_left_for_the_next_stretch():
    """Each stretch would begin as if nothing waited, and a depthwise layer beside the array's writes seem 13 % too quick."""
    every_bank = sum(1 << bank for bank in range(ZCU102.regions * ZCU102.banks))
    array, writes = DueParts(), VectorWrites()
    for clock in range(100):
        array.add_part(clock, every_bank)
    writes.add([WrittenPart(group, 10 * group, 1) for group in range(12)])
    simulate([array, writes], 60)
    left = writes.left(60, 8, 60)
    assert [part.due for part in left] == [10 * group - 60 for group in range(1, 8)], "the first was offered, others came later"
    assert [part.due for part in writes.left(65, 99, 60)] == [10 * group - 65 for group in range(6, 12)], "the others passed since"
    later = VectorWrites(left)
    simulate([later], 40, None, later)
    assert later.over
    assert later.ended == 10, "one a clock until the last is due"


def test_reads_stop_while_there_is_no_room_for_results():
    """The vector engine would read on while none of its results is written."""
    fields = fields_of("vector", lambda b: b.copy(b.input(16, 64, 16)))
    every_bank = sum(1 << bank for bank in range(ZCU102.regions * ZCU102.banks))
    array, written = DueParts(), VectorWrites()
    for clock in range(100, 400):
        array.add_part(clock, every_bank)
    reads = VectorReads(group_parts(fields, ZCU102, 0), 0, 2.0, written)
    simulate([reads, array, written], 400)
    assert ROOM_PARTS < written.waiting <= ROOM_PARTS + 2
