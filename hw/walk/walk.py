"""A walk over output pixels as a command, and the steps it yields: what `walker.py` takes and gives.

The loops and addresses are those of `docs/engines.md`, "The walk over output pixels".
"""

from typing import Any

from amaranth import ValueLike, signed, unsigned
from amaranth.lib import data

from cnna.spec.regmap import ADDRESS_BITS

SIZE_BITS = 13  # of a width or height
IMAGE_BITS = 9  # of a number of images
TAP_BITS = 8  # of a kernel's width or height
STRIDE_BITS = 6  # of strides and dilations
FIRST_BITS = 12  # of the first source coordinate, signed
BLOCK_BITS = 12  # of a number of inner blocks
UNIT_BITS = 16  # of a number of units, and of all blocks


def walk_layout() -> data.StructLayout:
    """A walk. Steps are words, modulo 2^20; counts are at least 1.

    Units outside, then groups of `lanes` pixels, then blocks, tap rows, taps (fastest). Unit u, block b, pixel n, tap (ky, kx)
    are at `base + u * .unit + b * .block + n * .x + rows(n) * .row + images(n) * .image + ky * .ky + kx * .kx`. `pad` is what
    a tap outside the source reads. A block whose number in the whole walk, `u * blocks + b`, is not below `blocks_total` does
    not exist (0: all do).
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
        }
    )


def source_walk(
    walk: data.View, command: data.View, *, blocks: ValueLike, block: ValueLike, units: ValueLike, unit: ValueLike
) -> list[Any]:
    """Sets a walk from the source members of an engine's command; the loops over blocks and units are the caller's."""
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
    walk: data.View, command: data.View, plane: str, *, blocks: int, units: ValueLike, blocks_total: ValueLike
) -> list[Any]:
    """Sets a walk from the members `plane`, `plane_x`.. of an engine's command: every pixel once, `blocks` blocks a unit."""
    return [
        walk.base.eq(command[plane]),
        *(walk[name].eq(command[f"{plane}_{name}"]) for name in ("x", "row", "image", "block")),
        *(walk[name].eq(command[f"out_{name}"]) for name in ("width", "height")),
        walk.images.eq(command.images),
        *(walk[name].eq(0) for name in ("kx", "ky", "first_x", "first_y", "stride_x", "stride_y", "dilation_x", "dilation_y")),
        *(walk[name].eq(1) for name in ("kernel_width", "kernel_height", "in_width", "in_height")),
        walk.blocks.eq(blocks),
        walk.units.eq(units),
        walk.unit.eq(command[f"{plane}_block"] * blocks),
        walk.blocks_total.eq(blocks_total),
        walk.pad.eq(0),
    ]


def step_layout(lanes: int) -> data.StructLayout:
    """One step: an address a lane, and where in the walk it is.

    `exists`: the lane has a pixel and the block exists. `inside`: it exists, and its tap lies within the source.
    `first`, `last`: of the steps of a group. `group_last`: on all steps of a unit's last group. `unit_last`: on all of
    the last unit.
    """
    return data.StructLayout(
        {
            "address": data.ArrayLayout(ADDRESS_BITS, lanes),
            "exists": unsigned(lanes),
            "inside": unsigned(lanes),
            **dict.fromkeys(("first", "last", "group_last", "unit_last"), unsigned(1)),
            "pad": signed(8),
        }
    )
