"""Finds an order of the kernels in which engines wait less for each other than in the graph's own order.

Each engine takes its kernels in order. If a layer follows directly behind the one that it reads, the array waits until the last
results are written. Where the graph has branches, kernels of the other branches can fill that time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cnna.compiler.cost.cost import FILL_CLOCKS
from cnna.compiler.cost.engine_steps import kernel_clocks
from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, View, views_of
from cnna.spec.config import Config

AHEAD = 12  # kernels of which the next one is chosen: maps would live too long if a kernel ran long before its place


def reordered(lowered: Lowered, config: Config) -> Lowered:
    """The kernels, each time the one of those that may run next that can begin first.

    Of equal ones, it is the one with the least work behind it. A short branch beside a long one, such as the projection of a
    residual block, then runs first, and its weights come while the layers before it work.
    """
    kernels, before = lowered.kernels, _before(lowered.kernels)
    work = [kernel_clocks(kernel, lowered, config) for kernel in kernels]
    left = list(work)  # clocks from a kernel's begin to the end, along its longest way
    for number in reversed(range(len(kernels))):
        for need in before[number]:
            left[need] = max(left[need], work[need] + left[number])
    ended: dict[int, int] = {}
    free: dict[type, int] = {}

    def begin(number: int) -> int:
        """When a kernel can begin: its engine is free, and so is its way behind the kernels that it depends on."""
        needs = ((kernels[need], work[need], ended[need]) for need in before[number])
        return max(free.get(type(kernels[number]), 0), begin_behind(kernels[number], needs))

    waiting, order = list(range(len(kernels))), list[int]()
    while waiting:
        ready = [number for number in waiting[:AHEAD] if before[number] <= ended.keys()]
        number = min(ready, key=lambda number: (begin(number), left[number], number))
        engine = "conv" if isinstance(kernels[number], ConvKernel) else "vector"
        free[type(kernels[number])] = done = begin(number) + work[number]
        ended[number] = done + FILL_CLOCKS[engine]
        waiting.remove(number)
        order.append(number)
    return replace(lowered, kernels=tuple(kernels[number] for number in order))


def _before(kernels: Sequence[Kernel]) -> list[set[int]]:
    """For each kernel, the earlier ones that must stay before it: one of the two writes blocks that the other reads or writes."""
    touched: dict[str, list[tuple[int, View, bool]]] = {}
    found: list[set[int]] = []
    for number, kernel in enumerate(kernels):
        own = [(view, role == "dest") for role, view in views_of(kernel).items()]
        found.append(
            {
                other
                for view, writes in own
                for other, blocks, wrote in touched.get(view.map, [])
                if (writes or wrote) and view.block < blocks.block + blocks.blocks and blocks.block < view.block + view.blocks
            }
        )
        for view, writes in own:
            touched.setdefault(view.map, []).append((number, view, writes))
    return found


def begin_behind(kernel: Kernel, before: Iterable[tuple[Kernel, int, int]]) -> int:
    """The clock at which a kernel can begin behind others: each with the clocks that it takes, and the clock at which it ends.

    The vector engine follows the array chunk by chunk. The array waits for the whole of a map.
    """
    clock = 0
    for other, taken, end in before:
        follows = isinstance(other, ConvKernel) and not isinstance(kernel, ConvKernel)
        clock = max(clock, end - (taken * 3 // 4 if follows else 0))
    return clock
