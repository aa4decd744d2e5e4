"""Set-up of a walk: where each lane starts, and how far a group of `lanes` pixels steps.

It steps once, pixel by pixel, through the first `lanes` pixels: where it then stands is the place of the second group and
the distance that every lane goes from group to group, so that nothing divides. `walker.py` runs the plan.
"""

from amaranth import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.walk.walk import IMAGE_BITS, SIZE_BITS, STRIDE_BITS, walk_layout
from cnna.spec.regmap import ADDRESS_BITS

SPAN_BITS = SIZE_BITS + STRIDE_BITS  # of a source coordinate relative to the first
IMAGE = signed(IMAGE_BITS + 1)  # an image's number less the number of images: negative where it exists


class Place(data.Struct):
    """An output pixel, and its source relative to that of pixel 0; whether the group's step leads into a new row, and image.

    The flags stand ready a group ahead, so that nothing waits for the sums that tell.
    """

    x: unsigned(SIZE_BITS)
    y: unsigned(SIZE_BITS)
    image: IMAGE
    address: unsigned(ADDRESS_BITS)
    column: unsigned(SPAN_BITS)
    row: unsigned(SPAN_BITS)
    new_row: unsigned(1)
    new_image: unsigned(1)


class GroupStep(data.Struct):
    """From a lane's pixel to the one `lanes` further. Bit 0 of an index says that it is in a new row, bit 1 in a new image.

    `x_two[i]` and `y_two[j][i]` tell of the step after: added to a place's x and y, they are negative where that one does
    not leave the row or the image (j: it leaves the row).
    """

    x: data.ArrayLayout(signed(SIZE_BITS + 1), 2)
    x_two: data.ArrayLayout(signed(SIZE_BITS + 2), 2)
    y: data.ArrayLayout(signed(SIZE_BITS + 1), 4)
    y_two: data.ArrayLayout(data.ArrayLayout(signed(SIZE_BITS + 2), 4), 2)
    image: unsigned(IMAGE_BITS)
    address: data.ArrayLayout(ADDRESS_BITS, 4)
    column: data.ArrayLayout(signed(SPAN_BITS + 1), 2)
    row: data.ArrayLayout(signed(SPAN_BITS + 1), 4)


def plan_layout(lanes: int) -> data.StructLayout:
    """A walk, the places of its first `lanes` pixels and of the one after them, and the step of a group."""
    return data.StructLayout({"walk": walk_layout(), "lanes": data.ArrayLayout(Place, lanes), "ahead": Place, "group": GroupStep})


