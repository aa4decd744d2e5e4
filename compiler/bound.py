"""The least clocks that a graph can take on a configuration, whatever the plan. What is beaten so need not be compiled.

The array and the vector engine take at most one step a clock, and weights come through DDR at least once. No plan makes any of
these less. What else takes time, such as waits and maps that do not fit on chip, is left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cnna.compiler.cost.engine_steps import kernel_steps
from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.fold import Fold, fold_inputs
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import DdrSpeed


class LeastWork(NamedTuple):
    """Clocks of the array and of the vector engine for a batch, and bytes that come through DDR."""

    array: int
    vector: int
    bytes: int

    def clocks(self, config: Config, memory: DdrSpeed) -> float:
        """The least clocks: all three may overlap."""
        return max(self.array, self.vector, self.bytes / min(memory.bytes_per_cycle, BEAT_BYTES * config.ports))


def least_work(graph: ir.Graph, config: Config, batch: int = 1, bank_words: Sequence[int] = ()) -> LeastWork:
    """The least work of a graph for a batch. It depends on the array, and on memories only where they decide how inputs are folded.

    bank_words: sizes of feature memory for all of which it is the least; none: that of `config`. ModelError: as of `lower`.
    """
    found: dict[frozenset[tuple[str, Fold]], LeastWork] = {}
    for words in bank_words or (config.bank_words,):
        own = replace(config, bank_words=words)
        folded, folds = fold_inputs(graph, own)
        if frozenset(folds.items()) not in found:
            found[frozenset(folds.items())] = _work(lower(folded, own, batch), own)
    return LeastWork(*(min(each) for each in zip(*found.values(), strict=True)))


def _work(lowered: Lowered, config: Config) -> LeastWork:
    engines = {True: 0, False: 0}
    for kernel in lowered.kernels:
        engines[isinstance(kernel, ConvKernel)] += _clocks(kernel, lowered, config)
    weights = sum(part.stream.data.size for kernel in lowered.kernels for part in kernel.parts)
    return LeastWork(engines[True], engines[False], weights)


def _clocks(kernel: Kernel, lowered: Lowered, config: Config) -> int:
    """Of a kernel, at the pitch that suits it best: the one that needs no group of its own for each row."""
    down, right = kernel.window.stride
    pixels, width = lowered.pixels(kernel), lowered.maps[kernel.dest.map].width
    widths = {part.phase.size[1] if part.phase else width for part in kernel.parts}
    pitches = {lowered.maps[kernel.source.map].pitch, *(each * right // down for each in widths)}
    steps = [kernel_steps(kernel, pixels, lowered.maps, config, pitch) for pitch in pitches]
    return min(sum(work.clocks for work in parts) for parts in steps)
