"""Post-training quantisation: takes a float model and samples, returns standard QDQ ONNX."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import ModelProto

from cnna.compiler.frontend import preprocess as preprocessing
from cnna.compiler.frontend.model_ports import store_axes
from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import source_of, to_graph
from cnna.compiler.frontend.pieces import support
from cnna.compiler.frontend.pieces.partition import Reasons, cut, part_of, placed
from cnna.compiler.frontend.pieces.refusals import check_cpu
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.frontend.quantised_import import import_quantised, output_axes
from cnna.compiler.frontend.source_model import Readable, SourceModel
from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Chain, Conv, Onnx, Requantise
from cnna.compiler.graph.ir import Graph, Node, Quant
from cnna.compiler.graph.node_names import kind_of
from cnna.compiler.passes.pipeline import PLAIN, REWRITES, Dump, run_passes
from cnna.compiler.quantise.activations import activation_quants
from cnna.compiler.quantise.books import nearest_in_books
from cnna.compiler.quantise.calibrate import Progress, Statistics, Watch, calibrate, check_samples, flat_warnings
from cnna.compiler.quantise.heads import behind_heads, float_tail
from cnna.compiler.quantise.noise import layers_of, measured
from cnna.compiler.quantise.outliers import (
    Outlier,
    OutlierWatch,
    held_back,
    limited,
    noise_warnings,
    outlier_warnings,
    pads_as_padding,
    strange,
    unseen_lows,
    within,
)
from cnna.compiler.quantise.prepare import prepared, rewriting_warnings
from cnna.compiler.quantise.ranges import METHODS
from cnna.compiler.quantise.refine import EFFORTS, Refinement, refined
from cnna.compiler.quantise.stages import convolutions
from cnna.compiler.quantise.weights import nearest, put_weights, scales_of
from cnna.spec.errors import DataError, ModelError
from cnna.spec.manifest import CPU

KEPT = "kept in float for its accuracy"
TAIL = "so few multiply-accumulates behind what the CPU computes are more exact in float"
FEW = 4  # samples on which layers are compared with float


@dataclass(frozen=True)
class Report:
    """What was done: the range and the quantisation of each tensor, and the operators that stay float."""

    method: str
    effort: int
    samples: int
    ranges: dict[str, tuple[float, float]]
    quants: dict[str, Quant]
    floating: tuple[str, ...]
    coded: tuple[str, ...] = ()  # names of the layers whose weights have books
    warnings: tuple[str, ...] = ()  # what the user should look at, each in a line

    @property
    def how(self) -> str:
        """The method, and the effort where there is any."""
        return f"{self.method}, effort {self.effort}" if self.effort else self.method


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A float graph and what its samples say of it, to be quantised: once or, with layers kept in float, several times.

    body: the part of the graph that the accelerator can run. more: what efforts above 0 need. coded: the outputs of layers whose
    weights get books of 16 values a channel (`books`). few: some of the samples. outliers: constants that cost their tensors the
    range.
    """

    graph: Graph
    body: Graph
    statistics: Mapping[str, Statistics]
    samples: int
    method: str
    correct_bias: bool
    effort: int
    preprocess: Preprocess | None
    more: Refinement | None
    coded: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    few: Mapping[str, np.ndarray] = field(default_factory=dict)
    outliers: tuple[Outlier, ...] = ()

    def quantised(self, kept: Collection[str] = (), refining: Progress | None = None) -> tuple[ModelProto, Report]:
        """The model as QDQ. kept: nodes that stay in float, by output. ModelError: it could not be compiled."""
        source, report = self.source(kept, refining)
        return source.proto, report

    def source(self, kept: Collection[str] = (), refining: Progress | None = None) -> tuple[SourceModel, Report]:
        """As `quantised`, but the model is prepared for all that follows."""
        reasons, body = self._body(kept)
        if self.more:
            quants = activation_quants(self.graph, body, self.statistics, self.method)
            edit = _with_quants(self.graph, quants)
            refined(edit, replace(self.more, convs=convolutions(body)), self.effort, refining, self.coded)
            result = to_model(edit.finish())
        else:
            result, quants = written(self.graph, body, self.statistics, self.method, self.correct_bias, self.coded)
        source = source_of(result)  # metadata, which are no part of what is prepared, are added to it below
        imported = import_quantised(source, sources=self.graph.sources)  # it can be compiled, or the user learns why not
        store_axes(result, {name: axis for name, axis in self.graph.joins.items() if imported.axes.get(name, axis) != axis})
        there = imported.reasons
        if self.preprocess:
            preprocessing.store(result, self.preprocess)
        left = [node for node in self.graph.nodes if reasons[node.output] and there.get(node.output, "") is not None]
        ranges = {name: (self.statistics[name].low, self.statistics[name].high) for name in quants}
        floating = tuple(map(kind_of, left))
        coded = tuple(node.name for node in body.nodes if node.output in self.coded)
        return source, Report(
            self.method, self.effort, self.samples, ranges, quants, floating, coded, self._warned(body, result, quants)
        )

    def _body(self, kept: Collection[str]) -> tuple[Reasons, Graph]:
        """As `float_body`; also in float is what an outlier leaves no range."""
        return float_body(self.graph, {*kept, *held_back(self.body, self.outliers)})

    def behind_heads(self) -> frozenset[str]:
        """The nodes, by output, that a detector's decode has on the accelerator: what `quantised` keeps in float for it."""
        return behind_heads(self.graph, self._body(())[0])

    def _warned(self, body: Graph, result: ModelProto, quants: Mapping[str, Quant]) -> tuple[str, ...]:
        """What the user should look at in a quantised model."""
        told = (*self.warnings, *outlier_warnings(self.graph, self.outliers))
        if told or not self.few or not quants:
            return told
        cut = {*unseen_lows(self.graph, body)} | limited(self.graph, body)
        cut |= {name for node in body.nodes if isinstance(node.op, Chain) for name in node.inputs}
        layers = [layer for layer in layers_of(self.graph, body) if layer.tensor not in cut]
        noise = measured(self.graph, layers, result, quants, self.few, len(next(iter(self.few.values()))), self.preprocess)
        return tuple(noise_warnings(layers, noise))

    def trial(self, kept: Collection[str]) -> ModelProto:
        """As `quantised`, but without effort, and unchecked."""
        body = self._body(kept)[1]
        return written(self.graph, body, self.statistics, self.method, self.correct_bias, self.coded)[0]


