"""Pitches keep a group's pixels in different banks, found by looking at every group."""

from collections import Counter

import numpy as np
import pytest

from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.pitch import group_clocks, set_pitches
from cnna.spec.config import preset

from ... import networks
from ...graph_builder import Builder


@pytest.mark.parametrize("name", ["tiny", "zcu102"])
@pytest.mark.parametrize(
    ("stride", "size", "pitch"), [((1, 1), (7, 7), 7), ((2, 2), (7, 7), 14), ((2, 2), (5, 3), 9), ((3, 4), (4, 6), 23)]
)
def test_group_clocks_count_the_fullest_bank(name, stride, size, pitch):
    config = preset(name)
    pixels = [(y * stride[0] * pitch + x * stride[1]) % config.banks for y in range(size[0]) for x in range(size[1])]
    groups = [pixels[n : n + config.pix] for n in range(0, len(pixels), config.pix)]
    wanted = sum(max(Counter(group).values()) for group in groups) / len(groups)
    assert group_clocks(stride, size, pitch, config.pix, config.banks) == pytest.approx(wanted)


def test_stride_two_layers_of_resnet_get_room():
    """14 x 14 to 7 x 7 at stride 2: without room behind the rows most groups meet in a bank, with a few words none does."""
    config = preset("zcu102")
    b = Builder(np.random.default_rng(1), "stride")
    lowered = set_pitches(lower(b.graph(b.conv(b.input(64, 14, 14), 32, ir.Window((1, 1), (2, 2)))), config), config)
    pitch = lowered.maps[b.inputs[0]].pitch
    assert pitch > 14
    assert group_clocks((2, 2), (7, 7), 14, config.pix, config.banks) > 1.5
    assert group_clocks((2, 2), (7, 7), pitch, config.pix, config.banks) == 1


def test_maps_of_one_width_have_one_pitch():
    """The two operands of an add would not keep step."""
    for case in range(20):
        lowered = set_pitches(lower(networks.network(case), preset("zcu102")), preset("zcu102"))
        assert len({(m.width, m.pitch) for m in lowered.maps.values()}) == len({m.width for m in lowered.maps.values()})
        assert all(m.pitch >= m.width for m in lowered.maps.values())
