"""A walk over output pixels: the command, the steps that it yields, and its set-up.

The loops and addresses are those of `docs/engines.md`, "The walk over output pixels". `WalkPlan` sets a walk up, `walker.py`
runs it.
"""

from typing import Any

from amaranth import Module, Mux, Signal, Value, ValueLike, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.config import TAPS
from cnna.spec.machine import width
from cnna.spec.regmap import ADDRESS_BITS

SIZE_BITS = width("conv", "out_width")  # of a width or height
IMAGE_BITS = width("conv", "images")  # of a number of images
TAP_BITS = width("conv", "kernel_width")  # of a kernel's width or height
STRIDE_BITS = width("conv", "stride_x")  # of strides and dilations
FIRST_BITS = width("conv", "first_x")  # of the first source coordinate, signed
BLOCK_BITS = width("conv", "blocks")  # of a number of inner blocks
APART_BITS = width("vector", "window_apart")
UNIT_BITS = width("vector", "blocks")  # of a number of units, and of all blocks


def walk_layout(window: bool = False, cut: bool = False) -> data.StructLayout:
    """A walk. Address steps are in words, modulo 2^20; counts are at least 1.

    The loops, from the outermost: units, groups of `lanes` pixels, blocks, tap rows, taps. Unit u, block b, pixel n, tap (ky, kx)
    is at `base + u * .unit + b * .block + n * .x + rows(n) * .row + images(n) * .image + ky * .ky + kx * .kx`. A tap outside the
    source reads `pad`. `blocks_total` limits the blocks of the whole walk: block number `u * blocks + b` exists if it is below
    that, or if `blocks_total` is 0.

    With `window` there are three more members. If `flat` is set, tap column 0 reads the word at `base + u * .flat_unit` for all
    pixels, which is never outside. If `apart` is not 0, a step takes up to three taps, as `spec.program.window`
    says; then `x` is `apart` times `kx`. With `cut`, and a member `columns` that is not 0, only so many pixels of a row exist.
    """
    step = signed(ADDRESS_BITS)
    return data.StructLayout(
        {
            "base": unsigned(ADDRESS_BITS),
            **dict.fromkeys(("x", "row", "image", "kx", "ky", "block", "unit"), step),
            **dict.fromkeys(("width", "height"), unsigned(SIZE_BITS)),
            "images": unsigned(IMAGE_BITS),
            **dict.fromkeys(("kernel_width", "kernel_height"), unsigned(TAP_BITS)),
            "blocks": unsigned(BLOCK_BITS),
            "units": unsigned(UNIT_BITS),
            "blocks_total": unsigned(UNIT_BITS),
            **dict.fromkeys(("first_x", "first_y"), signed(FIRST_BITS)),
            **dict.fromkeys(("stride_x", "stride_y", "dilation_x", "dilation_y"), unsigned(STRIDE_BITS)),
            **dict.fromkeys(("in_width", "in_height"), unsigned(SIZE_BITS)),
            "pad": signed(8),
            **({"flat": unsigned(1), "flat_unit": step, "apart": unsigned(APART_BITS)} if window else {}),
            **({"columns": unsigned(SIZE_BITS)} if cut else {}),
        }
    )


def source_walk(
    walk: data.View, command: data.View, *, blocks: ValueLike, block: ValueLike, units: ValueLike, unit: ValueLike
) -> list[Any]:
    """Sets a walk from the source members of an engine's command. The caller gives the loops over blocks and units."""
    same = ("images", "kernel_width", "kernel_height", "first_x", "first_y", "stride_x", "stride_y", "in_width", "in_height", "pad")
    return [
        walk.base.eq(command.src),
        *(walk[name].eq(command[f"src_{name}"]) for name in ("x", "row", "image", "kx", "ky")),
        *(walk[name].eq(command[f"out_{name}"]) for name in ("width", "height")),
        *(walk[name].eq(command[name]) for name in same),
        *(walk[name].eq(command[f"stride_{name}"]) for name in ("dilation_x", "dilation_y")),
        walk.blocks.eq(blocks),
        walk.block.eq(block),
        walk.units.eq(units),
        walk.unit.eq(unit),
        walk.blocks_total.eq(0),
    ]


