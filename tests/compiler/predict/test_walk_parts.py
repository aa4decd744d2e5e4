"""The parts of walks: the banks that each request needs, made together, kept, and shared by plans."""

import gc
import weakref

import numpy as np

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.predict.bank_clocks import NONE, SOURCE, plane_fields, plane_words, source_words
from cnna.compiler.predict.walk_parts import KEPT_LARGE, LARGE_GROUPS, group_parts, joined_parts, parts_of, written_parts
from cnna.spec.config import preset
from cnna.spec.program.commands import commands

from ...graph_builder import Builder

ZCU102 = preset("zcu102")


def fields_of(engine, grow):
    """The registers of a small network's first command of that engine."""
    b = Builder(np.random.default_rng(1), "one")
    program = compile_graph(b.graph(grow(b)), ZCU102)
    return next(vars(command.f) for command in commands(program.program) if command.engine == engine)


def test_parts_are_as_many_as_the_lanes_of_the_fullest_bank():
    """A bank gives one word a clock to a request, whatever its region. No word may be lost or asked for twice."""
    rng = np.random.default_rng(1)
    words = np.where(rng.random((400, 8)) < 0.2, NONE, rng.integers(0, ZCU102.feature_words, (400, 8)))
    words[0] = NONE
    for request, parts in zip(words, parts_of(words, ZCU102), strict=True):
        own = [int(word) for word in request if word >= 0]
        assert len(parts) == max(1, max(([w % ZCU102.banks for w in own].count(bank) for bank in range(ZCU102.banks)), default=0))
        places = [word // (ZCU102.banks * ZCU102.bank_words) * ZCU102.banks + word % ZCU102.banks for word in own]
        assert {place for part in parts for place in range(64) if part >> place & 1} == set(places)
        assert sum(part.bit_count() for part in parts) == len(own)


def test_banks_beyond_the_sixty_fourth_are_apart():
    """An array of 16 pixels has 128 banks, and a machine word has fewer bits."""
    wide = ZCU102.__class__(**{**vars(ZCU102), "name": "wide", "pix": 16, "bank_words": 1024})
    words = np.array([[0, wide.feature_words - 1]])
    assert parts_of(words, wide) == [[1 | 1 << wide.regions * wide.banks - 1]]


class Recorded(dict):
    """Fields of a command that remember which of them were asked for."""

    def __init__(self, fields):
        super().__init__(fields)
        self.asked = set()

    def __getitem__(self, name):
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.asked.add(name)
        return super().get(name, default)


def test_kept_parts_are_kept_by_every_field_on_which_they_depend():
    """A walk would get the parts of another one, which differs from it in a field that was forgotten."""
    depthwise = fields_of("vector", lambda b: b.depthwise(b.input(16, 9, 30), ir.Window((3, 3), pads=(1, 1, 1, 1))))
    flat = fields_of("vector", lambda b: b.copy(b.input(16, 6, 6))) | {"b_flat": 1, "b_block": 3}
    for fields in (depthwise, flat):
        read, written = Recorded(fields), Recorded(fields)
        source_words(read, ZCU102, 0, (0, 9))
        plane_words("dst", written, ZCU102, (0, 1), (0, 9))
        assert read.asked <= set(SOURCE)
        assert written.asked <= set(plane_fields("dst"))


def test_few_large_walks_are_kept():
    """A compile of large maps would take more and more memory, some MB for each block."""
    fields = fields_of("vector", lambda b: b.copy(b.input(16, 64, 64)))
    assert fields["out_height"] * fields["out_width"] >= LARGE_GROUPS * ZCU102.pix
    kept = [weakref.ref(group_parts(fields, ZCU102, block)) for block in range(3 * KEPT_LARGE)]
    gc.collect()
    assert sum(parts() is not None for parts in kept) == KEPT_LARGE


def test_pieces_of_written_parts_are_those_of_the_whole_walk():
    """Parts would come twice, or be left out, where the pieces meet in which they are made."""
    fields = fields_of("conv", lambda b: b.conv(b.input(16, 30, 60), 32, ir.Window()))
    whole = parts_of(plane_words("dst", fields, ZCU102, (0, 2), (0, 999)), ZCU102)
    found = [written_parts("dst", fields, ZCU102, (0, 2), groups) for groups in ((0, 64), (64, 70), (70, 200), (200, 999))]
    assert [part for parts in found for part in parts] == whole


def test_requests_together_have_the_parts_of_each():
    """A group would be read in other clocks where one of its requests needs a bank twice."""
    rng = np.random.default_rng(3)
    words = rng.integers(NONE, ZCU102.feature_words, (90, 5))
    own = parts_of(words, ZCU102)
    assert max(map(len, own)) > 1
    assert joined_parts(words, ZCU102, 4) == [[part for parts in own[low : low + 4] for part in parts] for low in range(0, 90, 4)]
