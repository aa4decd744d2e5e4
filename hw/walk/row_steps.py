"""The steps along a row of a kernel, in walks with a window: `spec.program.window` says which taps a step takes."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.walk.walk import APART_BITS, STRIDE_BITS, TAP_BITS
from cnna.spec.config import TAPS
from cnna.spec.regmap import ADDRESS_BITS


class RowSteps(wiring.Component):
    """Counts the steps of a kernel row. The walk's members are there a clock before the first step.

    With `move` a step is taken, or with `load` a row begins. `last`: the step is the row's last. `taps`: whether it has a second
    tap, and a third. `words` and `columns` lead to the next step's first tap: one tap further, or as far as leads behind the third
    tap (`far`), or both in turn. In the last case two steps that follow each other are a pair; `pair`: the step is the first one
    of it, or the second.
    """

    apart: In(APART_BITS)
    kernel_width: In(TAP_BITS)
    kx: In(signed(ADDRESS_BITS))
    dilation: In(STRIDE_BITS)
    load: In(1)
    move: In(1)
    last: Out(1)
    taps: Out(TAPS - 1)
    pair: Out(2)
    words: Out(signed(ADDRESS_BITS))
    columns: Out(STRIDE_BITS + 3)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        apart = self.apart
        left = Signal(TAP_BITS)  # taps from the step's first on
        far = Signal()
        turns = Signal()
        far_words = Signal(signed(ADDRESS_BITS))
        far_columns = Signal(STRIDE_BITS + 3)
        by = Mux(far, Mux(apart[1], 5, 3), 1)
        for far_step, step in ((far_words, self.kx), (far_columns, self.dilation)):
            m.d.sync += far_step.eq(step + Mux(apart[1], step << 2, step << 1))
        m.d.comb += turns.eq(apart[1] & ~far)
        with m.If(self.move):
            m.d.sync += [
                left.eq(Mux(self.load, self.kernel_width, left - by)),
                far.eq(apart[0] | (turns & ~self.load)),
                self.last.eq(Mux(self.load, self.kernel_width <= Mux(apart[0], 3, 1), left <= Mux(apart.any(), 6, 2))),
            ]
        m.d.comb += [
            self.taps.eq(Cat(left > apart, left > (apart << 1)) & apart.any().replicate(TAPS - 1)),
            self.pair.eq(Cat(apart[1] & ~far & ~self.last, apart[1] & far)),
            self.words.eq(Mux(far, far_words, self.kx)),
            self.columns.eq(Mux(far, far_columns, self.dilation)),
        ]
        return m
