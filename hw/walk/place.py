"""A lane's pixel in a walk, which goes from group to group, and its taps' place in the source.

`walker.py` has a `WalkPlace` for each lane and one more for the pixel after them, and a `WalkEdge` for each lane. Each decides
for itself when it moves: one decision for all lanes would be a net of a thousand loads.
"""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import NET
from cnna.hw.walk.plan import SPAN_BITS, GroupStep, Place
from cnna.hw.walk.walk import SIZE_BITS

COORDINATE = signed(SPAN_BITS + 2)  # of a tap in its source, with first, stride and dilation at their widest


class WalkPlace(wiring.Component):
    """`place` becomes `first` in the clock a unit starts, and moves by `group` with the last tap of a group.

    A step is taken where `running` and `moving`; `tap_last` says that it is a group's last, `group_last` that the group is the
    unit's last. The next unit starts where none is running or its last step is taken, and `allowed`.
    """

    running: In(1)
    moving: In(1)
    tap_last: In(1)
    group_last: In(1)
    allowed: In(1)
    first: In(Place)
    group: In(GroupStep)
    place: Out(Place)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place, advance, starts = Signal(Place, reset_less=True), Signal(attrs=NET), Signal(attrs=NET)
        m.d.comb += [self.place.eq(place), advance.eq(self.running & self.moving & self.tap_last)]
        after = self._after(m, place)
        m.d.comb += starts.eq((~self.running | (advance & self.group_last)) & self.allowed)
        with m.If(starts):
            m.d.sync += place.eq(self.first)
        with m.Elif(advance):
            m.d.sync += place.eq(after)
        return m

    def _after(self, m: Module, place: Signal) -> Signal:
        """The place one group further."""
        group, after, edge = self.group, Signal(Place), Cat(place.new_row, place.new_image)
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


class WalkEdge(wiring.Component):
    """Whether a tap `exists` and is within the source.

    The sums of the place's and the tap's share are taken where not `summed`, or with `room`.
    """

    summed: In(1)
    room: In(1)
    place_column: In(SPAN_BITS)
    place_row: In(SPAN_BITS)
    tap_column: In(COORDINATE)
    tap_row: In(COORDINATE)
    width: In(SIZE_BITS)
    height: In(SIZE_BITS)
    exists: In(1)
    inside: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        column, row = (Signal(COORDINATE, name=name, reset_less=True) for name in ("column", "row"))
        moves = Signal(attrs=NET)
        m.d.comb += moves.eq(~self.summed | self.room)
        with m.If(moves):
            m.d.sync += [column.eq(self.place_column + self.tap_column), row.eq(self.place_row + self.tap_row)]
        m.d.comb += self.inside.eq(self.exists & (column >= 0) & (column < self.width) & (row >= 0) & (row < self.height))
        return m
