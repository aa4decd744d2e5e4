"""One of several wide values into a register: the step before the requantising lanes in both drains.

The value goes in slices, each a module with its own copy of the number: one copy would drive every bit of 64 sums.
"""

from amaranth import Array, Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.slices import slices


class Selector(wiring.Component):
    """`o` is, a clock late, the one of `options` whose number `upcoming` was a clock before them."""

    def __init__(self, bits: int, count: int) -> None:
        super().__init__({"options": In(data.ArrayLayout(bits, count)), "upcoming": In(range(max(count, 2))), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        options = [Value.cast(option) for option in self.options]
        found = []
        for number, part in enumerate(slices(len(self.o))):
            m.submodules[f"slice{number}"] = one = _Slice(part.stop - part.start, len(options))
            m.d.comb += [one.options.eq(Cat(option[part] for option in options)), one.upcoming.eq(self.upcoming)]
            found.append(one.o)
        m.d.comb += self.o.eq(Cat(found))
        return m


class _Slice(wiring.Component):
    def __init__(self, bits: int, count: int) -> None:
        super().__init__({"options": In(data.ArrayLayout(bits, count)), "upcoming": In(range(max(count, 2))), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, chosen = Signal(self.upcoming.shape(), name="number_copy", attrs=COPY), Signal(self.o.shape(), reset_less=True)
        options = [self.options[index] for index in range(self.options.shape().length)]
        m.d.sync += [number.eq(self.upcoming), chosen.eq(Array(options)[number])]
        m.d.comb += self.o.eq(chosen)
        return m
