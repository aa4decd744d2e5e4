"""Solves layers anew by least squares, one after another: each sees what the pruned layers before it make of the samples.

What is wanted of a layer is what it makes in the float network. A layer whose result is only added to another one is wanted to make
up for the other's error as well. How far weights may move from the float network's is chosen on the held-out samples.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, NodeProto

from cnna.pruning.cut import Cut, cut
from cnna.pruning.follow import Followed
from cnna.pruning.layers import Layer, Real
from cnna.pruning.seen import HELD_OUT, LARGEST, Count, Feeds, Known, Products, chosen_pixels, runs
from cnna.pruning.values import Array, attributes, showing

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the mean of a diagonal
NOTHING = 1e-30


def solved(start: Real, seen: Products, ridge: float, biased: bool) -> Real:
    """Rows [groups, outputs, taps + 1] with the least error; a ridge keeps them near `start`. biased: whether they have a bias."""
    free = slice(None) if biased else slice(-1)
    inputs = seen.inputs[:, free, free]
    scale = np.einsum("gii->g", seen.inputs[:, :-1, :-1]) / max(seen.inputs.shape[1] - 1, 1)
    damped = inputs + (ridge * np.maximum(scale, NOTHING))[:, None, None] * np.eye(inputs.shape[1])
    rest = (seen.wanted - seen.inputs @ start.swapaxes(1, 2))[:, free]
    made = start.copy()
    made[..., free] += np.linalg.solve(damped, rest).swapaxes(1, 2)
    return made


def best(start: Real, fitting: Products, judging: Products, biased: bool) -> Real:
    """The rows whose ridge serves the held-out pixels best; `start`, if nothing is better."""
    tried = [start, *(solved(start, fitting, ridge, biased) for ridge in RIDGES)]
    return min(tried, key=judging.error)


def with_bias(layer: Layer) -> Real:
    """The rows with the bias behind the taps; 0 where there is none."""
    bias = np.zeros(layer.rows.shape[:2]) if layer.bias is None else layer.bias.reshape(layer.rows.shape[:2])
    return np.concatenate([layer.rows, bias[..., None]], axis=2)


def solvable(found: Followed, layers: Mapping[int, Layer]) -> list[int]:
    """The layers that can be solved: they have weights and a bias of their own, in their plain form, and not too many taps."""
    uses = Counter(name for node in found.network.nodes for name in node.input)
    chosen = []
    for number, layer in layers.items():
        given, names = attributes(layer.node), layer.node.input[1:]
        plain = given.get("alpha", 1.0) == given.get("beta", 1.0) == 1.0
        fits = layer.bias is None or layer.bias.size == layer.rows.shape[0] * layer.rows.shape[1]
        known = layer.bias is not None or len(names) < 2 or not names[1]
        if plain and fits and known and layer.taps <= LARGEST and all(uses[name] == 1 for name in names if name):
            chosen.append(number)
    return chosen


@dataclass(frozen=True)
class Sum:
    """An Add behind a layer: its other operand, and its output."""

    other: str
    output: str


def sums_behind(found: Followed, layers: Mapping[int, Layer]) -> dict[int, Sum]:
    """By a layer's number, the Add that alone reads its result, if all layers before the other operand come before the layer."""
    makers = {layer.node.output[0]: number for number, layer in layers.items()}
    sums = {}
    for number, layer in layers.items():
        result = layer.node.output[0]
        one = _sum_behind(found, result)
        if one is None:
            continue
        before = {name for node in showing(found.network.proto, [one.other]).graph.node for name in node.output}
        if result not in before and all(makers[name] < number for name in before & set(makers)):
            sums[number] = one
    return sums


def _sum_behind(found: Followed, result: str) -> Sum | None:
    readers = [node for node in found.network.nodes if result in node.input]
    if len(readers) != 1 or readers[0].op_type != "Add" or result in found.network.outputs():
        return None
    other = next((name for name in readers[0].input if name != result), result)
    shapes = found.network.shapes
    same = other != result and other not in found.constants and shapes[other] == shapes[result]
    return Sum(other, readers[0].output[0]) if same else None


