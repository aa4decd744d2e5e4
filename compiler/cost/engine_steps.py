"""The steps that the array or the vector engine takes: groups of output pixels, times taps, times blocks.

The one formula for whoever estimates, predicts or compares: the cost model, the cuts of a batch, tiles, pitches, folds and banks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cnna.compiler.lower.kernels import ConvKernel, Kernel
from cnna.spec.config import Config

Fields = Mapping[str, int]


def groups_of(pixels: int, config: Config) -> int:
    """Groups of `pix` output pixels; the last may be partial."""
    return -(-pixels // config.pix)


def taps_of(fields: Fields) -> int:
    """Taps of the kernel of a conv or vector command."""
    return fields["kernel_height"] * fields["kernel_width"]


@dataclass(frozen=True)
class EngineSteps:
    """What an engine does for some output pixels, a step a clock at most.

    Each group of pixels is gone through `times` times: once for each chunk of the array, for each block of the vector engine.
    Each time takes a step for each tap of each of `blocks` source blocks, and makes `made` blocks of output.
    """

    groups: int
    times: int
    blocks: int
    taps: int
    made: int

    @property
    def each(self) -> int:
        """Steps of a group, one time."""
        return self.blocks * self.taps

    @property
    def written(self) -> int:
        """Clocks in which a group's output is written, one time: the writers take half a group and one block a clock."""
        return 2 * self.made

    @property
    def steps(self) -> int:
        """All steps."""
        return self.groups * self.times * self.each

    @property
    def clocks(self) -> int:
        """The least clocks: a group cannot be quicker than what it makes is written."""
        return self.groups * self.times * max(self.each, self.written)


def array_steps(groups: int, chunks: int, blocks: int, taps: int, config: Config) -> EngineSteps:
    """Of the array: so many chunks of output from so many source blocks."""
    return EngineSteps(groups, chunks, blocks, taps, config.chunk_blocks)


def vector_steps(groups: int, blocks: int, taps: int) -> EngineSteps:
    """Of the vector engine, which makes each block of output from one source block."""
    return EngineSteps(groups, blocks, 1, taps, 1)


def command_groups(fields: Fields, config: Config) -> int:
    """Groups of a conv or vector command."""
    return groups_of(fields["images"] * fields["out_height"] * fields["out_width"], config)


def command_steps(engine: str, fields: Fields, config: Config) -> EngineSteps:
    """Of a conv or vector command."""
    groups, taps = command_groups(fields, config), taps_of(fields)
    if engine == "conv":
        return array_steps(groups, fields["chunks"], fields["blocks"], taps, config)
    return vector_steps(groups, fields["blocks"], taps)


def kernel_steps(kernel: Kernel, pixels: int, config: Config) -> tuple[EngineSteps, ...]:
    """Of a kernel for so many pixels of its output, part by part."""
    groups, taps = groups_of(pixels, config), kernel.window.kernel[0] * kernel.window.kernel[1]
    if isinstance(kernel, ConvKernel):
        return tuple(array_steps(groups, part.chunks, part.blocks, taps, config) for part in kernel.parts)
    return (vector_steps(groups, kernel.dest.blocks, taps),)
