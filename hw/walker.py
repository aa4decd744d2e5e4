"""The walk over output pixels, run: a step of `lanes` addresses a clock, with masks.

`fetch.py` reads and `scatter.py` writes feature memory along such a walk. `WalkPlan` sets a command up while the last unit
of the one before it runs; `Taps` counts the loops inside a group, which all lanes share; each lane keeps its own pixel.
"""

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.ports import Permit
from cnna.hw.regmap import ADDRESS_BITS
from cnna.hw.walk import UNIT_BITS, step_layout, walk_layout
from cnna.hw.walkplan import SPAN_BITS, GroupStep, Place, WalkPlan

PERMITS = 3  # units that may be permitted ahead of their start
COORDINATE = signed(SPAN_BITS + 2)  # of a tap in its source, with first, stride and dilation at their widest


def countdown(m: Module, name: str, count: Value, load: Value, step: Value) -> Signal:
    """A flag that is set while the last of `count` steps is due, `load` having set the count. `load` wins over `step`."""
    left, last = Signal(count.shape(), name=f"{name}_left"), Signal(name=f"{name}_last")
    with m.If(load):
        m.d.sync += [left.eq(count), last.eq(count == 1)]
    with m.Elif(step):
        m.d.sync += [left.eq(left - 1), last.eq(left == 2)]
    return last


class Taps(wiring.Component):
    """The loops inside a group (blocks, tap rows, taps), and what they add to every lane's place.

    `start` begins a unit, `begin` with it a walk; `step` takes a step, `unit_end` with it the last of a unit.
    """

    walk: In(walk_layout())
    begin: In(1)
    start: In(1)
    step: In(1)
    unit_end: In(1)
    address: Out(ADDRESS_BITS)
    column: Out(COORDINATE)
    row: Out(COORDINATE)
    first: Out(1)
    last: Out(1)
    exists: Out(1)  # the block, as `blocks_total` says

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk, start, step = self.walk, self.start, self.step
        x_last, y_last, block_last, row_end, block_end = (Signal() for _ in range(5))
        m.d.comb += [row_end.eq(step & x_last), block_end.eq(row_end & y_last), self.last.eq(x_last & y_last & block_last)]
        m.d.comb += x_last.eq(countdown(m, "x", walk.kernel_width, start | row_end, step))
        m.d.comb += y_last.eq(countdown(m, "y", walk.kernel_height, start | block_end, row_end))
        m.d.comb += block_last.eq(countdown(m, "block", walk.blocks, start | (step & self.last), block_end))
        with m.If(start | step):
            m.d.sync += self.first.eq(start | self.last)

        row_start, block_start, unit_start, next_unit, sum_ = (Signal(ADDRESS_BITS) for _ in range(5))
        with m.If(~x_last):
            m.d.comb += sum_.eq(self.address + walk.kx)
        with m.Elif(~y_last):
            m.d.comb += sum_.eq(row_start + walk.ky)
        with m.Elif(~block_last):
            m.d.comb += sum_.eq(block_start + walk.block)
        with m.Else():
            m.d.comb += sum_.eq(unit_start)
        unit = Mux(self.begin, walk.base, next_unit)
        with m.If(start):
            m.d.sync += [place.eq(unit) for place in (self.address, row_start, block_start, unit_start)]
            m.d.sync += [next_unit.eq(unit + walk.unit), self.column.eq(walk.first_x), self.row.eq(walk.first_y)]
        with m.Elif(step):
            m.d.sync += [self.address.eq(sum_), self.column.eq(Mux(x_last, walk.first_x, self.column + walk.dilation_x))]
            with m.If(x_last):
                m.d.sync += [row_start.eq(sum_), self.row.eq(Mux(y_last, walk.first_y, self.row + walk.dilation_y))]
                with m.If(y_last):
                    m.d.sync += block_start.eq(sum_)
        self._count_blocks(m, block_end)
        return m

    def _count_blocks(self, m: Module, block_end: Value) -> None:
        """Keeps `exists`: of the blocks of the whole walk, those left after this one are not negative."""
        left, unit_left = Signal(signed(UNIT_BITS + 1)), Signal(signed(UNIT_BITS + 1))
        limited, fewer = Signal(), Signal(signed(UNIT_BITS + 1))
        m.d.comb += [self.exists.eq(~limited | (left >= 0)), fewer.eq(Mux(left < 0, left, left - 1))]
        with m.If(self.start & self.begin):
            m.d.sync += limited.eq(self.walk.blocks_total != 0)
            m.d.sync += [total.eq(self.walk.blocks_total - 1) for total in (left, unit_left)]
        with m.Elif(self.unit_end):
            m.d.sync += [left.eq(fewer), unit_left.eq(fewer)]
        with m.Elif(block_end):
            m.d.sync += left.eq(Mux(self.last, unit_left, fewer))