class WalkPlan(wiring.Component):
    """Plans one walk at a time, in at most lanes + 12 clocks; takes the next one once the plan has been taken."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        super().__init__({"command": In(stream.Signature(walk_layout())), "plan": Out(stream.Signature(plan_layout(lanes)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, walk, place, group = self.plan.p, self.plan.p.walk, self.plan.p.ahead, self.plan.p.group
        first_step = max(2, STRIDE_BITS - self._lanes)  # a clock; sums are ready at it, products when the last step is done
        finish = first_step + self._lanes
        busy, clock = Signal(), Signal(range(finish + 5))
        columns, rows = Signal(SPAN_BITS), Signal(SPAN_BITS)  # width * stride_x, height * stride_y
        sums = (  # a member of `group`: the learned distance, what leaving a row adds, what leaving an image adds
            (group.x, place.x, -walk.width, None),
            (group.y, place.y, 1, -walk.height),
            (group.address, place.address, walk.row, walk.image),
            (group.column, place.column, -columns, None),
            (group.row, place.row, walk.stride_y, -rows),
        )
        m.d.comb += self.command.ready.eq(~busy)
        with m.If(self.command.valid & ~busy):
            m.d.sync += [busy.eq(1), clock.eq(0), columns.eq(0), rows.eq(0)]
            m.d.sync += [walk.eq(self.command.p), place.eq(0), place.image.eq(-self.command.p.images)]
        with m.Elif(self.plan.valid & self.plan.ready):
            m.d.sync += [busy.eq(0), self.plan.valid.eq(0)]

        with m.If(busy & (clock != finish + 4)):
            m.d.sync += clock.eq(clock + 1)
            with m.If(clock < STRIDE_BITS):
                for product, size, stride in ((columns, walk.width, walk.stride_x), (rows, walk.height, walk.stride_y)):
                    bit = stride[::-1].bit_select(clock, 1)  # highest first
                    m.d.sync += product.eq((product << 1) + Mux(bit, size, 0))
            for i in range(self._lanes):
                with m.If(clock == first_step + i):
                    m.d.sync += plan.lanes[i].eq(place)
            with m.If(clock == finish):
                m.d.sync += [
                    group.image.eq(place.image + walk.images),
                    *(total[0].eq(part) for total, part, _, _ in sums),
                    *(total[1].eq(part + new_row) for total, part, new_row, _ in sums),
                ]
            with m.If(clock == finish + 1):
                m.d.sync += [
                    total[2 + i].eq(total[i] + new_image) for total, _, _, new_image in sums if len(total) == 4 for i in (0, 1)
                ]
            self._look_ahead(m, clock == finish + 2, clock == finish + 3)
        stepping = Signal()  # `clock` is within first_step..finish - 1
        m.d.sync += stepping.eq(busy & (clock >= first_step - 1) & (clock < finish - 1))
        self._step(m, stepping)
        return m

    def _look_ahead(self, m: Module, rows: Value, images: Value) -> None:
        """Finishes the plan: which places' next step leads into a new row (in the clock `rows`), then image (`images`)."""
        group = self.plan.p.group
        places = [self.plan.p.ahead, *self.plan.p.lanes]
        with m.If(rows):
            m.d.sync += [group.x_two[i].eq(group.x[i] + group.x[1]) for i in (0, 1)]
            m.d.sync += [group.y_two[j][i].eq(group.y[i] + group.y[2 + j]) for j in (0, 1) for i in range(4)]
            m.d.sync += [place.new_row.eq(place.x + group.x[1] >= 0) for place in places]
        with m.If(images):
            m.d.sync += [place.new_image.eq(place.y + Mux(place.new_row, group.y[3], group.y[2]) >= 0) for place in places]
            m.d.sync += self.plan.valid.eq(1)

    def _step(self, m: Module, enable: Value) -> None:
        """Moves `plan.ahead` by one pixel where enabled. Whether it stands at an end is known a step ahead."""
        walk, place = self.plan.p.walk, self.plan.p.ahead
        next_row, next_image = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)  # what a step into a new row, and image, adds
        before_x, before_y = Signal(SIZE_BITS), Signal(SIZE_BITS)  # the place one before the last
        narrow, low = Signal(), Signal()  # a row, or column, of one pixel
        row_end, column_end, image_end = Signal(), Signal(), Signal()
        m.d.sync += [next_row.eq(walk.x + walk.row), next_image.eq(next_row + walk.image)]
        m.d.sync += [before_x.eq(walk.width - 2), before_y.eq(walk.height - 2)]
        m.d.comb += [narrow.eq(before_x.all()), low.eq(before_y.all()), image_end.eq(row_end & column_end)]
        with m.If(enable):
            m.d.sync += [
                place.address.eq(place.address + Mux(image_end, next_image, Mux(row_end, next_row, walk.x))),
                place.x.eq(Mux(row_end, 0, place.x + 1)),
                place.column.eq(Mux(row_end, 0, place.column + walk.stride_x)),
                row_end.eq(Mux(row_end, narrow, place.x == before_x)),
            ]
            with m.If(row_end):
                m.d.sync += place.y.eq(Mux(image_end, 0, place.y + 1))
                m.d.sync += place.row.eq(Mux(image_end, 0, place.row + walk.stride_y))
                m.d.sync += column_end.eq(Mux(column_end, low, place.y == before_y))
            with m.If(image_end):
                m.d.sync += place.image.eq(place.image + 1)
        with m.Else():  # for the first step; after the last one it does not matter
            m.d.sync += [row_end.eq(narrow), column_end.eq(low)]