@dataclass(frozen=True, eq=False)
class Fit:
    """What is needed to solve layers. chosen: their numbers, in order; sums: as of `sums_behind`. feeds: the samples to solve from,
    every HELD_OUTth of which is held out; held: all that are held out, which may be more.
    """

    found: Followed
    layers: Mapping[int, Layer]
    chosen: Collection[int]
    sums: Mapping[int, Sum]
    known: Known
    feeds: Feeds
    held: Feeds

    @property
    def work(self) -> float:
        """About the multiply-accumulates of the runs in which all layers are solved."""
        shapes = self.found.network.shapes
        macs = sum(layer.weights.size * layer.pixels(shapes[layer.node.output[0]]) for layer in self.layers.values())
        return float(macs * len(self.chosen) / 2 * len(self.feeds))

    def pruned(self, removed: Collection[int], count: Count) -> tuple[ModelProto, dict[int, float]]:
        """The model without some channels, solved, and each solved layer's error as a share of the power of what is wanted."""
        left, changed, errors = Cut(self.found, removed), dict[str, Array](), dict[int, float]()
        nodes = cut(self.found, removed).graph.node
        for done, number in enumerate(self.chosen):
            small = smaller(self.layers[number], left, nodes[number])
            model = cut(self.found, removed, changed)
            if self._touched(left, number):
                parts = self._products(small, left, model)
                rows = best(with_bias(small), *parts, small.bias is not None)
                changed |= put(small, rows)
                whole = parts[0] + parts[1]
                errors[number] = max(whole.error(rows), 0.0) / max(whole.power, NOTHING)
            count(done + 1, len(self.chosen))
        return cut(self.found, removed, changed), errors

    def _touched(self, left: Cut, number: int) -> bool:
        """Whether a layer has lost inputs, or sees what such a layer makes."""
        x = self.layers[number].node.input[0]
        nodes = showing(self.found.network.proto, [x]).graph.node
        before = {x, *(name for node in nodes for name in (*node.input, *node.output))}
        return any(not mask.all() for name in before for mask in left.masks(name).values())

    def _products(self, small: Layer, left: Cut, model: ModelProto) -> tuple[Products, Products]:
        """Of the samples to solve with, and of those held out."""
        layer, behind = self.layers[small.number], self.sums.get(small.number)
        out = self.found.network.shapes[layer.node.output[0]]
        targets = (self.known.sums if behind else self.known.targets)[small.number]
        masks = left.masks(layer.node.output[0])
        stays = next(iter(masks.values())) if masks else np.ones(small.rows.shape[0] * small.rows.shape[1], bool)
        names = [layer.node.input[0], *([behind.other] if behind else [])]
        made = [name for name in dict.fromkeys(names) if name not in self.found.network.inputs()]
        parts = Products.empty(small), Products.empty(small)
        for number, values in enumerate(runs(model, self.found.network.name, made, self.feeds) if made else self.feeds):
            chosen = chosen_pixels(layer, number, len(self.feeds), layer.pixels(out))
            wanted = targets[number].reshape(-1, len(chosen))[stays].reshape(small.groups, -1, len(chosen))
            if behind:
                wanted = wanted - small.outputs(values[behind.other], chosen)
            parts[number % HELD_OUT == 0].add(small.columns(values[layer.node.input[0]], out, chosen), wanted)
        return parts


def smaller(layer: Layer, left: Cut, node: NodeProto) -> Layer:
    """A layer without channels. node: its node in the model without them."""
    bias = None if layer.bias is None else left.constant(layer.node.input[2], layer.bias)
    return replace(layer, node=node, weights=left.constant(layer.node.input[1], layer.weights), bias=bias)


def put(layer: Layer, rows: Real) -> dict[str, Array]:
    """The constants of a layer with other rows and bias."""
    found: dict[str, Array] = {layer.node.input[1]: layer.put(rows[..., :-1])}
    if layer.bias is not None:
        found[layer.node.input[2]] = rows[..., -1].reshape(layer.bias.shape).astype(np.float32)
    return found
