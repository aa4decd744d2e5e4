"""Counts the loops inside a group of a walk, which all lanes share, and places each step's tap.

`walker.py` adds the sums here to the place of every lane's pixel.
"""

from amaranth import Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.walk.decks import Decks, StepDeck
from cnna.hw.walk.row_steps import RowSteps
from cnna.hw.walk.walk import SPAN_BITS, UNIT_BITS, walk_layout
from cnna.spec.config import TAPS
from cnna.spec.regmap import ADDRESS_BITS, DECK_BIT

COORDINATE = signed(SPAN_BITS + 2)  # of a tap in its source, with first, stride and dilation at their widest


def countdown(m: Module, name: str, count: Value, load: Value, move: Value) -> Signal:
    """A flag that is set while the last of `count` steps is due. With `move`, the countdown starts (`load`) or goes on."""
    left, last = Signal(count.shape(), name=f"{name}_left"), Signal(name=f"{name}_last")
    with m.If(move):
        m.d.sync += [left.eq(Mux(load, count, left - 1)), last.eq(Mux(load, count == 1, left == 2))]
    return last


class TapLoops(wiring.Component):
    """Counts the loops inside a group (blocks, tap rows, steps of a row), and sums what they add to every lane's place.

    With `window` a step of a row may have up to three taps; `taps` says whether there is a second one, and a third.

    `start` begins a unit; with `begin` it also begins a walk. `step` takes a step; `group_last` says that its group is the unit's
    last. `begin` rises when `walk` arrives and is never set while `running`. The counters are loaded before `start`, which comes
    late in the clock.
    """

    def __init__(self, window: bool = False, cut: bool = False, decks: Decks = Decks.NONE) -> None:
        self._window, self._decks = window, decks
        super().__init__(
            {
                "walk": In(walk_layout(window, cut)),
                **dict.fromkeys(("begin", "running", "start", "step", "group_last"), In(1)),
                "address": Out(ADDRESS_BITS),
                "column": Out(COORDINATE),
                "row": Out(COORDINATE),
                **dict.fromkeys(("first", "last"), Out(1)),
                "exists": Out(1),  # the block, as `blocks_total` says
                **({} if decks is Decks.NONE else {"deck": Out(1)}),
                **({"flat": Out(1), "flat_address": Out(ADDRESS_BITS), "taps": Out(TAPS - 1), "pair": Out(2)} if window else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk, start, step = self.walk, self.start, self.step
        x_last = Signal()
        y_last = Signal()
        block_last = Signal()
        taps_last = Signal()  # of a block
        row_end = Signal()
        block_end = Signal()
        m.d.comb += [taps_last.eq(x_last & y_last), self.last.eq(taps_last & block_last)]
        m.d.comb += [row_end.eq(step & x_last), block_end.eq(step & taps_last)]
        loops = {"y": (y_last, walk.kernel_height, row_end), "block": (block_last, walk.blocks, block_end)}
        kx, dilation = walk.kx, walk.dilation_x
        if self._window:
            m.submodules.steps = steps = RowSteps()
            m.d.comb += [
                *(steps.apart.eq(walk.apart), steps.kernel_width.eq(walk.kernel_width)),
                *(steps.kx.eq(kx), steps.dilation.eq(dilation)),
                *(steps.load.eq(~self.running | x_last), steps.move.eq(~self.running | step)),
                *(x_last.eq(steps.last), self.taps.eq(steps.taps), self.pair.eq(steps.pair)),
            ]
            kx, dilation = steps.words, steps.columns
        else:
            loops["x"] = (x_last, walk.kernel_width, step)
        for name, (last, count, turn) in loops.items():  # `turn` comes late
            m.d.comb += last.eq(countdown(m, name, count, ~self.running | last, ~self.running | turn))
        with m.If(start | step):
            m.d.sync += self.first.eq(start | self.last)

        row_start = Signal(ADDRESS_BITS)
        block_start = Signal(ADDRESS_BITS)
        unit_start = Signal(ADDRESS_BITS)
        next_unit = Signal(ADDRESS_BITS)
        sum_ = Signal(ADDRESS_BITS)
        next_block, unit_step = block_start + walk.block, walk.unit
        if self._decks is not Decks.NONE:
            turns = self._turns(m, x_last, taps_last)
            next_block = Mux(turns.deck, next_block, block_start)  # the deck comes late: it chooses behind the sum
            unit_step = Mux(turns.starting, unit_step, 0) if self._decks is Decks.UNITS else unit_step
        with m.If(~x_last):
            m.d.comb += sum_.eq(self.address + kx)
        with m.Elif(~y_last):
            m.d.comb += sum_.eq(row_start + walk.ky)
        with m.Elif(~block_last):
            m.d.comb += sum_.eq(next_block)
        with m.Else():
            m.d.comb += sum_.eq(unit_start)
        unit = Mux(self.begin, walk.base, next_unit)
        with m.If(start):
            m.d.sync += [place.eq(unit) for place in (self.address, row_start, block_start, unit_start)]
            m.d.sync += [next_unit.eq(unit + unit_step), self.column.eq(walk.first_x), self.row.eq(walk.first_y)]
        with m.Elif(step):
            m.d.sync += [self.address.eq(sum_), self.column.eq(Mux(x_last, walk.first_x, self.column + dilation))]
            with m.If(x_last):
                m.d.sync += [row_start.eq(sum_), self.row.eq(Mux(y_last, walk.first_y, self.row + walk.dilation_y))]
                with m.If(y_last):
                    m.d.sync += block_start.eq(sum_)
        self._count_blocks(m, block_end)
        if self._window:
            flat_unit = walk.flat_unit
            self._place_flat(m, x_last, flat_unit if self._decks is Decks.NONE else Mux(turns.starting, flat_unit, 0))
        return m

    def _turns(self, m: Module, x_last: Value, taps_last: Value) -> StepDeck:
        """Drives `deck`, that of the step's words."""
        walk = self.walk
        m.submodules.turns = turns = StepDeck(self._decks)
        m.d.comb += [
            *(turns.first.eq(walk.base[DECK_BIT]), turns.across.eq(walk.kx[DECK_BIT])),
            *(turns.begin.eq(self.begin), turns.start.eq(self.start), turns.step.eq(self.step)),
            *(turns.row_end.eq(x_last), turns.block_end.eq(taps_last), turns.group_end.eq(self.last), self.deck.eq(turns.deck)),
        ]
        return turns

    def _place_flat(self, m: Module, x_last: Value, flat_unit: Value) -> None:
        """Drives `flat`, whether the tap is in column 0 and that is flat, and `flat_address`."""
        walk = self.walk
        start = self.start
        next_unit = Signal(ADDRESS_BITS)
        unit = Signal(ADDRESS_BITS)
        m.d.comb += unit.eq(Mux(self.begin, walk.base, next_unit))
        with m.If(start):
            m.d.sync += [self.flat_address.eq(unit), next_unit.eq(unit + flat_unit)]
        with m.If(start | self.step):
            m.d.sync += self.flat.eq(walk.flat & (start | x_last))

    def _count_blocks(self, m: Module, block_end: Value) -> None:
        """Drives `exists`: the number of the walk's blocks that are left after this one is not negative.

        Each group of a unit begins again with the unit's first block. `block_end` comes late in the clock, so it only enables.
        """
        left = Signal(signed(UNIT_BITS + 1))
        unit_left = Signal(signed(UNIT_BITS + 1))
        limited = Signal()
        fewer = Signal(signed(UNIT_BITS + 1))
        m.d.comb += [self.exists.eq(~limited | (left >= 0)), fewer.eq(Mux(left < 0, left, left - 1))]
        with m.If(self.begin):
            m.d.sync += limited.eq(self.walk.blocks_total != 0)
            m.d.sync += [total.eq(self.walk.blocks_total - 1) for total in (left, unit_left)]
        with m.Elif(block_end):
            m.d.sync += left.eq(Mux(self.last & ~self.group_last, unit_left, fewer))
            with m.If(self.last & self.group_last):
                m.d.sync += unit_left.eq(fewer)
