"""The parts of walks: the banks that each request needs, made together, kept, and shared by plans."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.engine_steps import command_groups, taps_of
from cnna.compiler.graph import ir
from cnna.compiler.predict import walk_parts
from cnna.compiler.predict.bank_clocks import NONE, SOURCE, plane_fields, plane_words, source_words
from cnna.compiler.predict.walk_parts import (
    KEPT_LARGE,
    LARGE_GROUPS,
    PIECE_GROUPS,
    group_parts,
    joined_parts,
    written_parts,
)
from cnna.spec.config import PRESETS, preset
from cnna.spec.program.commands import commands
from cnna.spec.program.decks import address_words
from cnna.spec.regmap import DECK_BIT

from ...graph_builder import Builder

ZCU102 = preset("zcu102")
WIDE = ZCU102.__class__(**{**vars(ZCU102), "name": "wide", "pix": 16, "bank_words": 1024})  # 128 banks in all regions


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
    for request, parts in zip(words, joined_parts(words, ZCU102), strict=True):
        own = [int(word) for word in request if word >= 0]
        assert len(parts) == max(1, max(([w % ZCU102.banks for w in own].count(bank) for bank in range(ZCU102.banks)), default=0))
        places = [word // (ZCU102.banks * ZCU102.bank_words) * ZCU102.banks + word % ZCU102.banks for word in own]
        assert {place for part in parts for place in range(64) if part >> place & 1} == set(places)
        assert sum(part.bit_count() for part in parts) == len(own)


def test_banks_beyond_the_sixty_fourth_are_apart():
    """An array of 16 pixels has 128 banks, and a machine word has fewer bits."""
    words = np.array([[0, WIDE.feature_words - 1]])
    assert joined_parts(words, WIDE) == [[1 | 1 << WIDE.regions * WIDE.banks - 1]]


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
    before = walk_parts.small_plane.cache_info().currsize
    for width in range(64, 64 + 3 * KEPT_LARGE):
        group_parts(fields | {"out_width": width}, ZCU102, 0)
    assert walk_parts.small_plane.cache_info().currsize == before
    assert walk_parts.large_plane.cache_info().currsize == walk_parts.large_reads.cache_info().currsize == KEPT_LARGE


def test_pieces_of_written_parts_are_those_of_the_whole_walk():
    """Parts would come twice, or be left out, where the pieces meet in which they are made."""
    fields = fields_of("conv", lambda b: b.conv(b.input(16, 30, 60), 32, ir.Window()))
    whole = joined_parts(plane_words("dst", fields, ZCU102, (0, 2), (0, 999)), ZCU102)
    pieces = [written_parts("dst", fields, ZCU102, (0, 2), piece) for piece in range(-(-30 * 60 // 8 // PIECE_GROUPS))]
    assert [own for piece in pieces for own in listed(piece)] == whole


def listed(parts):
    """The parts of each group."""
    return [parts.of(group) for group in range(len(parts))]


def plane(rng, config, prefix):
    """A walk of random steps that writes in feature memory, at times over the end of a region, with steps back or images."""
    images, height, width = (int(rng.integers(1, most)) for most in (4, 30, 40))
    x, pitch = int(rng.choice([1, 1, 1, 2, 4])), width + int(rng.integers(0, 9))
    size = address_words(config.depth)
    fields = {"images": images, "out_height": height, "out_width": width}
    fields["window_columns"] = int(rng.choice([0, max(1, width - 3)]))
    steps = {
        "": 0,
        "_x": x,
        "_row": (pitch - width) * x % size,
        "_image": int(rng.integers(-99, 999)) % size,
        "_block": height * pitch,
    }
    fields |= {prefix + name: step for name, step in steps.items()}
    base = int(rng.integers(0, config.deck_words)) | (int(rng.integers(2)) << DECK_BIT if config.depth == 2 else 0)
    return fields | {prefix: base, "kernel_height": 1, "kernel_width": 1}


@pytest.mark.parametrize("config", [*PRESETS.values(), WIDE], ids=lambda config: config.name)
def test_written_parts_are_those_of_the_words_wherever_a_walk_begins(config):
    """A walk is taken from another place than its own: across regions, decks, images and steps back the banks would be others."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        fields, block = plane(rng, config, "res"), int(rng.integers(0, 5))
        blocks = block, block + int(rng.integers(1, 4))
        groups = command_groups(fields, config)
        for piece in range(-(-groups // PIECE_GROUPS)):
            low = piece * PIECE_GROUPS
            own = joined_parts(plane_words("res", fields, config, blocks, (low, low + PIECE_GROUPS)), config)
            assert listed(written_parts("res", fields, config, blocks, piece)) == own


@pytest.mark.parametrize("config", [*PRESETS.values(), WIDE], ids=lambda config: config.name)
def test_read_parts_are_those_of_the_words_wherever_a_walk_begins(config):
    """As above, of windows with padding, of windows that take three columns together, and of two operands in different regions."""
    rng = np.random.default_rng(6)
    size = address_words(config.depth)
    for number in range(60):
        kernel, apart = (3, 3) if number % 3 else (1, 2), int(rng.integers(1, 3)) if number % 3 == 1 else 0
        height, width = (int(rng.integers(3, most)) for most in (20, 30))
        pitch, pad = width + int(rng.integers(0, 9)), 1 if kernel[0] == 3 else 0
        fields = plane(rng, config, "dst") | {"out_height": height, "out_width": width, "in_height": height, "in_width": width}
        fields |= {"kernel_height": kernel[0], "kernel_width": kernel[1], "first_y": -pad, "first_x": -pad, "blocks": 3}
        fields |= {
            "stride_y": 1,
            "stride_x": 1,
            "stride_dilation_y": 1,
            "stride_dilation_x": 1 if pad else 0,
            "window_apart": apart,
        }
        fields |= {"src": (fields["dst"] - pad * (pitch + 1)) % size, "src_x": 1, "src_row": pitch - width}
        fields |= {"src_image": int(rng.integers(0, 99)), "src_ky": pitch, "src_block": height * pitch}
        fields["src_kx"] = 1 if pad else int(rng.integers(config.deck_words))
        fields |= {"b_flat": int(number % 9 == 0), "b_block": 1}
        for block in (0, 1, 2):
            words = source_words(fields, config, block, (0, command_groups(fields, config)))
            found = group_parts(fields, config, block)
            assert listed(found.reads) == joined_parts(words, config, taps_of(fields))
            words = plane_words("dst", fields, config, (block, block + 1), (0, command_groups(fields, config)))
            assert listed(found.writes) == joined_parts(words, config, 2)


def test_requests_together_have_the_parts_of_each():
    """A group would be read in other clocks where one of its requests needs a bank twice."""
    rng = np.random.default_rng(3)
    words = rng.integers(NONE, ZCU102.feature_words, (90, 5))
    own = joined_parts(words, ZCU102)
    assert max(map(len, own)) > 1
    assert joined_parts(words, ZCU102, 4) == [[part for parts in own[low : low + 4] for part in parts] for low in range(0, 90, 4)]
