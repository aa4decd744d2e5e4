"""Wide values in slices: each slice is a module with control registers of its own, and all slices work in lock step.

One enable for a thousand flip-flops would be a slow net. Synthesis merges copies of a register unless attributes forbid it
(`attributes.py`). Since the slices are modules, synthesis can look at one of all those that are alike. `queues.py` and
`request_splitter.py` are cut like this.
"""

from amaranth import Array, Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY, NET

SLICE_BITS = 256  # at most: half of the loads that a net may have


def slices(bits: int, most: int = SLICE_BITS) -> list[slice]:
    """Equal parts of `bits` bits, at most `most` each, the last one may be shorter; one part at least."""
    count = max(1, -(-bits // most))
    size = max(1, -(-bits // count))
    return [slice(start, min(start + size, bits)) for start in range(0, max(bits, 1), size)]


class SlotFree(wiring.Component):
    """Whether the register before a stream's output may take an item: it holds none, or the one that it holds goes.

    `valid` and `ready` are those of the stream that the register drives. This serves registers as wide as a slice. Within their
    module, synthesis would put the two signals into the LUT of every bit, and the stream's `ready` would load the bits of all
    slices. Behind the border of a module, which an attribute keeps, `ready` loads one LUT a slice.
    """

    valid: In(1)
    ready: In(1)
    free: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        free = Signal(attrs=NET)
        m.d.comb += [free.eq(self.ready | ~self.valid), self.free.eq(free)]
        return m


class SlicedSelector(wiring.Component):
    """Puts one of several wide values into a register: the step before the requantising lanes in both drains.

    `o` is, a clock late, the one of `options` whose number `upcoming` was a clock before them. Each slice has its own copy of the
    number: one copy would drive every bit of 64 sums.
    """

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
