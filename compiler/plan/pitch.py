"""Chooses the distance between the rows of a map in feature memory, so that the pixels of a group come from different banks.

The `pix` pixels of a group may continue in the next row. There they may need the same banks again, especially at stride 2. A few
unused words behind each row prevent this. Maps of one width get the same pitch, because two of them may be operands of one walk.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from cnna.compiler.cost.engine_steps import kernel_steps
from cnna.compiler.lower.kernels import Kernel, Lowered, VectorKernel
from cnna.spec.config import Config

MOST_EXTRA = 6  # unused words behind a row; enough for every stride up to 4
LEAST_GAIN = 0.03  # unused words must save this fraction of the readers' clocks, because loads and stores then go row by row
GROUPS = 512  # the number of groups of a kernel that are examined
KEPT = 4096  # walks whose clocks are kept: layers have sizes in common, and so have configurations that differ in memory alone


def set_pitches(lowered: Lowered, config: Config) -> Lowered:
    """Sets the pitch of every map."""
    chosen = {width: _best(lowered, width, config) for width in {map_.width for map_ in lowered.maps.values()}}
    maps = {name: replace(map_, pitch=chosen[map_.width]) for name, map_ in lowered.maps.items()}
    return replace(lowered, maps=maps)


def _best(lowered: Lowered, width: int, config: Config) -> int:
    """The pitch for maps of that width: the least for which no other pitch saves their readers more than `LEAST_GAIN`."""
    readers = [kernel for kernel in lowered.kernels if lowered.maps[kernel.source.map].width == width]
    clocks = {width + extra: _clocks(readers, lowered, width + extra, config) for extra in range(MOST_EXTRA + 1)}
    least = min(clocks.values())
    return next(pitch for pitch, cost in clocks.items() if cost <= least * (1 + LEAST_GAIN))


def _clocks(readers: list[Kernel], lowered: Lowered, pitch: int, config: Config) -> float:
    """Clocks that the readers need for their steps at that pitch."""
    total = 0.0
    for kernel in readers:
        dest = lowered.maps[kernel.dest.map]
        steps = sum(work.steps for work in kernel_steps(kernel, dest.height * dest.width, lowered.maps, config, pitch))
        apart = isinstance(kernel, VectorKernel) and kernel.parts[0].apart  # then the words of a group lie in different banks
        walk = kernel.window.stride, (dest.height, dest.width), pitch
        total += steps * (1 if apart else group_clocks(*walk, config.pix, config.banks))
    return total


@lru_cache(KEPT)
def group_clocks(stride: tuple[int, int], size: tuple[int, int], pitch: int, pix: int, banks: int) -> float:
    """Mean clocks to read a group of output pixels once: the most words that it needs from one bank.

    size: rows and columns of the output. Pixels in the padding count as if they were read. banks: of a region.
    """
    height, width = size
    pixels = height * width
    n = np.arange(min(-(-pixels // pix), GROUPS) * pix)
    address = n % width * stride[1] + n // width * stride[0] * pitch
    bank = np.sort(np.where(n < pixels, address % banks, -1 - n % pix).reshape(-1, pix), axis=1)
    most = np.ones(len(bank), np.int64)
    for others in range(1, pix):  # in sorted rows, as many equal words stand side by side
        most += (bank[:, others:] == bank[:, :-others]).any(axis=1)
    return float(np.mean(most))
