"""Follows channels through a model: which positions of which tensors, weights included, are one channel, and which must stay.

Each axis of a tensor that has channels gets an array of their numbers. A convolution makes new numbers; an Add couples those of
both operands; what moves elements moves numbers. What is not known here keeps its channels whole, with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto

from cnna.pruning.coupled import Axes, Coupled, Labels
from cnna.pruning.moves import MOVES, moved
from cnna.pruning.values import Array, Network, attributes, captured

UNARY = (
    *("Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Selu", "Celu", "Softplus", "Softsign"),
    *("Mish", "Gelu", "Erf", "Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Floor", "Ceil", "Round", "Identity", "Dropout"),
    *("Cast", "ThresholdedRelu", "Swish"),
)
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "GlobalLpPool")
BROADCAST = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Sum", "Mean")
NORMS = ("BatchNormalization", "InstanceNormalization")
REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceSumSquare")
SIZES = ("Shape", "Size")  # they read no values
CHANNELS = 1  # the axis of channels in a map
MAP = 4  # the axes of a map, and of the weights of a convolution over maps


@dataclass
class Followed:
    """What was found. axes: of each tensor with channels, weights included. linear: numbers of the nodes with weights."""

    network: Network
    coupled: Coupled = field(default_factory=Coupled)
    axes: dict[str, Axes] = field(default_factory=dict)
    linear: list[int] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def of(self, name: str) -> Axes:
        """The axes of a tensor that have channels."""
        return self.axes.get(name, {})

    def give(self, name: str, axis: int, labels: Labels) -> None:
        """Says which channels an axis of a tensor has. What it has already is coupled with them, as in shared weights."""
        have = self.axes.setdefault(name, {})
        if axis in have:
            self.coupled.join(have[axis], labels)
        have[axis] = labels

    def keep(self, name: str, why: str) -> None:
        """Keeps all channels of a tensor."""
        for labels in self.of(name).values():
            self.coupled.keep(labels, why)


def follow(network: Network) -> Followed:
    """Follows all channels of a network."""
    found = Followed(network, constants=network.constants())
    for number, node in enumerate(network.nodes):
        _rule(node)(found, number, node)
    for name in network.outputs():
        found.keep(name, f"it reaches the output '{name}'")
    for labels in [labels for axes in found.axes.values() for labels in axes.values()]:
        if len(set(found.coupled.roots(labels).tolist())) == 1:
            found.coupled.keep(labels[:1], "it is the only channel of a tensor")
    found.coupled.settle()
    return found


Rule = Callable[[Followed, int, NodeProto], None]


def _rule(node: NodeProto) -> Rule:
    if node.domain not in ("", "ai.onnx"):
        return _foreign
    kind = node.op_type
    table: dict[str, Rule] = {"Conv": _conv, "ConvTranspose": _conv, "Gemm": _gemm, "MatMul": _matmul}
    table |= dict.fromkeys(UNARY, _unary) | dict.fromkeys(POOLS, _pool) | dict.fromkeys(BROADCAST, _broadcast)
    table |= dict.fromkeys(NORMS, _norm) | dict.fromkeys(REDUCTIONS, _reduction) | dict.fromkeys(MOVES, _move)
    table |= dict.fromkeys(SIZES, lambda *_: None)
    return table.get(kind, _unknown)


def _unknown(found: Followed, number: int, node: NodeProto) -> None:
    for name in {*node.input, *captured(node)}:
        found.keep(name, f"{node.op_type} ({found.network.called(number)}) needs all of them")


def _foreign(found: Followed, number: int, node: NodeProto) -> None:
    who = f"{node.domain}.{node.op_type} ({found.network.called(number)})"
    for name in {*node.input, *captured(node)}:
        found.keep(name, f"{who} may need all of them, as it is none of ONNX's own; export it as operators of ONNX")


def _unary(found: Followed, number: int, node: NodeProto) -> None:
    for output in node.output:
        if output:
            for axis, labels in found.of(node.input[0]).items():
                found.give(output, axis, labels)


def _pool(found: Followed, number: int, node: NodeProto) -> None:
    if set(found.of(node.input[0])) - {CHANNELS} or len([one for one in node.output if one]) > 1:
        return _unknown(found, number, node)
    _unary(found, number, node)


def _conv(found: Followed, number: int, node: NodeProto) -> None:
    """Grouped forms lose as many channels from each group: the channels at one place of all groups are coupled."""
    x, weights = node.input[:2]
    if weights not in found.constants or len(found.network.shapes[weights]) != MAP or set(found.of(x)) - {CHANNELS}:
        return _unknown(found, number, node)
    groups, own = int(attributes(node).get("group", 1)), found.network.shapes[weights]
    transposed = node.op_type == "ConvTranspose"
    into, made = (0, 1) if transposed else (1, 0)
    outputs = own[1] * groups if transposed else own[0]
    labels = found.of(x).get(CHANNELS)
    found.linear.append(number)
    if labels is not None and groups == len(labels) == outputs and own[1] == 1:  # depthwise
        found.give(weights, 0, labels)
        results = labels
    else:
        results = found.coupled.fresh(outputs, number)
        if groups == 1:
            found.give(weights, made, results)
            if labels is not None:
                found.give(weights, into, labels)
        else:
            _grouped(found, node, groups, labels, results)
    if len(node.input) > 2 and node.input[2]:
        found.give(node.input[2], 0, results)
    found.give(node.output[0], CHANNELS, results)


def _grouped(found: Followed, node: NodeProto, groups: int, labels: Labels | None, results: Labels) -> None:
    """Gives the weights of a grouped convolution their channels: one axis has those of all groups, the other of one group."""
    transposed = node.op_type == "ConvTranspose"
    inside = None if labels is None else found.coupled.join_slices(labels.reshape(groups, -1), 1)
    made = found.coupled.join_slices(results.reshape(groups, -1), 1)
    if transposed:
        found.give(node.input[1], 1, made)
        if labels is not None:
            found.give(node.input[1], 0, labels)
        return
    found.give(node.input[1], 0, results)
    if inside is not None:
        found.give(node.input[1], 1, inside)


def _gemm(found: Followed, number: int, node: NodeProto) -> None:
    given, x, weights = attributes(node), node.input[0], node.input[1]
    if given.get("transA") or weights not in found.constants or set(found.of(x)) - {1}:
        return _unknown(found, number, node)
    into, made = (1, 0) if given.get("transB") else (0, 1)
    results = _product(found, number, node, into, made)
    if len(node.input) > 2 and node.input[2]:
        _constant(found, number, node, node.input[2], {1: results}, 2)


def _matmul(found: Followed, number: int, node: NodeProto) -> None:
    x, weights = node.input
    last = len(found.network.shapes[x]) - 1
    if weights not in found.constants or len(found.network.shapes[weights]) != 2 or set(found.of(x)) - {last}:
        return _unknown(found, number, node)
    _product(found, number, node, 0, 1)


def _product(found: Followed, number: int, node: NodeProto, into: int, made: int) -> Labels:
    """A matrix product by weights: its inputs along one axis of them, its outputs along the other."""
    x, weights = node.input[:2]
    last = len(found.network.shapes[x]) - 1
    found.linear.append(number)
    results = found.coupled.fresh(found.network.shapes[weights][made], number)
    found.give(weights, made, results)
    if last in found.of(x):
        found.give(weights, into, found.of(x)[last])
    found.give(node.output[0], last, results)
    return results


def _norm(found: Followed, number: int, node: NodeProto) -> None:
    axes = found.of(node.input[0])
    if not set(axes) <= {CHANNELS} or any(name not in found.constants for name in node.input[1:] if name):
        return _unknown(found, number, node)
    if CHANNELS in axes:
        for name in node.input[1:]:
            found.give(name, 0, axes[CHANNELS])
        found.give(node.output[0], CHANNELS, axes[CHANNELS])


def _broadcast(found: Followed, number: int, node: NodeProto) -> None:
    """The channels of all operands are coupled along each axis of the output."""
    shapes, names = found.network.shapes, [name for name in node.input if name]
    rank = max(len(shapes[name]) for name in names)
    result: Axes = {}
    for name in names:
        shift = rank - len(shapes[name])
        for axis, labels in found.of(name).items() if name not in found.constants else ():
            if shapes[node.output[0]][axis + shift] != len(labels):
                return _unknown(found, number, node)
            if axis + shift in result:
                found.coupled.join(result[axis + shift], labels)
            result.setdefault(axis + shift, labels)
    for name in names:
        if name in found.constants:
            _constant(found, number, node, name, result, rank)
            continue
        own = found.of(name)
        missing = [axis for axis in result if _real(shapes[name], axis - rank) and axis - rank + len(shapes[name]) not in own]
        for axis in missing:
            why = f"{node.op_type} ({found.network.called(number)}) joins them with '{name}', which has other channels"
            found.coupled.keep(result[axis], why)
    for axis, labels in result.items():
        found.give(node.output[0], axis, labels)


def _real(shape: tuple[int, ...], axis: int) -> bool:
    """Whether a shape has more than one place along an axis, counted from the end."""
    return -axis <= len(shape) and shape[axis] > 1


def _constant(found: Followed, number: int, node: NodeProto, name: str, result: Axes, rank: int) -> None:
    """A constant beside a map with channels: what it has for each of them goes with the channel."""
    shape = found.network.shapes[name]
    for axis, labels in result.items():
        own = axis - rank + len(shape)
        if own >= 0 and shape[own] > 1:
            if name in found.constants:
                found.give(name, own, labels)
            else:
                found.coupled.keep(labels, f"{node.op_type} ({found.network.called(number)}) joins them with '{name}'")


def _reduction(found: Followed, number: int, node: NodeProto) -> None:
    """A mean over rows and columns, say; over channels, all must stay."""
    given, x = attributes(node), node.input[0]
    rank = len(found.network.shapes[x])
    axes = given.get("axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        if node.input[1] not in found.constants:
            return _unknown(found, number, node)
        axes = found.constants[node.input[1]].tolist()
    gone = {axis % rank for axis in axes} if axes else set(range(rank))
    if gone & set(found.of(x)):
        return _unknown(found, number, node)
    for axis, labels in found.of(x).items():
        left = axis if given.get("keepdims", 1) else axis - sum(one < axis for one in gone)
        found.give(node.output[0], left, labels)


def _move(found: Followed, number: int, node: NodeProto) -> None:
    """Elements that move: so do the numbers of their channels."""
    results = moved(found.network, node, found.axes, found.constants)
    if results is None:
        return _unknown(found, number, node)
    for name, labels in results.items():
        varying = [axis for axis in range(labels.ndim) if (labels != labels.take([0], axis)).any()]
        stays = labels < 0
        if stays.any() and not stays.all():  # beside them lies what has no channels, such as the input
            why = f"{node.op_type} ({found.network.called(number)}) puts others beside them"
            found.coupled.keep(np.unique(labels[~stays]), why)
        if stays.any() or not varying:
            if not stays.any():
                found.coupled.keep(labels.ravel()[:1], "it is the only channel of a tensor")
            continue
        axis = max(varying, key=lambda one: len(np.unique(np.moveaxis(labels, one, 0).reshape(labels.shape[one], -1)[:, 0])))
        found.give(name, axis, found.coupled.join_slices(labels, axis))
