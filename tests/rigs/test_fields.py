"""Plain integers of a payload are those of Amaranth's views."""

import numpy as np
from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from .fields import Fields

LAYOUT = data.StructLayout(
    {"flag": 1, "words": data.ArrayLayout(unsigned(9), 3), "steps": data.ArrayLayout(signed(5), 2), "pad": signed(8), "tag": 4}
)


def test_members_are_those_of_a_view():
    """A bench would compare bits of another member, or of another sign, than those that the block means."""
    rng, fields = np.random.default_rng(1), Fields(LAYOUT)
    for _ in range(50):
        bits = int(rng.integers(1 << LAYOUT.size))
        view, found = LAYOUT.from_bits(bits), fields.read(bits)
        assert (found.flag, found.pad, found.tag) == (view.flag, view.pad, view.tag)
        assert (found.words, found.steps) == (list(view.words), list(view.steps))
        assert fields.pack(vars(found)) == bits
    assert fields.pack({"pad": -1, "steps": [0, -2]}) == LAYOUT.const({"pad": -1, "steps": [0, -2]}).as_bits()