def plane_walk(
    walk: data.View, command: data.View, plane: str, *, blocks: int, units: ValueLike, blocks_total: ValueLike, depth: int = 1
) -> list[Any]:
    """Sets a walk over every pixel once from the members `plane`, `plane_x`.. of an engine's command; `blocks` blocks a unit.

    With depth 2, a unit of several blocks is as many sets.
    """
    return [
        walk.base.eq(command[plane]),
        *(walk[name].eq(command[f"{plane}_{name}"]) for name in ("x", "row", "image", "block")),
        *(walk[name].eq(command[f"out_{name}"]) for name in ("width", "height")),
        walk.images.eq(command.images),
        *(walk[name].eq(0) for name in ("kx", "ky", "first_x", "first_y", "stride_x", "stride_y", "dilation_x", "dilation_y")),
        *(walk[name].eq(1) for name in ("kernel_width", "kernel_height", "in_width", "in_height")),
        walk.blocks.eq(blocks),
        walk.units.eq(units),
        walk.unit.eq(command[f"{plane}_block"] * max(blocks // depth, 1)),
        walk.blocks_total.eq(blocks_total),
        walk.pad.eq(0),
    ]


def step_layout(lanes: int, window: bool = False) -> data.StructLayout:
    """One step: an address for each lane, and flags that tell where in the walk it is.

    `exists`: the lane has a pixel, and the block exists. `inside`: that, and the tap lies within the source. `first`, `last`: the
    first and last step of a group. `group_last`: set on all steps of a unit's last group. `unit_last`: on all of the last unit.

    With `window` a step may have more taps than one. `taps`: whether there is a second one, and a third. `more`: by lane, whether
    each of these lies within the source. The addresses of the words that the last lane needs for them lie behind those of the
    lanes; steps of a `pair` have those of each other (`exchange`). `flat`: lane 0's address is that of the word for all pixels, and
    no other lane is `inside`.
    """
    return data.StructLayout(
        {
            "address": data.ArrayLayout(ADDRESS_BITS, words_of(lanes, window)),
            "exists": unsigned(lanes),
            "inside": unsigned(lanes),
            **masks_of(lanes, window),
            **pairs_of(window),
            **dict.fromkeys(flags_of(window), unsigned(1)),
            "pad": signed(8),
        }
    )


def flags_of(window: bool) -> tuple[str, ...]:
    """The names of a step's flags."""
    return ("first", "last", "group_last", "unit_last", *(["flat"] if window else []))


def words_of(lanes: int, window: bool) -> int:
    """Words that a step may read."""
    return lanes + (TAPS - 1 if window else 0)


def masks_of(lanes: int, window: bool) -> dict[str, Any]:
    """The members of a step that say which of its further taps there are."""
    return {"more": data.ArrayLayout(unsigned(TAPS - 1), lanes), "taps": unsigned(TAPS - 1)} if window else {}


def pairs_of(window: bool) -> dict[str, Any]:
    """The member of a step that says whether it exchanges words with the step behind it, or with the one before."""
    return {"pair": unsigned(2)} if window else {}


SPAN_BITS = SIZE_BITS + STRIDE_BITS  # of a source coordinate, relative to that of pixel 0
IMAGE = signed(IMAGE_BITS + 1)  # an image's number minus the number of images: negative if the image exists


class PixelPlace(data.Struct):
    """An output pixel and its place in the source, relative to that of pixel 0.

    `new_row` and `new_image`: the step to the next group leads into a new row, or a new image. These flags are known a group ahead,
    so that no step waits for the comparison.
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
    """The step from a lane's pixel to the one `lanes` further, by index: bit 0 says that it is in a new row, bit 1 in a new image.

    `x_two[i]` and `y_two[j][i]` look one step further. Added to a place's x and y, they give a negative sum if the step after this
    one does not leave the row, or the image; j says whether that step leaves the row.
    """

    x: data.ArrayLayout(signed(SIZE_BITS + 1), 2)
    x_two: data.ArrayLayout(signed(SIZE_BITS + 2), 2)
    y: data.ArrayLayout(signed(SIZE_BITS + 1), 4)
    y_two: data.ArrayLayout(data.ArrayLayout(signed(SIZE_BITS + 2), 4), 2)
    image: unsigned(IMAGE_BITS)
    address: data.ArrayLayout(ADDRESS_BITS, 4)
    column: data.ArrayLayout(signed(SPAN_BITS + 1), 2)
    row: data.ArrayLayout(signed(SPAN_BITS + 1), 4)


def plan_layout(lanes: int, window: bool = False, cut: bool = False) -> data.StructLayout:
    """A walk, the places of its first `lanes` pixels and of the pixel after them, and the step from group to group."""
    return data.StructLayout(
        {"walk": walk_layout(window, cut), "lanes": data.ArrayLayout(PixelPlace, lanes), "ahead": PixelPlace, "group": GroupStep}
    )


class WalkPlan(wiring.Component):
    """Sets up one walk at a time: where each lane starts, and how far it steps from group to group.

    It goes pixel by pixel through the first `lanes` pixels. Where it then stands is the place of the second group, and also the
    distance that every lane goes from group to group, so nothing divides. That takes at most lanes + 12 clocks. It takes the next
    command once the plan has been taken.
    """

    def __init__(self, lanes: int, window: bool = False, cut: bool = False) -> None:
        self._lanes = lanes
        command, plan = walk_layout(window, cut), plan_layout(lanes, window, cut)
        super().__init__({"command": In(stream.Signature(command)), "plan": Out(stream.Signature(plan))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, walk, place, group = self.plan.p, self.plan.p.walk, self.plan.p.ahead, self.plan.p.group
        first_step = max(2, STRIDE_BITS - self._lanes)  # a clock's number: sums are ready by then, products after the last step
        finish = first_step + self._lanes
        busy = Signal()
        clock = Signal(range(finish + 5))
        columns = Signal(SPAN_BITS)  # width * stride_x
        rows = Signal(SPAN_BITS)  # height * stride_y
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
        """Finishes the plan: finds which places step into a new row (in the clock `rows`), then into a new image (`images`)."""
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
        """Moves `plan.ahead` by one pixel where enabled. Whether it is at the end of a row or image is known a step ahead."""
        walk, place = self.plan.p.walk, self.plan.p.ahead
        next_row = Signal(ADDRESS_BITS)  # what a step into a new row adds
        next_image = Signal(ADDRESS_BITS)  # what a step into a new image adds
        before_x = Signal(SIZE_BITS)  # the place one before the last
        before_y = Signal(SIZE_BITS)  # the same of rows
        narrow = Signal()  # a row of one pixel
        low = Signal()  # a column of one pixel
        row_end = Signal()
        column_end = Signal()
        image_end = Signal()
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
