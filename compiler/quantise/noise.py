"""How far each layer of a quantised network is from the float network: signal to noise, and how many values are clipped.

Both networks run one sample at a time, and only sums are kept, so memory holds the activations of one sample.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log10
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.float_ops import CLIPPED, VIEWS, Conv
from cnna.compiler.graph.ir import Graph, Quant
from cnna.compiler.graph.node_names import kind_of, source_of
from cnna.compiler.quantise.calibrate import Progress
from cnna.compiler.quantise.sessions import Session, feeds_of

INPUT = "input"  # stands where a layer's operator does
BRIEF = 4  # samples for which a session is not worth optimising


@dataclass(frozen=True)
class Layer:
    """A node of the user's model that the accelerator can run, or an input of the model.

    nodes: what it has become in the rewritten graph, by output; the last one makes `tensor`. low, high: the operator's own limits.
    multiplies: whether there is a convolution among the nodes.
    """

    name: str
    op: str
    tensor: str
    nodes: tuple[str, ...] = ()
    low: float = -inf
    high: float = inf
    multiplies: bool = False


def layers_of(graph: Graph, body: Graph) -> list[Layer]:
    """The inputs of a rewritten float graph that are quantised, then the layers in `body`, its part that is quantised."""
    found: dict[str, Layer] = {}
    for node in body.nodes:
        if isinstance(node.op, VIEWS):
            continue
        source = source_of(node.name, graph.sources)
        name = node.name if source is None else source
        kind = kind_of(node) if source is None else graph.sources[source]
        limits = (node.op.low, node.op.high) if isinstance(node.op, CLIPPED) else (-inf, inf)
        before = found.get(name, Layer(name, kind, ""))
        multiplies = before.multiplies or isinstance(node.op, Conv)
        found[name] = Layer(name, kind, node.output, (*before.nodes, node.output), *limits, multiplies)
    return [*(Layer(name, INPUT, name) for name in graph.inputs if name in body.tensors), *found.values()]


@dataclass
class Noise:
    """Sums over the values of one tensor. quant: None where it stays float in the quantised network."""

    quant: Quant | None
    elements: int = 0
    clipped: int = 0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("signal", "noise"), 0.0))

    def extend(self, real: np.ndarray, before: np.ndarray, limits: tuple[float, float] = (-inf, inf)) -> None:
        """Adds a sample: the float network's values, and the quantised network's before they are rounded to int8."""
        made = np.clip(before, *limits) if limits != (-inf, inf) else before
        if not (finite := np.isfinite(real)).all():  # a mask's infinity is no signal
            real, made = real[finite], made[finite]
        self.elements += made.size
        if self.quant is not None:
            whole = np.rint(made / np.float32(self.quant.scale)) + np.float32(self.quant.zero)
            self.clipped += int(np.count_nonzero((whole < -128) | (whole > 127)))
            made = (np.clip(whole, -128, 127) - np.float32(self.quant.zero)) * np.float32(self.quant.scale)
        self.sums["signal"] += _power(real)
        self.sums["noise"] += _power(made - real)

    @property
    def ratio(self) -> float:
        """Noise by signal, as powers; infinite if there is noise alone."""
        if not self.sums["noise"]:
            return 0.0
        return self.sums["noise"] / self.sums["signal"] if self.sums["signal"] else inf

    @property
    def decibels(self) -> float | None:
        """Signal to noise; None if one of them is 0."""
        return -10 * log10(self.ratio) if 0 < self.ratio < inf else None

    def figures(self) -> dict[str, Any]:
        """As reports have them."""
        share = self.clipped / max(self.elements, 1)
        return {"int8": self.quant is not None, "snr_db": self.decibels, "clipped": None if self.quant is None else share}


def _power(values: np.ndarray) -> float:
    """The sum of the squares."""
    exact = values.ravel().astype(np.float64)
    return float(exact @ exact)


def measured(
    graph: Graph,
    layers: Sequence[Layer],
    model: ModelProto,
    quants: Mapping[str, Quant],
    samples: Mapping[str, np.ndarray],
    count: int,
    preprocess: Preprocess | None,
    progress: Progress | None = None,
) -> dict[str, Noise]:
    """The noise of each layer's tensor, by tensor. graph: in float. model: the quantised one, whose tensors have `quants`."""
    found = {layer.tensor: Noise(quants.get(layer.tensor)) for layer in layers}
    inner = [layer for layer in layers if layer.op != INPUT]
    shown = [layer.tensor for layer in inner]
    raw, brief = _before_rounding(model, shown), count <= BRIEF
    in_float = Session.of(graph, shown, brief)
    in_int8 = Session(_showing(model, raw.values()), graph.name, brief)
    for number, feeds in enumerate(feeds_of(graph, samples, count, preprocess)):
        for layer in layers:
            if layer.op == INPUT:
                found[layer.tensor].extend(feeds[layer.tensor], feeds[layer.tensor])
        real, values = in_float.run(feeds), in_int8.run(feeds)
        for layer in inner:
            found[layer.tensor].extend(real[layer.tensor], values[raw[layer.tensor]], (layer.low, layer.high))
        del real, values  # they need not be in memory together with those of the next sample
        if progress:
            progress(number + 1, count)
    return found


def added(graph: Graph, layers: Sequence[Layer], noise: Mapping[str, Noise]) -> dict[str, float]:
    """The noise by signal that each layer has more than the worst of its inputs, by the layer's name."""
    ratios = {tensor: one.ratio for tensor, one in noise.items()}
    for node in graph.nodes:
        before = max((ratios.get(name, 0.0) for name in node.inputs), default=0.0)
        for name in outputs_of(node):
            ratios.setdefault(name, before)
    makers = {node.output: node for node in graph.nodes}
    found = {}
    for layer in layers:
        read = {name for output in layer.nodes for name in makers[output].inputs} - {*layer.nodes}
        before = max((ratios.get(name, 0.0) for name in read), default=0.0)
        found[layer.name] = ratios[layer.tensor] - before if before < inf else 0.0
    return found


def _before_rounding(model: ModelProto, tensors: Sequence[str]) -> dict[str, str]:
    """For each tensor its name in a QDQ model, before Q and DQ; an output of the model has its own name only behind them."""
    makers = {name: node for node in model.graph.node for name in node.output}
    found = {}
    for name in tensors:
        back = makers[name]
        found[name] = makers[back.input[0]].input[0] if back.op_type == "DequantizeLinear" else name
    return found


def _showing(model: ModelProto, names: Iterable[str]) -> bytes:
    """The model with these tensors as outputs too. Joined messages are one, whose lists are joined: no copy of weights is made."""
    there = {value.name for value in model.graph.output}
    more = ModelProto()
    more.graph.output.extend(ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in there)
    return model.SerializeToString() + more.SerializeToString()
