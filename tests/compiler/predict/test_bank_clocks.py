"""The clocks to read a walk's words are those of lanes that take turns at their banks."""

from collections import Counter

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.predict.bank_clocks import NONE, WALK, WRITES, source_words, walk_clocks, write_clocks
from cnna.spec.config import preset
from cnna.spec.program.commands import commands

from ...graph_builder import Builder

PADDED = ir.Window((3, 3), stride=(2, 2), pads=(1, 1, 0, 0))


def turns(fields, config, group):
    """One group lane by lane and tap by tap, as `hw/walk/walker.py` walks: the most words of one bank, summed over the taps."""
    total = 0
    count = fields["images"] * fields["out_height"] * fields["out_width"]
    for ky in range(fields["kernel_height"]):
        for kx in range(fields["kernel_width"]):
            banks = Counter()
            for n in range(group * config.pix, min((group + 1) * config.pix, count)):
                rows, x = divmod(n, fields["out_width"])
                images, y = divmod(rows, fields["out_height"])
                row = fields["first_y"] + y * fields["stride_y"] + ky * fields["stride_dilation_y"]
                column = fields["first_x"] + x * fields["stride_x"] + kx * fields["stride_dilation_x"]
                if 0 <= row < fields["in_height"] and 0 <= column < fields["in_width"]:
                    place = n * fields["src_x"] + rows * fields["src_row"] + images * fields["src_image"]
                    banks[(place + ky * fields["src_ky"] + kx * fields["src_kx"]) % config.banks] += 1
            total += max(banks.values(), default=1)
    return total


@pytest.mark.parametrize(("pitch", "waits"), [(27, True), (29, False)])
def test_a_padded_strided_pool_waits_as_its_lanes_do(pitch, waits):
    """At stride 2 and a tight pitch, rows wrap into the same banks, so the pool is slower than its taps."""
    b = Builder(np.random.default_rng(1), "pool")
    program = compile_graph(b.graph(b.max_pool(b.input(4, 27, 27), PADDED)), preset("zcu102"))
    (fields,) = (vars(command.f) for command in commands(program.program) if command.engine == "vector")
    fields |= {"out_width": 14, "window_apart": 0, "window_columns": 0}
    fields |= {"src_ky": pitch, "src_row": 2 * pitch - 2 * fields["out_width"]}
    clocks = walk_clocks(fields, program.config)
    assert clocks.tolist() == [turns(fields, program.config, group) for group in range(len(clocks))]
    assert (clocks.sum() > 1.2 * 9 * len(clocks)) == waits


@pytest.mark.parametrize(("stride", "kernel", "clocks"), [(1, 3, 3), (2, 3, 6), (1, 5, 10), (2, 5, 10), (2, 7, 21)])
def test_steps_of_several_taps_wait_for_no_bank(stride, kernel, clocks):
    """The predictor would count the clocks of single taps, or conflicts that the exchange of words avoids."""
    b, around = Builder(np.random.default_rng(1), "pool"), kernel // 2
    window = ir.Window((kernel, kernel), stride=(stride, stride), pads=(around, around, around, around))
    program = compile_graph(b.graph(b.max_pool(b.input(4, 28, 28), window)), preset("zcu102"))
    (fields,) = (vars(command.f) for command in commands(program.program) if command.engine == "vector")
    assert fields["window_apart"] == stride
    assert set(walk_clocks(fields, program.config).tolist()) == {clocks}


def test_a_flat_tap_takes_one_clock():
    """One word serves all lanes; a word for each lane would all lie in one bank. The other tap reads as ever."""
    b = Builder(np.random.default_rng(1), "pool")
    program = compile_graph(b.graph(b.max_pool(b.input(4, 27, 27), PADDED)), preset("zcu102"))
    (fields,) = (vars(command.f) for command in commands(program.program) if command.engine == "vector")
    fields |= {"window_apart": 0, "window_columns": 0}
    second = {**fields, "kernel_width": 1, "kernel_height": 1, "first_x": fields["first_x"] + fields["stride_dilation_x"]}
    flat = {**fields, "kernel_width": 2, "kernel_height": 1, "b_flat": 1, "b_block": 1}
    assert (walk_clocks(flat, program.config) == 1 + walk_clocks(second, program.config)).all()
    word = (fields["src"] + 3) % program.config.feature_words
    assert source_words(flat, program.config, 3, (0, 1))[0].tolist() == [word, *[NONE] * (program.config.pix - 1)]


class Noting(dict):
    """Fields that record which of them were read."""

    def __init__(self, fields):
        super().__init__(fields)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.read.add(name)
        return super().get(name, default)


def test_the_clocks_of_a_walk_depend_on_nothing_that_their_key_lacks():
    """The predictor caches the clocks by WALK: two walks that differ in another field would share them."""
    fields = Noting(
        dict.fromkeys((*WALK, "src", "src_block", "b_block"), 1) | {"out_width": 9, "in_width": 9, "src_x": 2, "window_apart": 0}
    )
    clocks = walk_clocks(fields, preset("zcu102"))
    assert fields.read == {*WALK, "src", "src_block", "b_block"}
    assert (walk_clocks({**fields, "src": 77}, preset("zcu102")) == clocks).all()


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 8, 16])
def test_pixels_of_a_half_that_lie_in_one_bank_are_written_one_after_another(apart):
    """A map that is enlarged eight times would be predicted in half of the clocks that its writes take."""
    config = preset("zcu102")
    fields = {"images": 2, "out_height": 3, "out_width": 13, "window_columns": 11, "dst": 5, "dst_block": 7}
    fields |= {"dst_x": apart, "dst_row": 16 * apart - 5, "dst_image": 9}
    expected = [0] * -(-2 * 3 * 13 // config.pix)
    for group in range(len(expected)):
        for half in range(2):
            banks = Counter()
            for n in range(group * config.pix + half * config.half, group * config.pix + (half + 1) * config.half):
                rows, x = divmod(n, 13)
                if rows < 2 * 3 and x < 11:
                    banks[(n * apart + rows * fields["dst_row"] + rows // 3 * 9) % config.banks] += 1
            expected[group] += max(banks.values(), default=1)
    assert write_clocks(fields, config).tolist() == expected
    assert max(expected) >= apart // 2


def test_the_clocks_of_writes_depend_on_nothing_that_their_key_lacks():
    """As for WALK: two walks whose writes differ would share their clocks."""
    fields = Noting(dict.fromkeys((*WRITES, "dst", "dst_block"), 1) | {"out_width": 9, "window_columns": 8, "dst_x": 8})
    clocks = write_clocks(fields, preset("zcu102"))
    assert fields.read == {*WRITES, "dst", "dst_block"}
    assert (write_clocks({**fields, "dst": 77}, preset("zcu102")) == clocks).all()
