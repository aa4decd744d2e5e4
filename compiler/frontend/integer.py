"""Converts the quantised body of a float graph to the int8 graph of `ir`: multipliers, folded biases, limits."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from cnna.compiler.graph import float_ops as f
from cnna.compiler.graph import ir
from cnna.compiler.graph.even_runs import even_runs
from cnna.compiler.graph.node_names import place
from cnna.compiler.graph.pointwise import table_of
from cnna.spec import arith
from cnna.spec.errors import ModelError
from cnna.spec.samples.pack import quantise

ACC_LIMIT = 1 << 31  # sums are int32
NEAR = 0.25  # quotients in float32 that are so near to whole numbers are rounded as exact ones are


def to_integer(graph: ir.Graph) -> ir.Graph:
    """The int8 graph of a body in which `support.quantised_limit` finds nothing.

    ModelError, naming the node: a sum may exceed int32, or no multiplier holds the ratio of the scales.
    """
    constants: dict[str, np.ndarray] = {}
    tensors = {name: ir.Tensor(tensor.shape[1:], tensor.quant) for name, tensor in graph.tensors.items()}
    nodes: list[ir.Node] = []
    for node in graph.nodes:
        try:
            if type(node.op) in _SEVERAL:
                nodes += _SEVERAL[type(node.op)](node, tensors)
            else:
                op = _CONVERT[type(node.op)](node, graph, tensors, constants)
                nodes.append(replace(node, op=op))
        except ValueError as error:  # from arith
            raise ModelError(f"{place(node, graph)}: {error}") from None
    return ir.Graph(graph.name, graph.inputs, graph.outputs, tuple(nodes), tensors, constants)


Tensors = dict[str, ir.Tensor]
Constants = dict[str, np.ndarray]


def _quant(tensors: Tensors, name: str) -> ir.Quant:
    quant = tensors[name].quant
    assert quant is not None, name
    return quant


def _conv(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.Conv | ir.Depthwise:
    op: f.Conv = node.op
    assert op.weight_scale is not None
    x, y = _quant(tensors, node.inputs[0]), _quant(tensors, node.output)
    scale = np.asarray(graph.constants[op.weight_scale], np.float64)
    known = graph.whole(op.weights, scale)
    weights = whole_weights(graph.constants[op.weights], scale) if known is None else known
    each = weights.reshape(len(weights), -1)
    bias = np.rint(np.asarray(graph.constants[op.bias], np.float64) / (x.scale * scale))
    if x.zero:
        bias -= x.zero * _sums(each)
    worst = _worst(each, bias)
    if not worst < ACC_LIMIT:
        raise ValueError(f"its sums may reach {worst:.3g}, beyond int32; use a larger weight scale or a smaller bias")
    mult, shift = arith.multipliers(x.scale * scale / y.scale)
    base = node.output
    constants[f"{base}:weights"] = weights.astype(np.int8, copy=False)
    constants[f"{base}:bias"] = bias.astype(np.int32)
    constants[f"{base}:mult"] = mult.astype(np.int32)
    constants[f"{base}:shift"] = shift.astype(np.int32)
    names = (f"{base}:weights", f"{base}:bias", f"{base}:mult", f"{base}:shift")
    if op.groups == len(weights) == tensors[node.inputs[0]].shape[0] and op.groups > 1:
        return ir.Depthwise(op.window, *names, ir.clamp(y, op.low, op.high))
    return ir.Conv(op.window, op.groups, *names, ir.clamp(y, op.low, op.high))


def _sums(each: np.ndarray) -> np.ndarray:
    """The exact sum of each row of whole numbers, which a wider type than int8 may hold."""
    if each.dtype == np.int8:
        return each.sum(axis=1, dtype=np.int32 if each.shape[1] < 1 << 24 else np.int64).astype(np.float64)
    return np.asarray(each @ np.ones(each.shape[1], each.dtype), np.float64)


def _worst(each: np.ndarray, bias: np.ndarray) -> float:
    """What sums may reach: of weights in int8 a bound, if no sum can pass the limit even if all are -128."""
    most = np.abs(bias)
    if each.dtype == np.int8:
        bound = float(128 * 128 * each.shape[1] + most.max())
        if bound < ACC_LIMIT:
            return bound
        each = each.astype(np.float64)
    return float((128 * _sums(np.abs(each)) + most).max())


def whole_weights(weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The whole numbers nearest to weights / scale: in float32, which takes half the time, if it errs neither in them nor in sums.

    It errs by less than 2**-15 in a quotient up to 128, and holds all whole numbers up to 2**24.
    """
    short = scale.astype(np.float32)
    if weights.dtype == np.float32 and (short == scale).all() and weights.size << 7 <= len(weights) << 24:
        quotients = weights / short[:, None, None, None]
        whole = np.rint(quotients)
        quotients -= whole
        if _reach(quotients) < NEAR and _reach(whole) <= 128:
            return whole
    return np.asarray(np.rint(weights / scale[:, None, None, None]), np.float64)


