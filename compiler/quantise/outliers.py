"""Finds what makes a range useless: constants far from all data, and layers of which int8 keeps nothing.

A mask of -1e9, or -65504 around a map, is no data. In the range of int8 it leaves no steps for the values beside it. A max pool
never shows what lies below all data, so a Pad before one becomes its padding, and other tensors that only max pools and limits
read need no range beyond what these make (`unseen_lows`, `limited`). Where a constant shows, the nodes around it stay in float.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Clip, MaxPool, Pad
from cnna.compiler.graph.ir import Graph, Node, Quant
from cnna.compiler.graph.node_names import place
from cnna.compiler.passes.fusion.fuse_pad import fuse_pad
from cnna.compiler.quantise.calibrate import Statistics, channels
from cnna.compiler.quantise.noise import INPUT, Layer, Noise
from cnna.spec.verdicts import decibel_text

TOLD = 8.0  # times the length of the data's range that a range has: three of eight bits are lost, which a warning says
KEPT = 128.0  # times: one bit is left, and the nodes stay in float
BINS = 256
SHOWN = 4096  # values that mostly show that there is no such gap
FEWEST = 8  # values of a tensor that can be parted into data and a constant
LEAST = 10.0  # decibels of a layer below which a warning names it, as `cnna convert` calls an output poor

Parts = tuple[float, float, float]  # as `_parted` answers


@dataclass(frozen=True)
class Outlier:
    """A constant in a tensor, and how many times the range that it asks for is longer than that of the data.

    Infinity and NaN, wherever they come from, ask for a range without end.
    """

    tensor: str
    value: float
    times: float


def pads_as_padding(graph: Graph, samples: Mapping[str, np.ndarray], count: int, preprocess: Preprocess | None) -> Graph:
    """Pads that only max pools read, with a value below all that the samples put there, become the pools' own padding."""
    found = [node for node in graph.nodes if isinstance(node.op, Pad) and node.op.value < 0 and _only_pools(graph, node.output)]
    if not found:
        return graph
    seen = channels(graph, [*dict.fromkeys(node.inputs[0] for node in found)], samples, count, preprocess, most=count)
    edit = Editor(graph)
    for node in found:
        op: Any = node.op
        if seen[node.inputs[0]].low.min() >= op.value:
            edit.nodes[node.output] = replace(node, op=replace(op, value=-inf))
    merged = fuse_pad(edit.finish())
    fixed = {node.output: node for node in found}
    left = [fixed.get(node.output, node) for node in merged.nodes]  # a Pad that a pool cannot take keeps its value
    return replace(merged, nodes=tuple(left))


def unseen_lows(graph: Graph, body: Graph) -> dict[str, tuple[str, ...]]:
    """The tensors of which only max pools and lower limits read, each with what these make: nothing below all of that shows."""
    made: dict[str, list[str]] = {}
    for node in body.nodes:
        if _hides_lows(node):
            made.setdefault(node.inputs[0], []).append(node.output)
    return {name: tuple(outputs) for name, outputs in made.items() if _all_read(graph, name, _hides_lows)}


def limited(graph: Graph, body: Graph) -> set[str]:
    """The tensors that only limits read, which share the range of what these make: nothing beyond that shows."""
    names = {node.inputs[0] for node in body.nodes if isinstance(node.op, Clip)}
    return {name for name in names if _all_read(graph, name, lambda node: isinstance(node.op, Clip))}


def _hides_lows(node: Node) -> bool:
    return isinstance(node.op, MaxPool) or (isinstance(node.op, Clip) and isfinite(node.op.low))


def _only_pools(graph: Graph, tensor: str) -> bool:
    return _all_read(graph, tensor, lambda node: isinstance(node.op, MaxPool))


def _all_read(graph: Graph, tensor: str, kind: Callable[[Node], bool]) -> bool:
    """Whether all that reads a tensor is of a kind, and anything does."""
    readers = [node for node in graph.nodes if tensor in node.inputs]
    return bool(readers) and tensor not in graph.outputs and all(map(kind, readers))


