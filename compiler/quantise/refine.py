"""More effort for weights and biases: layer by layer, each convolution sees what the quantised layers before it make of samples.

Effort 1 corrects biases: M. Nagel, M. van Baalen, T. Blankevoort, M. Welling, "Data-Free Quantization Through Weight Equalization
and Bias Correction", arXiv:1906.04721 (2019), its empirical variant. Per output channel c, with the quantised network's input x~
and weights W~,

    bias_c += E[(W x)_c] - E[(W~ x~)_c]

Effort 2 learns the rounding of the weights too (`gptq`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.quantise.books import books_of, nearest_in_books
from cnna.compiler.quantise.calibrate import Progress
from cnna.compiler.quantise.gptq import learned, parts_of
from cnna.compiler.quantise.stages import Stages, convolutions, cut_at, live_bytes
from cnna.compiler.quantise.taps import TapMeans, patches
from cnna.compiler.quantise.weights import mean_output, nearest, put_weights, scales_of
from cnna.spec.codebook import ENTRIES

EFFORTS = (0, 1, 2)
MEMORY = 1 << 30  # bytes of activations that are kept at a time; large networks are refined with fewer samples
FEWEST = 8  # samples, whatever the memory
COLUMNS, TIMES = 2048, 6  # inputs that a Hessian is made of: at least so many, and so many for each tap
SEED = 1


@dataclass
class Refinement:
    """What is needed beside the ranges: some samples, and what float convolutions see of them; `watch` gets each sample."""

    graph: Graph
    convs: Sequence[Node]
    chosen: frozenset[int]
    feeds: list[Mapping[str, np.ndarray]] = field(default_factory=list)
    taps: dict[str, TapMeans] = field(default_factory=dict)  # by the convolution's output

    @classmethod
    def of(cls, graph: Graph, body: Graph, samples: int) -> "Refinement":
        """samples: how many there are to calibrate with; those that are used lie evenly among them."""
        convs = convolutions(body)
        each = live_bytes(graph, cut_at(graph.nodes, [node.output for node in convs]), body.tensors)
        count = min(samples, max(FEWEST, MEMORY // max(each, 1)))
        return cls(graph, convs, frozenset(int(number) for number in np.linspace(0, samples - 1, count)))

    def watch(self, number: int, feeds: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> None:
        """Keeps a sample's inputs, and adds what the convolutions see of it."""
        if number not in self.chosen:
            return
        self.feeds.append(feeds)
        for node in self.convs:
            if node.output not in self.taps:
                self.taps[node.output] = self._empty(node)
            self.taps[node.output].extend(values[node.inputs[0]] if node.inputs[0] in values else feeds[node.inputs[0]])

    def _empty(self, node: Node) -> TapMeans:
        rows, columns = self.graph.tensors[node.output].shape[2:]
        return TapMeans(node.op.window, (rows, columns))


def refined(edit: Editor, given: Refinement, effort: int, progress: Progress | None = None, coded: Collection[str] = ()) -> None:
    """Gives every convolution of a graph, whose tensors have their quantisation, weights and a bias.

    coded: the outputs of those whose weights get books.
    """
    graph = edit.finish()
    stages = cut_at(graph.nodes, [node.output for node in given.convs])
    known = Stages(graph, given.feeds)
    rng = np.random.default_rng(SEED)
    convs = {node.output: node for node in given.convs}
    for number, stage in enumerate(stages):
        conv = convs.get(stage[0].output) if stage else None
        if conv is not None:
            _refine(edit, conv, given.taps[conv.output], known, rng if effort > 1 else None, conv.output in coded)
        known.run(edit.finish(), stage, [node for later in stages[number + 1 :] for node in later])
        if progress:
            progress(number + 1, len(stages))


def _refine(edit: Editor, node: Node, in_float: TapMeans, known: Stages, rng: np.random.Generator | None, coded: bool) -> None:
    """One convolution, whose input is known. rng: draws the pixels that rounding is learned from; None: it is the nearest."""
    op, x = node.op, node.inputs[0]
    weights = edit.constants[op.weights].astype(np.float64)
    bias = edit.constants[op.bias].astype(np.float64)
    quant = edit.tensors[x].quant
    assert quant is not None
    scales = scales_of(weights, bias, quant.scale)
    taps = TapMeans(op.window, in_float.out)
    for samples in known.real(x):
        taps.extend(samples)
    if rng is not None:
        books = books_of(weights, scales) if coded else None
        rounded = _learned(op, weights, scales, taps, x, known, rng, books)
    else:
        rounded = nearest_in_books(weights, scales) if coded else nearest(weights, scales)
    shift = mean_output(weights, in_float.means, op.groups) - mean_output(rounded, taps.means, op.groups)
    put_weights(edit, node, rounded, bias + shift, scales)


def _learned(
    op: Conv,
    weights: np.ndarray,
    scales: np.ndarray,
    taps: TapMeans,
    x: str,
    known: Stages,
    rng: np.random.Generator,
    books: np.ndarray | None,
) -> np.ndarray:
    """The weights with learned rounding, to the entries of books if there are any."""
    groups = op.groups
    rows = weights.reshape(groups, len(weights) // groups, -1)
    found = np.empty_like(rows)
    for part in parts_of(rows.shape[2]):
        hessian = _hessian(op, part, taps, x, known, rng)
        own = None if books is None else books.reshape(groups, -1, ENTRIES)
        found[..., part] = learned(rows[..., part], scales.reshape(groups, -1), hessian, own)
    return found.reshape(weights.shape)


def _hessian(op: Conv, part: slice, taps: TapMeans, x: str, known: Stages, rng: np.random.Generator) -> np.ndarray:
    """The covariance of what some taps of each group see: [groups, taps, taps]."""
    means = taps.means.reshape(op.groups, -1, 1)[:, part].astype(np.float32)
    most = -(-max(COLUMNS, TIMES * means.shape[1]) // known.samples)
    total, count = np.zeros((op.groups, means.shape[1], means.shape[1])), 0
    for samples in known.real(x):
        seen = patches(samples, op.window, taps.out, op.groups, most, rng)[:, part] - means
        total += seen @ seen.swapaxes(1, 2)
        count += seen.shape[2]
    return total / count