def _reach(values: np.ndarray) -> float:
    """The greatest magnitude."""
    return float(np.maximum(values.max(initial=0), -values.min(initial=0)))


def _copy(x: ir.Quant, y: ir.Quant, low: float = -inf, high: float = inf) -> ir.Combine:
    return ir.Combine(*arith.factors(x.scale / y.scale, x.zero), ir.clamp(y, low, high))


def _clip(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.Combine:
    limits = (node.op.low, node.op.high) if isinstance(node.op, f.Clip) else ()
    return _copy(_quant(tensors, node.inputs[0]), _quant(tensors, node.output), *limits)


def _max_pool(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.MaxPool:
    return ir.MaxPool(node.op.window, _copy(_quant(tensors, node.inputs[0]), _quant(tensors, node.output)))


def _average_pool(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.AveragePool:
    op: f.AveragePool = node.op
    x, y = _quant(tensors, node.inputs[0]), _quant(tensors, node.output)
    shape, out = tensors[node.inputs[0]].shape, tensors[node.output].shape
    ratio = x.scale / y.scale
    for divisor in np.unique(ir.taps_inside(op.window, (shape[1], shape[2]), (out[1], out[2]), op.include_pad)):
        arith.multiplier(ratio / int(divisor))  # raises ValueError here rather than later
    return ir.AveragePool(op.window, op.include_pad, ratio, x.zero, ir.clamp(y, op.low, op.high))


def _bilinear(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.Bilinear:
    op: f.Bilinear = node.op
    x, y = _quant(tensors, node.inputs[0]), _quant(tensors, node.output)
    made = ir.Bilinear(op.times, op.centred, x.scale / y.scale, x.zero, ir.clamp(y, op.low, op.high))
    arith.multiplier(made.ratio / prod(made.parts))  # raises ValueError here rather than later
    return made


def _flat_last(node: ir.Node, tensors: Tensors) -> tuple[str, ...]:
    """The operands of a node of the int8 graph, a flat one last."""
    return tuple(sorted(node.inputs, key=lambda name: tensors[name].shape != tensors[node.output].shape))


def _add(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    y, inputs = _quant(tensors, node.output), _flat_last(node, tensors)
    signs = [-1 if node.op.minus and name == node.inputs[1] else 1 for name in inputs]
    (ratio_a, zero_a), (ratio_b, zero_b) = (
        (sign * quant.scale / y.scale, quant.zero)
        for sign, quant in zip(signs, (_quant(tensors, name) for name in inputs), strict=True)
    )
    combine = ir.Combine(*arith.factors(ratio_a, zero_a, ratio_b, zero_b), ir.clamp(y, node.op.low, node.op.high))
    return [replace(node, op=combine, inputs=inputs)]


def _product(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    inputs = _flat_last(node, tensors)
    a, b, y = (_quant(tensors, name) for name in (*inputs, node.output))
    factor = arith.multiplier(a.scale * b.scale / y.scale)
    return [replace(node, op=ir.Product(a.zero, b.zero, *factor, ir.clamp(y, node.op.low, node.op.high)), inputs=inputs)]


def _affine(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.Affine:
    x, y = _quant(tensors, node.inputs[0]), _quant(tensors, node.output)
    scale, shift = (np.asarray(graph.constants[name], np.float64) for name in (node.op.scale, node.op.shift))
    names = (f"{node.output}:factor", f"{node.output}:offset", f"{node.output}:shift")
    columns = arith.channel_factors(scale * x.scale / y.scale, x.zero, shift / y.scale)
    constants |= {name: column.astype(np.int32) for name, column in zip(names, columns, strict=True)}
    return ir.Affine(*names, ir.clamp(y, node.op.low, node.op.high))


def _chain(node: ir.Node, graph: ir.Graph, tensors: Tensors, constants: Constants) -> ir.Table:
    return ir.Table(table_of(node.op, _quant(tensors, node.inputs[0]), _quant(tensors, node.output)))


def _concat(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    """A Concat, behind a requantised copy of each input whose scale differs from the output's."""
    copies, inputs = _at_one_scale(node, tensors)
    return [*copies, ir.Node(node.name, ir.Concat(), inputs, node.output)]


def _chosen(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    """A Maximum or Minimum, behind copies as a Concat is. What a copy cuts off is beyond the output's range anyway."""
    copies, inputs = _at_one_scale(replace(node, inputs=_flat_last(node, tensors)), tensors)
    op = ir.Maximum() if isinstance(node.op, f.Maximum) else ir.Minimum()
    return [*copies, ir.Node(node.name, op, inputs, node.output)]


def _at_one_scale(node: ir.Node, tensors: Tensors) -> tuple[list[ir.Node], tuple[str, ...]]:
    """A node's inputs at the output's scale, and the requantised copies that this takes."""
    y = _quant(tensors, node.output)
    copies, inputs = [], []
    for number, name in enumerate(node.inputs):
        if tensors[name].quant != y:
            copied = f"{node.output}:copy{number}"
            tensors[copied] = ir.Tensor(tensors[name].shape, y)
            copies.append(ir.Node(f"{node.name}:copy{number}", _copy(_quant(tensors, name), y), (name,), copied))
            name = copied
        inputs.append(name)
    return copies, tuple(inputs)


def _join(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    """The greatest of the inputs, each copied to its place in a map that holds int8's least value everywhere else."""
    nodes, inputs = _at_one_scale(node, tensors)
    whole, at, joined, last = tensors[node.output], [0, 0], "", len(inputs) - 1
    for number, name in enumerate(inputs):
        placed = f"{node.output}:{number}"
        tensors[placed] = whole
        nodes.append(ir.Node(f"{node.name}:{number}", ir.Pixels((-at[0], -at[1]), (1, 1), -128), (name,), placed))
        at[node.op.axis - 2] += tensors[name].shape[node.op.axis - 1]
        if joined:
            name, output = (node.name, node.output) if number == last else (f"{node.name}:joined{number}", f"{placed}:joined")
            tensors[output] = whole
            nodes.append(ir.Node(name, ir.Maximum(), (joined, placed), output))
            placed = output
        joined = placed
    return nodes


def _moved(node: ir.Node, tensors: Tensors) -> tuple[list[ir.Node], str]:
    """The input of a node that keeps its input's scale, and the requantised copy that is needed if the output has another scale."""
    (x,), y = node.inputs, _quant(tensors, node.output)
    if tensors[x].quant == y:
        return [], x
    copied = f"{node.output}:copy"
    tensors[copied] = ir.Tensor(tensors[x].shape, y)
    return [ir.Node(f"{node.name}:copy", _copy(_quant(tensors, x), y), (x,), copied)], copied


def _channels(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    """Channels, and behind them a requantised copy if the output has a scale of its own."""
    (x,), y = node.inputs, node.output
    if tensors[x].quant == tensors[y].quant:
        return [ir.Node(node.name, ir.Channels(node.op.first), (x,), y)]
    chosen = f"{y}:chosen"
    tensors[chosen] = ir.Tensor(tensors[y].shape, tensors[x].quant)
    copy = ir.Node(f"{node.name}:copy", _copy(_quant(tensors, x), _quant(tensors, y)), (chosen,), y)
    return [ir.Node(node.name, ir.Channels(node.op.first), (x,), chosen), copy]


def _pixels(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    """Every even run of rows with every even run of columns; a Mosaic of them if there are several."""
    nodes, x = _moved(node, tensors)
    shape, quant = tensors[node.output].shape, tensors[node.output].quant
    pairs = list(product(even_runs(node.op.rows), even_runs(node.op.columns)))
    if len(pairs) == 1:
        ((down, right),) = pairs
        return [*nodes, ir.Node(node.name, ir.Pixels((down.first, right.first), (down.step, right.step)), (x,), node.output)]
    made = []
    for number, (down, right) in enumerate(pairs):
        output = f"{node.output}:{number}"
        tensors[output] = ir.Tensor((shape[0], down.count, right.count), quant)
        op = ir.Pixels((down.first, right.first), (down.step, right.step))
        made.append(ir.Node(f"{node.name}:{number}", op, (x,), output))
    places = tuple(((down.at, right.at), (down.apart, right.apart)) for down, right in pairs)
    return [*nodes, *made, ir.Node(node.name, ir.Mosaic(places), tuple(part.output for part in made), node.output)]


def _pad(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    """A copy that begins before the map, where it reads the value as the output's int8 has it."""
    nodes, x = _moved(node, tensors)
    y, (top, left, _, _) = _quant(tensors, node.output), node.op.widths
    outside = int(quantise(np.array(node.op.value), y.scale, y.zero, node.output))
    return [*nodes, ir.Node(node.name, ir.Pixels((-top, -left), (1, 1), outside), (x,), node.output)]


def _interleave(node: ir.Node, tensors: Tensors) -> list[ir.Node]:
    step = node.op.step
    places = tuple((divmod(number, step), (step, step)) for number in range(step * step))
    return [ir.Node(node.name, ir.Mosaic(places), node.inputs, node.output)]


_SEVERAL: dict[type, Callable[[ir.Node, Tensors], list[ir.Node]]] = {
    f.Add: _add,
    f.Product: _product,
    f.Concat: _concat,
    f.Maximum: _chosen,
    f.Minimum: _chosen,
    f.Join: _join,
    f.Pixels: _pixels,
    f.Pad: _pad,
    f.Channels: _channels,
    f.Interleave: _interleave,
}
_CONVERT: dict[type, Callable[[ir.Node, ir.Graph, Tensors, Constants], Any]] = {
    f.Conv: _conv,
    f.MaxPool: _max_pool,
    f.AveragePool: _average_pool,
    f.Bilinear: _bilinear,
    f.Affine: _affine,
    f.Clip: _clip,
    f.Requantise: _clip,
    f.Chain: _chain,
}
