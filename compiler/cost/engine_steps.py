"""The steps of the array or the vector engine: groups of output pixels, times taps, times blocks.

This is the only place with the formula. The cost model, the cuts of a batch, tiles, pitches, folds and the predictor use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, Map, one_by_one
from cnna.spec.config import Config
from cnna.spec.program.window import steps_in_row

TABLE_CLOCKS = 24  # by which a new table holds up a command with short groups; the rest goes on beside the layer before (measured)
Fields = Mapping[str, int]


def groups_of(pixels: int, config: Config) -> int:
    """The number of groups of `pix` output pixels; the last may be partial."""
    return -(-pixels // config.pix)


def taps_of(fields: Fields) -> int:
    """Steps for the taps of one block in a conv or vector command: a step for each, or for several of a row."""
    return fields["kernel_height"] * steps_in_row(fields["kernel_width"], fields.get("window_apart", 0))


@dataclass(frozen=True)
class EngineSteps:
    """The work of an engine for some output pixels, at most one step a clock.

    The engine works on each group of pixels `times` times: once for each chunk (array) or each block (vector engine). Each time, it
    takes one step for each tap of each of `blocks` source blocks (array: sets), and makes `made` blocks of output.
    """

    groups: int
    times: int
    blocks: int
    taps: int
    made: int

    @property
    def each(self) -> int:
        """Steps for a group, each time."""
        return self.blocks * self.taps

    @property
    def written(self) -> int:
        """Clocks to write the output of a group, each time. The writers write half a group of one block in a clock."""
        return 2 * self.made

    @property
    def steps(self) -> int:
        """All steps."""
        return self.groups * self.times * self.each

    @property
    def clocks(self) -> int:
        """The least number of clocks. A group takes at least as long as the writes of its output."""
        return self.groups * self.times * max(self.each, self.written)


def array_steps(groups: int, chunks: int, sets: int, taps: int, config: Config) -> EngineSteps:
    """The work of the array: `chunks` chunks of output from `sets` sets of source blocks, each of which it takes in one step."""
    return EngineSteps(groups, chunks, sets, taps, config.chunk_blocks)


def vector_steps(groups: int, blocks: int, taps: int) -> EngineSteps:
    """The work of the vector engine, which makes each block of output from one source block."""
    return EngineSteps(groups, blocks, 1, taps, 1)


def command_groups(fields: Fields, config: Config) -> int:
    """The number of groups of a conv or vector command."""
    return groups_of(fields["images"] * fields["out_height"] * fields["out_width"], config)


def command_steps(engine: str, fields: Fields, config: Config) -> EngineSteps:
    """The work of a conv or vector command."""
    groups, taps = command_groups(fields, config), taps_of(fields)
    if engine == "conv":
        return array_steps(groups, fields["chunks"], fields["blocks"], taps, config)
    return vector_steps(groups, fields["blocks"], taps)


def table_clocks(fields: Fields, work: EngineSteps) -> int:
    """An estimate of the clocks by which the first group of a command ends later because its table is not yet written.

    A table is written while no results pass, so the free clocks of the group's own steps count as well.
    """
    return max(0, TABLE_CLOCKS - max(0, work.each - work.written)) if fields.get("table_load") else 0


def kernel_steps(
    kernel: Kernel, pixels: int, maps: Mapping[str, Map], config: Config, pitch: int | None = None
) -> tuple[EngineSteps, ...]:
    """The work of a kernel for some pixels of its output, part by part. Each phase makes its share of the pixels.

    pitch: of its source, if not the one that `maps` has.
    """
    sizes = {part.phase: part.phase.size[0] * part.phase.size[1] for part in kernel.parts if part.phase}
    found = []
    for own in one_by_one(kernel):
        phase = own.parts[0].phase
        mine = pixels * sizes[phase] // sum(sizes.values()) if phase else pixels
        apart = 0 if isinstance(own, ConvKernel) else own.parts[0].apart
        taps = own.window.kernel[0] * steps_in_row(own.window.kernel[1], apart)
        if apart:
            width = phase.size[1] if phase else maps[own.dest.map].width
            down, right = own.window.stride
            if width * right != (pitch or maps[own.source.map].pitch) * down:  # each row begins with a new group
                mine = mine // width * groups_of(width, config) * config.pix
        groups = groups_of(mine, config)
        if isinstance(own, ConvKernel):
            found += [array_steps(groups, part.chunks, config.sets(part.blocks), taps, config) for part in own.parts]
        else:
            found.append(vector_steps(groups, own.dest.blocks, taps))
    return tuple(found)


def kernel_clocks(kernel: Kernel, lowered: Lowered, config: Config, images: int | None = None) -> int:
    """The least number of clocks of a kernel: for all of its images, or for `images` of them."""
    return sum(work.clocks for work in kernel_steps(kernel, lowered.pixels(kernel, images), lowered.maps, config))