def quantise(
    model: Readable,
    samples: Mapping[str, np.ndarray],
    method: str = "minmax",
    preprocess: Preprocess | None = None,
    correct_bias: bool = True,
    progress: Progress | None = None,
    dump: Dump | None = None,
    effort: int = 0,
    refining: Progress | None = None,
) -> tuple[ModelProto, Report]:
    """The model as QDQ: int8 activations with zero point, symmetric weights per output channel, int32 biases; the rest stays float.

    `samples`: each input's calibration array, [N, ...]. `method`: minmax, percentile or mse. `effort`: 1 corrects biases layer by
    layer, 2 learns the rounding of weights too (`refine`). ModelError: an operator cannot run, the model is quantised already, or
    its ranges on the samples give a model that cannot be compiled. DataError: an unknown method or effort, or samples that do not
    fit (`calibrate`).
    """
    source = source_of(model)
    graph = float_graph(source, dump)
    given = calibrated(graph, samples, method, preprocess, correct_bias, progress, effort)
    given = replace(given, warnings=(*rewriting_warnings(source.proto, graph, samples, preprocess), *given.warnings))
    return given.quantised(refining=refining)


def float_graph(model: Readable, dump: Dump | None = None) -> Graph:
    """The model as the quantiser takes it: rewritten for the accelerator. ModelError: an operator cannot run."""
    graph = run_passes(to_graph(model), PLAIN, dump)
    return run_passes(replace(graph, joins=output_axes(graph)), REWRITES[len(PLAIN) :], dump)


def calibrated(
    graph: Graph,
    samples: Mapping[str, np.ndarray],
    method: str = "minmax",
    preprocess: Preprocess | None = None,
    correct_bias: bool = True,
    progress: Progress | None = None,
    effort: int = 0,
) -> Calibrated:
    """The first half of `quantise`, with its parameters and errors. graph: a `float_graph`."""
    if method not in METHODS:
        raise DataError(f"calibration method '{method}' is unknown; there are {', '.join(METHODS)}")
    if effort not in EFFORTS:
        raise DataError(f"effort {effort} is unknown; there are {', '.join(map(str, EFFORTS))}")
    count = check_samples(graph, samples, preprocess)
    try:
        return _measured(graph, samples, count, method, preprocess, correct_bias, progress, effort)
    except ModelError:
        for piece in cut(graph, float_body(graph)[0]):
            if piece.kind == CPU:
                check_cpu(piece)  # it names the node, if one alone is the cause
        raise


