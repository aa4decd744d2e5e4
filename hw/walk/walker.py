"""Runs a walk over output pixels: a step of `lanes` addresses a clock, with masks.

`fetch.py` reads and `scatter.py` writes feature memory along such a walk. `WalkPlan` sets a command up while the last unit
of the one before it runs. `tap_loops.py` counts the loops inside a group, which all lanes share. Each lane has a `LanePlace` for
its pixel, with one more for the pixel after them, and an `EdgeCheck`. Each of these decides for itself when it moves: one decision
for all lanes would be a net of a thousand loads.
"""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import NET
from cnna.hw.base.ports import Permit
from cnna.hw.base.queues import SkidBuffer
from cnna.hw.walk.decks import Decks, on_deck
from cnna.hw.walk.tap_loops import COORDINATE, TapLoops, countdown
from cnna.hw.walk.walk import SIZE_BITS, SPAN_BITS, GroupStep, PixelPlace, WalkPlan, step_layout, walk_layout
from cnna.spec.config import TAPS
from cnna.spec.regmap import ADDRESS_BITS

PERMITS = 3  # units that may be permitted ahead of their start
MORE = data.ArrayLayout(COORDINATE, TAPS - 1)  # a column for each further tap of a step


class LanePlace(wiring.Component):
    """Holds one lane's pixel. `place` becomes `first` when a unit starts, and moves by `group` with the last tap of each group.

    A step is taken while `running` and `moving` are set. `tap_last` marks a group's last step, `group_last` a unit's last
    group. If `allowed`, the next unit starts when none is running or when the last step of one is taken.
    """

    running: In(1)
    moving: In(1)
    tap_last: In(1)
    group_last: In(1)
    allowed: In(1)
    first: In(PixelPlace)
    group: In(GroupStep)
    place: Out(PixelPlace)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = Signal(PixelPlace, reset_less=True)
        advance = Signal(attrs=NET)
        starts = Signal(attrs=NET)
        m.d.comb += [self.place.eq(place), advance.eq(self.running & self.moving & self.tap_last)]
        after = self._after(m, place)
        m.d.comb += starts.eq((~self.running | (advance & self.group_last)) & self.allowed)
        with m.If(starts):
            m.d.sync += place.eq(self.first)
        with m.Elif(advance):
            m.d.sync += place.eq(after)
        return m

    def _after(self, m: Module, place: Signal) -> Signal:
        """The lane's place in the next group."""
        group = self.group
        after = Signal(PixelPlace)
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


