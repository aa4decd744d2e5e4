"""A command before its waits, which `load_store`, `array_commands` and `vector_commands` make and `hazards` reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from cnna.compiler.lower.kernels import Kernel, Lowered
from cnna.compiler.lower.layout import Box, DdrPlace, Place
from cnna.compiler.plan.allocate import Allocation
from cnna.spec.config import Config


@dataclass(frozen=True)
class Access:
    """Words or beats that a command reads or writes: all of them in every unit, or `unit_blocks` blocks of the box a unit."""

    place: Place | DdrPlace
    box: Box
    unit_blocks: int = 0


@dataclass(frozen=True)
class Command:
    """One command before its waits. fields as `regmap.command_fields`; origin: image, block, row, column of `tensor`."""

    engine: str
    fields: Mapping[str, int]
    layer: int
    tensor: str | None
    origin: tuple[int, int, int, int]
    units: int = 0
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()


@dataclass(frozen=True)
class Context:
    """What every command is made from. streams: offset in the constant segment of each (kernel, part)."""

    lowered: Lowered
    allocation: Allocation
    streams: Mapping[tuple[int, int], int]
    config: Config


def origin(kernel: Kernel, output: Box) -> tuple[int, int, int, int]:
    """Image, block, row and column of the kernel's tensor at which a box of its map begins."""
    block = output.blocks[0] - kernel.dest.block + kernel.tensor_block
    return output.images[0], block, output.rows[0], output.columns[0]
