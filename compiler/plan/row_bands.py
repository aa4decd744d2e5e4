"""Finds the kernels that may run in bands of rows although all of their maps lie on chip, so that engines wait less.

A kernel of the vector engine follows the array chunk by chunk, but the layer behind it reads all channels. So the array would wait
for the vector engine at the end of every depthwise layer or pool. In bands, that layer begins on the first rows while the vector
engine still works on the others. Each band of a convolution brings the weights again, so kernels of few pixels stay whole.
"""

from collections.abc import Sequence

from cnna.compiler.cost.engine_steps import groups_of
from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, VectorKernel, views_of
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.spec.config import Config


def row_bands(lowered: Lowered, config: Config, limits: PlanLimits = LIMITS) -> tuple[int, ...]:
    """For each kernel, the number of bands of rows in which it may run; 1: as a whole."""
    near = near_vector(lowered.kernels)
    return tuple(_bands(kernel, lowered, config, limits) if number in near else 1 for number, kernel in enumerate(lowered.kernels))


def near_vector(kernels: Sequence[Kernel]) -> set[int]:
    """The vector engine's kernels that stand between layers of the array, and these layers."""
    found: set[int] = set()
    for number, kernel in enumerate(kernels):
        if not isinstance(kernel, VectorKernel):
            continue
        read = {view.map for role, view in views_of(kernel).items() if role != "dest"}
        before = {n for n, other in enumerate(kernels[:number]) if other.dest.map in read}
        after = {
            n
            for n, other in enumerate(kernels[number:], number)
            if isinstance(other, ConvKernel) and other.source.map == kernel.dest.map
        }
        if before and after:
            found |= {number} | before | after
    return found


def _bands(kernel: Kernel, lowered: Lowered, config: Config, limits: PlanLimits) -> int:
    """The most bands that are long enough."""
    groups, height = groups_of(lowered.pixels(kernel), config), lowered.maps[kernel.dest.map].height
    return max(1, min(limits.bands, groups // limits.band_groups, height))
