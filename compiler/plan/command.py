"""Common parts of the commands of all engines: a command before its waits, and the register fields of walks over output pixels.

`schedule`, `array_commands` and `vector_commands` make commands; `hazards` reads them. docs/engines.md has the formulas of walks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cnna.compiler.graph.ir import Window
from cnna.compiler.lower.kernels import Kernel, Lowered, Map, Phase, Range, source_columns, source_rows
from cnna.compiler.lower.layout import Box, DdrPlace, FeaturePlace
from cnna.compiler.plan.allocate import Allocation
from cnna.spec.config import Config
from cnna.spec.program.decks import located
from cnna.spec.regmap import ADDRESS_BITS, DECK_BIT


class Access(NamedTuple):
    """Words or beats that a command reads or writes.

    Every unit uses the whole box, unless `unit_blocks` is given: then each unit uses that many blocks of it.
    """

    place: FeaturePlace | DdrPlace
    box: Box
    unit_blocks: int = 0


class PlannedCommand(NamedTuple):
    """One command before its waits. fields: as `regmap.command_fields`. origin: image, block, row and column of `tensor`.

    step: from a row, and a column, of the result to the next in `tensor`.
    """

    engine: str
    fields: Mapping[str, int]
    layer: int
    tensor: str | None
    origin: tuple[int, int, int, int]
    units: int = 0
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    step: tuple[int, int] = (1, 1)


KnownCommands = dict[tuple[Any, ...], Sequence[PlannedCommand]]


@dataclass(frozen=True)
class PlanContext:
    """The input for all commands. streams: for each (kernel, part), the offset of its stream in the constant segment.

    known: commands of kernels, by all that they follow from beside the streams and the configuration without its weight ring; gets
    those of this plan.
    """

    lowered: Lowered
    allocation: Allocation
    streams: Mapping[tuple[int, int], int]
    config: Config
    known: KnownCommands = field(default_factory=dict)


def place_in_tensor(kernel: Kernel, phase: Phase, output: Box) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Origin and step of a command that makes a box of a phase's own rows and columns."""
    box = spread(phase, output) if phase.tensor == (kernel.tensor or "") else output
    block = output.blocks[0] - kernel.dest.block + kernel.tensor_block
    return (output.images[0], block, box.rows[0], box.columns[0]), box.step


def signed(value: int) -> int:
    """A signed step as its register holds it: addresses count modulo 2^20."""
    half = 1 << (ADDRESS_BITS - 1)
    return (value + half) % (2 * half) - half


def distance(first: int, other: int, config: Config) -> int:
    """The step from one address to another. With two decks, its top bit says whether they lie in different ones."""
    if config.depth == 1:
        return signed(other - first)
    return signed(located(other - first, (first ^ other) >> DECK_BIT, config.depth))


def shift(range_: Range, by: int) -> Range:
    """The range moved up by `by`."""
    return range_[0] + by, range_[1] + by


def plane(prefix: str, place: FeaturePlace, box: Box) -> dict[str, int]:
    """The walk over a destination or residual operand."""
    down, right = box.step
    height, width = -(-(box.rows[1] - box.rows[0]) // down), -(-(box.columns[1] - box.columns[0]) // right)
    return {
        prefix: place.address(box.images[0], box.blocks[0], box.rows[0], box.columns[0]),
        f"{prefix}_x": right,
        f"{prefix}_row": signed(place.pitch * down - width * right),
        f"{prefix}_image": signed(place.image_words - height * place.pitch * down),
        f"{prefix}_block": signed(place.block_words),
    }


def spread(phase: Phase, output: Box) -> Box:
    """The box of the kernel's map that holds a box of a phase's own rows and columns."""
    (y, x), (down, right) = phase.first, phase.step
    rows = (y + output.rows[0] * down, y + (output.rows[1] - 1) * down + 1)
    columns = (x + output.columns[0] * right, x + (output.columns[1] - 1) * right + 1)
    return Box(output.images, output.blocks, rows, columns, phase.step)


def source(window: Window, pad: int, map_: Map, blocks: Range, output: Box, place: FeaturePlace) -> tuple[dict[str, int], Box]:
    """The walk over the source for an output box, and the box that it reads. Taps outside `map_` read `pad`.

    Coordinates count from the first row and column that are read. So the walk masks taps outside the map for a band or a rectangle
    exactly as for the whole map.
    """
    (down, right), (dilation_y, dilation_x) = window.stride, window.dilation
    rows, columns = source_rows(window, output.rows, map_.height), source_columns(window, output.columns, map_.width)
    row, column = output.rows[0] * down - window.pads[0], output.columns[0] * right - window.pads[1]
    width, height = output.columns[1] - output.columns[0], output.rows[1] - output.rows[0]
    fields = {
        "src": place.address(output.images[0], blocks[0], row, column) % (1 << ADDRESS_BITS),
        "src_x": right,
        "src_row": signed(place.pitch * down - width * right),
        "src_image": signed(place.image_words - height * place.pitch * down),
        "src_kx": dilation_x,
        "src_ky": signed(dilation_y * place.pitch),
        "src_block": signed(place.block_words),
        "out_width": width,
        "out_height": height,
        "images": output.images[1] - output.images[0],
        "kernel_width": window.kernel[1],
        "kernel_height": window.kernel[0],
        "first_x": column - columns[0],
        "first_y": row - rows[0],
        "stride_x": right,
        "stride_y": down,
        "stride_dilation_x": dilation_x,
        "stride_dilation_y": dilation_y,
        "in_width": columns[1] - columns[0],
        "in_height": rows[1] - rows[0],
        "pad": pad,
    }
    return fields, Box(output.images, blocks, rows, columns)