@dataclass
class OutlierWatch:
    """Looks for constants far from all data while samples pass by (`calibrate.Watch`). chosen: numbers of those that it takes."""

    tensors: Collection[str]
    chosen: Collection[int]
    parts: dict[str, list[Parts | None]] = field(default_factory=dict)

    def __call__(self, number: int, feeds: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> None:
        """Takes a sample: its number, its inputs and its tensors."""
        if number in self.chosen:
            for name in self.tensors:
                self.parts.setdefault(name, []).append(_parted(feeds[name] if name in feeds else values[name]))

    def found(self) -> list[Outlier]:
        """A constant for each tensor in which all samples have it."""
        return [found for name, parts in self.parts.items() if (found := _constant(name, parts))]


def strange(statistics: Mapping[str, Statistics]) -> list[Outlier]:
    """The tensors that hold infinity or NaN for samples that hold neither."""
    return [Outlier(name, one.strange, inf) for name, one in statistics.items() if one.strange is not None]


def _parted(value: np.ndarray) -> Parts | None:
    """A sample's extreme value far from all others and from 0, the length of the range with it, and that of the others' range."""
    if not (finite := np.isfinite(value)).all():
        value = value[finite]
    if value.size < FEWEST:
        return None
    value = value.reshape(-1)
    low, high = min(0.0, float(value.min())), max(0.0, float(value.max()))
    if not low < high or not isfinite(high - low):
        return None
    some = np.append(value[:: max(1, value.size // SHOWN)], [value.min(), value.max()])
    if _gap(some, low, high) is None:  # more values can only fill a gap
        return None
    value = value.astype(np.float64)
    edge = _gap(value, low, high)
    if edge is None:
        return None
    near = value[value <= edge] if edge > 0 else value[value > edge]
    span = float(near.max()) - float(near.min()) if near.size else 0.0
    extreme = high if edge > 0 else low
    return (extreme, high - low, max(span, 0.0)) if span > 0 else None


def _gap(value: np.ndarray, low: float, high: float) -> float | None:
    """Where the longest gap in these values and 0 begins; None: it is too short to part a constant from data."""
    counts, edges = np.histogram(value.astype(np.float64), BINS, (low, high))
    counts[np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, BINS - 1)] += 1  # 0 is in every range
    there = np.flatnonzero(counts)
    gaps = np.diff(there)
    if not gaps.size or gaps.max() < BINS * (1 - 1 / TOLD):
        return None
    return float(edges[there[gaps.argmax()] + 1])


def _constant(name: str, parts: Sequence[Parts | None]) -> Outlier | None:
    """What all samples have in common. Data that lie far out differ from sample to sample by more than the rest does."""
    known = [part for part in parts if part]
    if not known or len(known) < len(parts):
        return None
    extremes, spans, data = zip(*known, strict=True)
    if max(extremes) - min(extremes) > max(data) or min(data) <= 0:
        return None
    times = min(spans) / max(data)
    return Outlier(name, extremes[0], times) if times >= TOLD else None


def held_back(body: Graph, found: Sequence[Outlier]) -> set[str]:
    """The nodes, by output, that make or read a tensor whose range has no room for data."""
    lost = {one.tensor for one in found if one.times >= KEPT}
    return {node.output for node in body.nodes if lost & {*node.inputs, node.output}}


def within(found: Sequence[Outlier], quants: Mapping[str, Quant]) -> list[Outlier]:
    """Those that the range of their tensor reaches; other ranges end before them."""
    return [one for one in found if (quant := quants.get(one.tensor)) and abs(one.value) <= 256 * quant.scale]


def outlier_warnings(graph: Graph, found: Sequence[Outlier]) -> list[str]:
    """A line for each value: the first node that makes it, what it costs, and what helps."""
    said: dict[str, str] = {}
    for one in found:
        maker = graph.producer(one.tensor)
        where = place(maker, graph) if maker else f"input '{one.tensor}'"
        about = f"{where}: the value {one.value:g} makes the range of '{one.tensor}' {one.times:.3g} times as long as its data need"
        if one.times == inf:
            about = f"{where}: '{one.tensor}' holds {one.value:g}, for which int8 has no range"
        lost = (
            "so what makes and reads it stays in float, on the CPU" if one.times >= KEPT else "which leaves int8 few steps for them"
        )
        said.setdefault(f"{one.value:g}", f"{about}, {lost}; apply such a mask behind the network, or use a value near the data")
    return [*said.values()]


def noise_warnings(layers: Sequence[Layer], noise: Mapping[str, Noise]) -> list[str]:
    """A line for the first layer, in the model's order, of which int8 keeps too little; those behind it carry its noise."""
    for layer in layers:
        one = noise[layer.tensor]
        if one.quant is not None and one.sums["signal"] and one.ratio > 10 ** (-LEAST / 10):
            level = decibel_text(one.decibels) if one.decibels is not None else "no"
            clipped = one.clipped / max(one.elements, 1)
            where = f"{'' if layer.op == INPUT else 'node '}'{layer.name}' ({layer.op})"
            return [
                f"{where}: in int8 its output '{layer.tensor}' has {level} of signal to noise, below "
                f"{LEAST:g} dB ({clipped:.2%} of its values are clipped); try --method mse, --effort 2 or more typical samples, or "
                "--search to keep it in float; --report shows every layer"
            ]
    return []
