"""The least work that a graph can be on a configuration, whatever the plan. What is beaten so need not be compiled.

The array and the vector engine take at most one step a clock. Weights and inputs come through DDR at least once, and outputs go
there. Weights that the ring does not hold come again for each group of pixels. The array works on one kernel after another, and
when it begins one, no more of its weights than the ring holds have come: the others come while it works. No plan makes any of
these less. What else takes time or traffic is left out, such as waits and maps that do not fit on chip.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnna.compiler.cost.engine_steps import groups_of, kernel_steps
from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import ConvKernel, ConvPart, Kernel, Lowered, Part, VectorPart, one_by_one, reach, views_of
from cnna.compiler.lower.layout import ddr_place, map_bytes
from cnna.compiler.lower.lower import lower
from cnna.compiler.lower.windows import taps_apart
from cnna.compiler.plan.fold import Fold, fold_inputs
from cnna.compiler.plan.limits import LIMITS
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.program.window import steps_in_row

Folds = frozenset[tuple[str, Fold]]


class ArrayWork(NamedTuple):
    """Clocks of a kernel of the array for a batch, and bytes of its weights that come after it has begun."""

    clocks: int
    bytes: int


class LeastWork(NamedTuple):
    """For a batch: the work of each kernel of the array, clocks of the vector engine, and bytes that come and go through DDR."""

    kernels: tuple[ArrayWork, ...]
    vector: int
    read: int
    written: int

    @classmethod
    def of_all(cls, works: "Sequence[LeastWork]") -> "LeastWork":
        """What is the least whichever of these it is."""
        least: tuple[ArrayWork, ...] = (ArrayWork(min(work.array for work in works), 0),)
        if len({len(work.kernels) for work in works}) == 1:
            kernels = zip(*(work.kernels for work in works), strict=True)
            least = tuple(ArrayWork(*map(min, zip(*each, strict=True))) for each in kernels)
        return cls(least, *(min(sizes) for sizes in zip(*(work[1:] for work in works), strict=True)))

    @property
    def array(self) -> int:
        """Clocks of the array."""
        return sum(kernel.clocks for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        """Both ways."""
        return self.read + self.written

    def clocks(self, config: Config, memory: DdrSpeed) -> float:
        """The least clocks: all but the kernels of the array may overlap."""
        ports = BEAT_BYTES * config.ports  # each of them reads a beat and writes one in a clock
        rate = min(ports, memory.bytes_per_cycle)
        array = sum(max(kernel.clocks, kernel.bytes / rate) for kernel in self.kernels)
        return max(array, self.vector, self.bytes / memory.bytes_per_cycle, self.read / ports, self.written / ports)


def least_work(graph: ir.Graph, config: Config, batch: int = 1, bank_words: Sequence[int] = ()) -> LeastWork:
    """The least work of a graph for a batch. It depends on the array and its ring, and on feature memory only where that decides
    how inputs are folded.

    bank_words: sizes of feature memory for all of which it is the least, the smallest first; none: that of `config`. ModelError: as
    of `lower`.
    """
    return least_works(graph, [(config, batch)], bank_words)[0]


def least_works(graph: ir.Graph, wanted: Sequence[tuple[Config, int]], bank_words: Sequence[int] = ()) -> list[LeastWork]:
    """The same for configurations and batches. Those that differ in `pix` and batch alone are lowered once for each way to fold."""
    lowered: dict[tuple[Folds, str], Lowered] = {}
    found = []
    for config, batch in wanted:
        each = []
        for folded, folds in _folded(graph, config, bank_words or (config.bank_words,)).values():
            own = folds, _alike(graph, config, batch)
            if own not in lowered:
                lowered[own] = lower(folded, config, batch)
            each.append(_work(lowered[own], config, batch))
        found.append(LeastWork.of_all(each))
    return found


def _alike(graph: ir.Graph, config: Config, batch: int) -> str:
    """What kernels depend on. `pix` and the batch decide about the taps of a step alone, unless weights are coded, or a kernel is
    so large that these decide whether the vector engine holds it.
    """
    windows = (node.op.window.kernel for node in graph.nodes if isinstance(node.op, ir.Depthwise))
    held = all(rows * columns + config.vector_param_words <= config.vector_ring_words for rows, columns in windows)
    known = {
        name: value for name, value in vars(config).items() if name not in ("name", "bank_words", "ring_words", "pix", "clock_mhz")
    }
    return repr((known, () if held and not config.codebook else (config.pix, batch)))


def _folded(graph: ir.Graph, config: Config, bank_words: Sequence[int]) -> Mapping[Folds, tuple[ir.Graph, Folds]]:
    """Every way to fold the inputs that a size of feature memory leads to. More memory only allows more ways, of which the best is
    taken: if the smallest and the largest lead to the same, so do all between.
    """
    found: dict[Folds, tuple[ir.Graph, Folds]] = {}
    for words in (bank_words[0], bank_words[-1], *bank_words[1:-1]):
        folded, folds = fold_inputs(graph, replace(config, bank_words=words))
        own = frozenset(folds.items())
        if words == bank_words[-1] and own in found:
            break
        found.setdefault(own, (folded, own))
    return found


def _work(lowered: Lowered, config: Config, batch: int) -> LeastWork:
    array, vector, weights = list[ArrayWork](), 0, 0
    mixed = _mixed(lowered.kernels)
    for number, kernel in enumerate(lowered.kernels):
        own = _with_taps(kernel, config, batch)
        clocks = _clocks(own, lowered, config, batch)
        once = sum(map(_weights, kernel.parts, own.parts, [kernel.window] * len(kernel.parts)))
        several, one = (once + sum(_again(part, kernel, lowered, config, n) for part in kernel.parts) for n in (batch, 1))
        weights += several
        if isinstance(kernel, ConvKernel):
            ahead = config.ring_words * config.ring_word_bytes * (max(LIMITS.wave_bands) if number in mixed else 1)
            late = min(several - ahead, batch * (one - ahead))  # the images run together, or one after another
            array.append(ArrayWork(clocks + _heads(kernel), max(late, 0)))
        else:
            vector += clocks
    inputs = sum(_loaded(name, lowered, config) for name in lowered.inputs)
    outputs = sum(map_bytes(replace(lowered.maps[name], images=(0, 1)), config) for name in set(lowered.outputs))
    return LeastWork(tuple(array), vector, weights + batch * inputs, batch * outputs)


def _mixed(kernels: Sequence[Kernel]) -> set[int]:
    """The kernels of the array that may be cut into bands beside which other kernels run (`plan.waves`): what it calls near, in
    whatever order the kernels come.
    """
    vector = [kernel for kernel in kernels if not isinstance(kernel, ConvKernel)]
    made, read = {kernel.dest.map for kernel in vector}, {view.map for kernel in vector for view in views_of(kernel).values()}
    return {number for number, kernel in enumerate(kernels) if kernel.source.map in made or kernel.dest.map in read}


def _heads(kernel: ConvKernel) -> int:
    """Clocks in which the array takes the parameters of each chunk; it works on no group meanwhile."""
    return sum(part.chunks * part.stream.param_words for part in kernel.parts)


def _with_taps(kernel: Kernel, config: Config, batch: int) -> Kernel:
    """A kernel with as many taps in a step as it has with these `pix` and this batch."""
    if isinstance(kernel, ConvKernel):
        return kernel
    parts = []
    for part in kernel.parts:
        window = part.phase.window if part.phase else kernel.window
        size = part.rows[1] - part.rows[0], part.columns[1] - part.columns[0]
        parts.append(replace(part, apart=taps_apart(window, (0, batch), size, config)))
    return replace(kernel, parts=tuple(parts))


def _weights(part: Part, own: Part, window: ir.Window) -> int:
    """Bytes of weights. own: the part with the taps that count here, with which its stream has another length."""
    size, taps = part.stream.size, (part.phase.window if part.phase else window).kernel[1]
    if isinstance(part, VectorPart) and isinstance(own, VectorPart) and own.apart and not part.apart:
        return int(size * steps_in_row(taps, own.apart) // taps)
    return int(size)


def _again(part: Part, kernel: Kernel, lowered: Lowered, config: Config, batch: int) -> int:
    """Bytes of weights that come again: for each group of pixels but the first, where the ring does not hold those of a chunk."""
    unit, head = part.stream.unit_words, part.stream.param_words
    if not isinstance(part, ConvPart) or unit <= config.ring_words or config.codebook:
        return 0
    pixels = batch * part.phase.size[0] * part.phase.size[1] if part.phase else lowered.pixels(kernel, batch)
    return (groups_of(pixels, config) - 1) * part.chunks * (unit - head) * config.ring_word_bytes


def _loaded(name: str, lowered: Lowered, config: Config) -> int:
    """Bytes of a graph input that kernels read, for an image: whole rows of some blocks, which come in once at least."""
    row = ddr_place(lowered.maps[name], "", 0, config).row_bytes
    rows = (n for kernel in lowered.kernels if kernel.source.map == name for n in _rows(kernel, lowered))
    return row * max(rows, default=0)


def _rows(kernel: Kernel, lowered: Lowered) -> Iterator[int]:
    """How many rows of its source each phase of a kernel reads, in all blocks of it."""
    for own in one_by_one(kernel):
        phase, window, map_ = own.parts[0].phase, own.window, lowered.maps[own.source.map]
        height = phase.size[0] if phase else lowered.maps[own.dest.map].height
        size, stride, dilation = window.kernel[0], window.stride[0], window.dilation[0]
        first, last = reach(0, height, stride, window.pads[0], size, dilation, map_.height)
        near = stride <= (size - 1) * dilation + 1
        yield (last - first if near else min(height, last - first)) * own.source.blocks


def _clocks(kernel: Kernel, lowered: Lowered, config: Config, batch: int) -> int:
    """Of a kernel, at the pitch that suits it best: the one that needs no group of its own for each row."""
    down, right = kernel.window.stride
    pixels, width = lowered.pixels(kernel, batch), lowered.maps[kernel.dest.map].width
    widths = {part.phase.size[1] if part.phase else width for part in kernel.parts}
    pitches = {lowered.maps[kernel.source.map].pitch, *(each * right // down for each in widths)}
    steps = [kernel_steps(kernel, pixels, lowered.maps, config, pitch) for pitch in pitches]
    return min(sum(work.clocks for work in parts) for parts in steps)
