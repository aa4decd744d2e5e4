"""Whether the register before a stream's output may take an item: it holds none, or the one it holds goes.

For registers as wide as a slice (`slices.py`). Within their module synthesis would put these two signals into the LUT of every
bit, and the stream's `ready` would load the bits of all slices; behind the border of a module, which an attribute keeps, it
loads one LUT a slice.
"""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import NET


class Free(wiring.Component):
    """`valid`, `ready`: of the stream that the register drives."""

    valid: In(1)
    ready: In(1)
    free: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        free = Signal(attrs=NET)
        m.d.comb += [free.eq(self.ready | ~self.valid), self.free.eq(free)]
        return m
