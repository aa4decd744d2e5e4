"""Folds graph inputs: if a first convolution would leave most of a feature word empty, neighbouring pixels become channels.

A fold rewrites the int8 graph before `lower`. The input gets the shape in which the host packs it (`spec/samples/pack.py`), and its
convolution gets weights to match. `compile_graph` applies the fold; layers, MACs and tensors stay those of the original graph.
docs/decisions/folded-input.md gives the reasons and shows the arithmetic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost import cost
from cnna.compiler.cost.engine_steps import array_steps
from cnna.compiler.graph import ir
from cnna.compiler.lower.weights import packing_overflows
from cnna.spec import manifest
from cnna.spec.config import Config

MOST = 32  # the greatest kernel and stride that are folded, so that the search stays short
KEPT = 1024  # inputs whose folds are kept, with arrays: a sweep asks for the same ones for each size of memory
MEMORY_SHARE = 4  # a folded input may take 1/4 of feature memory, or as much as it took before if that is more


@dataclass(frozen=True)
class Axis:
    """Rows (or columns) of a folded input. Pixel p holds `span` rows of the image, from row p * step - before on.

    size: the number of folded pixels. The convolution over them has `kernel` taps, `stride`, `dilation` and `pad`. Its kernel
    begins with `lead` rows of zeros.
    """

    step: int
    span: int
    before: int
    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    lead: int


@dataclass(frozen=True)
class Fold:
    """How an input of `channels` is folded. Channel (jy * right.span + jx) * channels + c is channel c of row jy and column jx."""

    channels: int
    down: Axis
    right: Axis

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the folded input."""
        return self.channels * self.down.span * self.right.span, self.down.size, self.right.size

    def port(self) -> manifest.FoldEntry:
        """The entry `fold` of the input's port (docs/artifact.md)."""
        down, right = self.down, self.right
        return {
            "shape": list(self.shape),
            "step": [down.step, right.step],
            "span": [down.span, right.span],
            "before": [down.before, right.before],
        }


def fold_inputs(graph: ir.Graph, config: Config) -> tuple[ir.Graph, Mapping[str, Fold]]:
    """Folds every input for which it saves clocks. Returns the graph, and the fold of each of these inputs."""
    found = {node.inputs[0]: _best(graph, node, config) for node in graph.nodes}
    folds = {name: fold for name, fold in found.items() if fold}
    return apply(graph, folds), folds


def apply(graph: ir.Graph, folds: Mapping[str, Fold]) -> ir.Graph:
    """The graph with these inputs folded. Only one convolution may read each of them."""
    nodes, tensors, constants = list(graph.nodes), dict(graph.tensors), dict(graph.constants)
    for number, node in enumerate(nodes):
        source = node.inputs[0]
        if source not in folds or not isinstance(node.op, ir.Conv):
            continue
        fold, name = folds[source], f"{node.output}:folded"
        constants[name] = folded_weights(fold, constants[node.op.weights])
        window = _window(fold, tensors[node.output].shape[1:])
        nodes[number] = replace(node, op=replace(node.op, window=window, weights=name))
        tensors[source] = replace(tensors[source], shape=fold.shape)
    return replace(graph, nodes=tuple(nodes), tensors=tensors, constants=constants)