def _measured(
    graph: Graph,
    samples: Mapping[str, np.ndarray],
    count: int,
    method: str,
    preprocess: Preprocess | None,
    correct_bias: bool,
    progress: Progress | None,
    effort: int,
) -> Calibrated:
    """`calibrated`, once its parameters are known to be sound."""
    graph = pads_as_padding(graph, samples, count, preprocess)
    graph, warnings = prepared(graph, float_body(graph)[1], samples, count, preprocess)
    _, body = float_body(graph)
    unseen = unseen_lows(graph, body)
    more = Refinement.of(graph, body, count) if effort else None
    chosen = np.unique(np.linspace(0, count - 1, min(FEW, count)).astype(int)).tolist()
    far = OutlierWatch(tuple(body.tensors), chosen)
    watch: list[Watch] = [far, more.watch] if more else [far]
    statistics = calibrate(graph, tuple(body.tensors), samples, method != "minmax", preprocess, progress, watch, unseen)
    few = {name: samples[name][chosen] for name in graph.inputs}
    found = outliers_of(graph, body, statistics, far, method)
    warnings = (*flat_warnings(graph, statistics), *warnings)
    return Calibrated(
        graph, body, statistics, count, method, correct_bias, effort, preprocess, more, warnings=warnings, few=few, outliers=found
    )


def outliers_of(
    graph: Graph,
    body: Graph,
    statistics: Mapping[str, Statistics],
    far: OutlierWatch,
    method: str = "minmax",
) -> tuple[Outlier, ...]:
    """The constants that cost tensors of `body` their range. statistics: of all samples. far: has seen a few of them.

    ModelError: they cost all of them their range, so nothing is left for the accelerator.
    """
    quants = activation_quants(graph, body, statistics, method)
    found = (*strange(statistics), *within(far.found(), quants))
    if body.nodes and not float_body(graph, held_back(body, found))[1].nodes:
        raise ModelError(f"{graph.name}: nothing in it is left for the accelerator; {outlier_warnings(graph, found)[0]}")
    return found


def float_body(graph: Graph, kept: Collection[str] = ()) -> tuple[Reasons, Graph]:
    """Why each node of a rewritten float graph does not run on the accelerator, and the part of it that does.

    kept: nodes that shall not, by output. ModelError: the graph is quantised already.
    """
    if foreign := support.foreign_quantisation(graph):
        raise ModelError(f"{graph.name}: {foreign}; or compile this one as it is, for the CPU")
    if is_quantised(graph):
        raise ModelError(f"{graph.name}: the model is quantised already; compile it as it is")
    reasons = placed(graph, support.limit)
    reasons |= dict.fromkeys(float_tail(graph, reasons), TAIL)
    if kept:
        able = reasons
        reasons = placed(graph, lambda node, _: KEPT if node.output in kept else able[node.output])
    return reasons, part_of(graph, {output for output, reason in reasons.items() if reason is None}, graph.name)


def is_quantised(graph: Graph) -> bool:
    """Whether a rewritten float graph has quantised tensors."""
    if any(isinstance(node.op, Onnx) and node.op.kind == "QuantizeLinear" for node in graph.nodes):
        return True
    return any(tensor.quant for tensor in graph.tensors.values()) or any(isinstance(node.op, Requantise) for node in graph.nodes)


def written(
    graph: Graph,
    body: Graph,
    statistics: Mapping[str, Statistics],
    method: str = "minmax",
    correct_bias: bool = True,
    coded: Collection[str] = (),
) -> tuple[ModelProto, dict[str, Quant]]:
    """The graph as QDQ and each tensor's quantisation; `statistics` give the range of each tensor of `body`.

    coded: the outputs of nodes whose weights get books.
    """
    quants = activation_quants(graph, body, statistics, method)
    edit = _with_quants(graph, quants)
    for node in body.nodes:
        if isinstance(node.op, Conv):
            _quantise_weights(edit, node, quants, statistics, correct_bias, node.output in coded)
    return to_model(edit.finish()), quants


def _with_quants(graph: Graph, quants: Mapping[str, Quant]) -> Editor:
    """The graph, whose tensors have their quantisation, to be given weights."""
    edit = Editor(graph)
    for name, quant in quants.items():
        edit.tensors[name] = replace(edit.tensors[name], quant=quant)
    return edit


def _quantise_weights(
    edit: Editor, node: Node, quants: dict[str, Quant], statistics: Mapping[str, Statistics], correct_bias: bool, coded: bool
) -> None:
    """Rounds a convolution's weights, to a book if `coded`; the bias compensates for the change at the mean of the input."""
    op: Conv = node.op
    weights = edit.constants[op.weights].astype(np.float64)
    bias = edit.constants[op.bias].astype(np.float64)
    x = node.inputs[0]
    scales = scales_of(weights, bias, quants[x].scale)
    rounded = nearest_in_books(weights, scales) if coded else nearest(weights, scales)
    if correct_bias:
        per_group = weights.shape[1]
        means = np.repeat(statistics[x].means.reshape(op.groups, per_group), len(weights) // op.groups, axis=0)
        bias = bias + ((weights - rounded).sum(axis=(2, 3)) * means).sum(axis=1)
    put_weights(edit, node, rounded, bias, scales)
