"""Whether the register before a stream's output may take an item: it holds none, or the one it holds goes.

For registers as wide as a slice (`slices.py`). Within their module synthesis would put these two signals into the LUT of every
bit, and the stream's `ready` would load the bits of all slices; behind the border of a module it loads one LUT a slice.
"""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Free(wiring.Component):
    """`valid`, `ready`: of the stream that the register drives."""

    valid: In(1)
    ready: In(1)
    free: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.free.eq(self.ready | ~self.valid)
        return m