def next_place(m: Module, name: str, place: data.View, group: data.View) -> data.View:
    """The place one group further than `place`."""
    after = Signal(Place, name=f"{name}_after")
    edge = Cat(place.new_row, place.new_image)
    m.d.comb += [
        after.x.eq(place.x + group.x[place.new_row]),
        after.y.eq(place.y + group.y[edge]),
        after.image.eq(place.image + group.image + place.new_image),
        after.address.eq(place.address + group.address[edge]),
        after.column.eq(place.column + group.column[place.new_row]),
        after.row.eq(place.row + group.row[edge]),
        after.new_row.eq(place.x + group.x_two[place.new_row] >= 0),
        after.new_image.eq(Mux(after.new_row, *(place.y + group.y_two[into][edge] >= 0 for into in (1, 0)))),
    ]
    return after


class Walker(wiring.Component):
    """Walks: a step a clock, from group to group and unit to unit without a gap, 2 clocks more between commands.

    A unit starts once `permit` has given it leave. Latency: lanes + 17 clocks at most from an idle walker's command to its
    first step.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "command": In(stream.Signature(walk_layout())),
                "permit": In(Permit()),
                "step": Out(stream.Signature(step_layout(lanes))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.plan = planner = WalkPlan(self._lanes)
        m.submodules.taps = taps = Taps()
        wiring.connect(m, wiring.flipped(self.command), planner.command)
        plan, walk = planner.plan, Signal(walk_layout(), reset_less=True)
        m.d.comb += taps.walk.eq(walk)
        running, more, begin = Signal(), Signal(), Signal()
        take, start, step, unit_end = Signal(), Signal(), Signal(), Signal()
        permits, allowed, group = Signal(range(PERMITS + 1)), Signal(), Signal(GroupStep, reset_less=True)
        final = countdown(m, "units", plan.p.walk.units, take, start)  # the next unit to start is the last
        places, group_last = self._places(m, plan.p, group, start, step & taps.last)
        flags = {"first": taps.first, "last": taps.last, "group_last": group_last, "unit_last": ~more, "pad": walk.pad}
        summed = self._finish(m, places, taps, flags, step)
        m.d.comb += [
            step.eq(running & (~summed | ~self.step.valid | self.step.ready)),
            unit_end.eq(step & taps.last & group_last),
            start.eq((~running | unit_end) & allowed),
            take.eq(plan.valid & ~running & ~more & ~summed),
            plan.ready.eq(start & final),
            self.permit.ready.eq(permits != PERMITS),
            Cat(taps.begin, taps.start, taps.step, taps.unit_end).eq(Cat(begin, start, step, unit_end)),
        ]
        left = Signal(range(PERMITS + 2))
        m.d.comb += left.eq(permits + (self.permit.valid & self.permit.ready) - start)
        m.d.sync += [permits.eq(left), allowed.eq((left != 0) & Mux(start, ~final, more | take))]  # a unit is there, and may start
        with m.If(take):
            m.d.sync += [walk.eq(plan.p.walk), group.eq(plan.p.group), more.eq(1), begin.eq(1)]
        with m.If(start):
            m.d.sync += [running.eq(1), more.eq(~final), begin.eq(0)]
        with m.Elif(unit_end):
            m.d.sync += running.eq(0)
        return m

    def _places(self, m: Module, plan: data.View, group: data.View, start: Value, advance: Value) -> tuple[list[data.View], Value]:
        """The pixel of each lane, and whether the group is the unit's last: the lane after it has none."""
        names = [*(f"lane{i}" for i in range(self._lanes)), "ahead"]
        places = [Signal(Place, name=name, reset_less=True) for name in names]
        for name, place, first in zip(names, places, [*plan.lanes, plan.ahead], strict=True):
            after = next_place(m, name, place, group)
            with m.If(start):
                m.d.sync += place.eq(first)
            with m.Elif(advance):
                m.d.sync += place.eq(after)
        return places[:-1], places[-1].image >= 0

    def _finish(self, m: Module, places: list[data.View], taps: Taps, flags: dict[str, Value], step: Value) -> Signal:
        """Two stages: sums a place and the taps' share, then compares with the source's edges. Returns the first one's valid."""
        summed = Signal()
        held, out = (Signal(step_layout(self._lanes), name=name, reset_less=True) for name in ("held", "out"))
        columns, rows = (
            Signal(data.ArrayLayout(COORDINATE, self._lanes), name=name, reset_less=True) for name in ("columns", "rows")
        )
        free = ~self.step.valid | self.step.ready
        m.d.comb += self.step.p.eq(out)
        with m.If(free):
            m.d.sync += [self.step.valid.eq(summed), out.eq(held)]
            for i in range(self._lanes):
                inside_x = (columns[i] >= 0) & (columns[i] < taps.walk.in_width)
                inside_y = (rows[i] >= 0) & (rows[i] < taps.walk.in_height)
                m.d.sync += out.inside[i].eq(held.exists[i] & inside_x & inside_y)
        with m.If(free | ~summed):
            m.d.sync += [summed.eq(step), *(held[name].eq(flag) for name, flag in flags.items())]
            for i, place in enumerate(places):
                m.d.sync += [
                    held.address[i].eq(place.address + taps.address),
                    held.exists[i].eq((place.image < 0) & taps.exists),
                    columns[i].eq(place.column + taps.column),
                    rows[i].eq(place.row + taps.row),
                ]
        return summed