class EdgeCheck(wiring.Component):
    """Tells whether one lane's tap `exists` and lies within the source.

    A tap's coordinate is the sum of the pixel's and the tap's share. The sums are registered unless `summed` (they hold a step) and
    there is no `room` for that step. With `flat` the check has an input of that name, for taps that are never outside. With
    `window` it checks a step's further taps too: `lows` and `highs` limit the first tap's column for each of them.
    """

    def __init__(self, window: bool = False, flat: bool = False) -> None:
        self._window, self._flat = window, flat
        super().__init__(
            {
                **dict.fromkeys(("summed", "room"), In(1)),
                **dict.fromkeys(("place_column", "place_row"), In(SPAN_BITS)),
                **dict.fromkeys(("tap_column", "tap_row"), In(COORDINATE)),
                **dict.fromkeys(("width", "height"), In(SIZE_BITS)),
                "exists": In(1),
                **({"flat": In(1)} if flat else {}),
                **(dict.fromkeys(("lows", "highs"), In(MORE)) | {"more": Out(TAPS - 1)} if window else {}),
                "inside": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        column, row = (Signal(COORDINATE, name=name, reset_less=True) for name in ("column", "row"))
        moves = Signal(attrs=NET)
        m.d.comb += moves.eq(~self.summed | self.room)
        with m.If(moves):
            m.d.sync += [column.eq(self.place_column + self.tap_column), row.eq(self.place_row + self.tap_row)]
            if self._flat:  # no source is so small that it has no place (0, 0)
                with m.If(self.flat):
                    m.d.sync += [column.eq(0), row.eq(0)]
        there = Signal()
        m.d.comb += [
            there.eq(self.exists & (row >= 0) & (row < self.height)),
            self.inside.eq(there & (column >= 0) & (column < self.width)),
        ]
        if self._window:
            for more, (low, high) in zip(self.more, zip(self.lows, self.highs, strict=True), strict=True):
                m.d.comb += more.eq(there & (column >= low) & (column < high))
        return m


class Walker(wiring.Component):
    """Runs walks: a step a clock, without a gap between groups or units, with 2 more clocks between commands.

    A unit starts only after `permit` has allowed it. Latency: at most lanes + 17 clocks from an idle walker's command to its first
    step. Only with `window` can walks have a flat tap, or steps of several taps, and only with `cut` rows of which a part exists.
    """

    def __init__(self, lanes: int, window: bool = False, cut: bool = False, decks: Decks = Decks.NONE) -> None:
        self._lanes, self._window, self._cut, self._decks = lanes, window, cut, decks
        super().__init__(
            {
                "command": In(stream.Signature(walk_layout(window, cut))),
                "permit": In(Permit()),
                "step": Out(stream.Signature(step_layout(lanes, window))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.plan = planner = WalkPlan(self._lanes, self._window, self._cut)
        m.submodules.taps = taps = TapLoops(self._window, self._cut, self._decks)
        wiring.connect(m, wiring.flipped(self.command), planner.command)
        plan, walk = planner.plan, Signal(walk_layout(self._window, self._cut), reset_less=True)
        m.d.comb += taps.walk.eq(walk)
        running = Signal()
        more = Signal()
        begin = Signal()
        loaded = Signal()
        take = Signal()  # a plan
        start = Signal()  # of a unit
        unit_end = Signal()  # of a unit
        step = Signal()
        moving = Signal()
        permits = Signal(range(PERMITS + 1))
        allowed = Signal()
        group = Signal(GroupStep, reset_less=True)
        final = countdown(m, "units", plan.p.walk.units, take, take | start)  # the next unit to start is the last
        group_last = Signal()
        decision = {"running": running, "moving": moving, "tap_last": taps.last, "group_last": group_last, "allowed": allowed}
        places = self._places(m, plan.p, group, decision)
        m.d.comb += group_last.eq(places.pop().image >= 0)  # the lane after the last has no pixel
        flags = {"first": taps.first, "last": taps.last, "group_last": group_last, "unit_last": ~more, "pad": walk.pad}
        flags |= {"flat": taps.flat, "taps": taps.taps, "pair": taps.pair} if self._window else {}
        summed = self._finish(m, places, taps, flags, step, moving)
        m.d.comb += [
            step.eq(running & moving),
            unit_end.eq(step & taps.last & group_last),
            start.eq((~running | unit_end) & allowed),
            take.eq(plan.valid & ~running & ~more & ~summed),
            plan.ready.eq(start & final),
            self.permit.ready.eq(permits != PERMITS),
            Cat(taps.begin, taps.running, taps.start, taps.step, taps.group_last).eq(Cat(begin, running, start, step, group_last)),
        ]
        left = Signal(range(PERMITS + 2))  # without this clock's start, whose condition comes late in the clock
        m.d.comb += left.eq(permits + (self.permit.valid & self.permit.ready))
        m.d.sync += permits.eq(left - start)
        m.d.sync += allowed.eq(Mux(start, (left > 1) & ~final, (left != 0) & (more | take)))  # a unit is there, and may start
        with m.If(take):
            m.d.sync += [walk.eq(plan.p.walk), more.eq(1), begin.eq(1)]
        m.d.sync += loaded.eq(take)
        with m.If(loaded):  # a clock later than `walk`, as no group is stepped before: each of two enables has half of the loads
            m.d.sync += group.eq(plan.p.group)
        with m.If(start):
            m.d.sync += [running.eq(1), more.eq(~final), begin.eq(0)]
        with m.Elif(unit_end):
            m.d.sync += running.eq(0)
        return m

    def _places(self, m: Module, plan: data.View, group: data.View, decision: dict[str, Value]) -> list[data.View]:
        """A `LanePlace` for each lane, and one for the pixel after the last lane."""
        places = []
        for name, first in [*((f"lane{i}", plan.lanes[i]) for i in range(self._lanes)), ("ahead", plan.ahead)]:
            m.submodules[name] = one = LanePlace()
            m.d.comb += [one.first.eq(first), one.group.eq(group), *(getattr(one, flag).eq(decision[flag]) for flag in decision)]
            places.append(one.place)
        return places

    def _finish(
        self, m: Module, places: list[data.View], taps: TapLoops, flags: dict[str, Value], step: Value, moving: Signal
    ) -> Signal:
        """Adds each place and the taps' share, compares with the source's edges, and queues the step. Returns the sums' valid."""
        m.submodules.steps = steps = SkidBuffer(step_layout(self._lanes, self._window))
        wiring.connect(m, steps.o, wiring.flipped(self.step))
        summed = Signal()
        held = Signal(step_layout(self._lanes, self._window), reset_less=True)
        # the lanes that read: lane 0 reads a flat word
        own = Signal(self._lanes, name="own", reset_less=True) if self._window else held.exists
        m.d.comb += [moving.eq(~summed | steps.i.ready), steps.i.valid.eq(summed)]
        m.d.comb += [steps.i.p[name].eq(held[name]) for name, _ in held.shape() if name not in ("inside", "more")]
        if self._window:
            lows = Signal(MORE)
            highs = Signal(MORE)
            for number in range(1, TAPS):
                m.d.sync += lows[number - 1].eq(-number * taps.walk.stride_x)
                m.d.sync += highs[number - 1].eq(taps.walk.in_width - number * taps.walk.stride_x)
        for i, place in enumerate(places):
            m.submodules[f"edge{i}"] = edge = EdgeCheck(self._window, self._window and i == 0)
            m.d.comb += [
                *(edge.summed.eq(summed), edge.room.eq(steps.i.ready)),
                *(edge.place_column.eq(place.column), edge.tap_column.eq(taps.column), edge.width.eq(taps.walk.in_width)),
                *(edge.place_row.eq(place.row), edge.tap_row.eq(taps.row), edge.height.eq(taps.walk.in_height)),
                edge.exists.eq(own[i]),
                steps.i.p.inside[i].eq(edge.inside),
                edge.flat.eq(taps.flat) if self._window and i == 0 else [],
            ]
            if self._window:
                m.d.comb += [edge.lows.eq(lows), edge.highs.eq(highs), steps.i.p.more[i].eq(edge.more & held.taps)]
        with m.If(moving):
            m.d.sync += [summed.eq(step), *(held[name].eq(flag) for name, flag in flags.items())]
            for i, place in enumerate(places):
                address, exists = place.address + taps.address, (place.image < 0) & taps.exists
                if self._cut:
                    columns = taps.walk.columns
                    exists &= (columns == 0) | (place.x < columns)
                if self._window:
                    address = address if i else Mux(taps.flat, taps.flat_address, address)
                    m.d.sync += own[i].eq(exists & ~taps.flat if i else exists)
                m.d.sync += [held.address[i].eq(self._located(address, taps)), held.exists[i].eq(exists)]
            if self._window:
                m.d.sync += self._beyond(m, held, places[-1], taps)
        return summed

    def _beyond(self, m: Module, held: data.View, last: data.View, taps: TapLoops) -> list[Any]:
        """The addresses behind the last lane's. Steps of a pair have those of each other's words."""
        found = []
        for number in range(1, TAPS):
            ways = [Signal(signed(ADDRESS_BITS), name=f"way{number}_{pair}") for pair in range(3)]
            across = number * taps.walk.x
            m.d.sync += [way.eq(to) for way, to in zip(ways, (across, across + taps.walk.kx, across - taps.walk.kx), strict=True)]
            way = Mux(taps.pair[0], ways[1], Mux(taps.pair[1], ways[2], ways[0]))
            address = last.address + (taps.address + way)
            found.append(held.address[self._lanes + number - 1].eq(self._located(address, taps)))
        return found

    def _located(self, address: Value, taps: TapLoops) -> Value:
        """An address of a step, in the step's deck if there are two."""
        return address if self._decks is Decks.NONE else on_deck(address, taps.deck)