def folded_weights(fold: Fold, weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Weights [cout, cin, kh, kw] as [cout, folded channels, folded kh, folded kw]."""
    cout, channels, height, width = weights.shape
    (rows, span_y), (columns, span_x) = ((axis.kernel, axis.span) for axis in (fold.down, fold.right))
    whole = np.zeros((cout, channels, rows * span_y, columns * span_x), np.int8)
    top, left = fold.down.lead, fold.right.lead
    whole[:, :, top : top + height, left : left + width] = weights
    split = whole.reshape(cout, channels, rows, span_y, columns, span_x).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(split).reshape(cout, -1, rows, columns)


def _window(fold: Fold, out: tuple[int, ...]) -> ir.Window:
    """The window over the folded input, with as much padding at the end as it needs."""
    axes = (fold.down, fold.right)
    kernel, stride, dilation, before = (
        (getattr(fold.down, key), getattr(fold.right, key)) for key in ("kernel", "stride", "dilation", "pad")
    )
    reach = [(n - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.pad - a.size for n, a in zip(out, axes, strict=True)]
    return ir.Window(kernel, stride, dilation, (*before, max(0, reach[0]), max(0, reach[1])))


def _best(graph: ir.Graph, node: ir.Node, config: Config) -> Fold | None:
    """The fastest fold of a convolution's input. None: it is no input of the graph, or no fold saves clocks."""
    op, source = node.op, node.inputs[0]
    if not isinstance(op, ir.Conv) or op.groups > 1 or source not in graph.inputs or graph.uses(source) > 1:
        return None
    if op.window.dilation != (1, 1) or max(*op.window.kernel, *op.window.stride) > MOST:
        return None
    shape, out = graph.tensors[source].shape, graph.tensors[node.output].shape
    array = replace(config, name="", bank_words=1024, ring_words=1024, uram=False, clock_mhz=1)  # on none of which clocks depend
    plain_words, quicker = _quicker(op.window, shape, out, array)
    most_words = max(plain_words, config.deck_words // MEMORY_SHARE)
    weights = graph.constants[op.weights]
    return next((fold for words, fold in quicker if words <= most_words and _fits_packing(fold, weights, config)), None)


@lru_cache(KEPT)
def _quicker(
    window: ir.Window, shape: tuple[int, ...], out: tuple[int, ...], config: Config
) -> tuple[int, tuple[tuple[int, Fold], ...]]:
    """The words of an input, and the folds that save clocks, the quickest first, each with its words."""
    plain, *folds = candidates(window, shape, out)
    least = _clocks(plain, out, config)
    ranked = sorted((_clocks(fold, out, config), _words(fold, config), _steps(fold, config), n) for n, fold in enumerate(folds))
    quicker = tuple((words, folds[number]) for clocks, words, _, number in ranked if clocks < least)
    return _words(plain, config), quicker


def candidates(window: ir.Window, shape: tuple[int, ...], out: tuple[int, ...]) -> list[Fold]:
    """All folds of an input (C, H, W) of a convolution with output `out`. The first one changes nothing."""
    axes = []
    for number in (0, 1):
        kernel, stride, pad = window.kernel[number], window.stride[number], window.pads[number]
        found = []
        for step in (n for n in range(1, stride + 1) if stride % n == 0):
            for span in (*range(step, kernel, step), kernel):
                found.append(_axis(kernel, stride, pad, shape[1 + number], out[1 + number], step, span))
        axes.append(found)
    return [Fold(shape[0], down, right) for down in axes[0] for right in axes[1]]


def _axis(kernel: int, stride: int, pad: int, size: int, out: int, step: int, span: int) -> Axis:
    """One axis with folded pixels of `span` rows, `step` apart. Pixels omitted at the front hold no row that is read."""
    least = min(pad, max(0, span - step))
    found = []
    for before in range(least, min(pad, least + step - 1) + 1):
        outside = -(-(pad - before) // step)
        lead = outside * step + before - pad
        taps = -(-(kernel + lead) // span)
        if taps > 1 and span % step:
            continue
        dilation = span // step if taps > 1 else 1
        last = (out - 1) * (stride // step) + (taps - 1) * dilation - outside
        pixels = max(0, min((size - 1 + before) // step, last)) + 1
        found.append(Axis(step, span, before, pixels, taps, stride // step, dilation, outside, lead))
    return min(found, key=lambda axis: (axis.kernel, axis.size, axis.lead))


def _words(fold: Fold, config: Config) -> int:
    """Feature words of the folded input in a deck."""
    return config.sets(_blocks(fold, config)) * fold.down.size * fold.right.size


def _blocks(fold: Fold, config: Config) -> int:
    return -(-fold.shape[0] // config.ci)


def _steps(fold: Fold, config: Config) -> int:
    """Steps of the array for one group of pixels and one chunk."""
    return array_steps(1, 1, config.sets(_blocks(fold, config)), fold.down.kernel * fold.right.kernel, config).steps


def _clocks(fold: Fold, out: tuple[int, ...], config: Config) -> int:
    """Clocks to load an image and to convolve it. The two add up, because nothing else runs while the first image is loaded."""
    pass_ = {
        "images": 1,
        "out_height": out[1],
        "out_width": out[2],
        "chunks": -(-out[0] // config.co),
        "blocks": config.sets(_blocks(fold, config)),
        "kernel_height": fold.down.kernel,
        "kernel_width": fold.right.kernel,
    }
    apart = config.beat_words  # `schedule` lets ports write to different banks
    load = {"run": fold.right.size, "runs": fold.down.size, "fm_run": apart, "blocks": _blocks(fold, config), "fm_block": apart}
    return cost.estimated_cycles("conv", pass_, config) + cost.estimated_cycles("load", load, config)


def _fits_packing(fold: Fold, weights: NDArray[np.int8], config: Config) -> bool:
    """Whether the weights stay packable: `lower` refuses an output channel with a whole cascade of -128."""
    if weights.min() > -128:
        return True
    folded = folded_weights(fold, weights)
    cout, channels, *kernel = folded.shape
    lanes_out = cout + cout % 2  # the last channel may have none beside it
    spread = np.zeros((lanes_out, config.sets(_blocks(fold, config)) * config.depth * config.ci, *kernel), np.int8)
    spread[:cout, :channels] = folded
    lanes = spread.reshape(lanes_out, -1, config.ci, *kernel).transpose(1, 3, 4, 0, 2)[None]
    return not packing_overflows(lanes, config.cascade, config.depth).any()
