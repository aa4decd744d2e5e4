"""Kernels of the vector engine: depthwise convolutions, pools, operations on two maps, affine layers and copies."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph import ir
from cnna.compiler.lower.array import conv, picked_channels
from cnna.compiler.lower.context import FULL, Lowering, blocked
from cnna.compiler.lower.kernels import Kernel, KernelParts, Range, Stream, VectorKernel, VectorPart, View
from cnna.compiler.lower.weights import behind_table, vector_stream
from cnna.compiler.lower.windows import taps_apart
from cnna.spec import arith
from cnna.spec.arith import pack_params
from cnna.spec.program.window import steps_in_row

IDENTITY = ir.Combine(2, 0, 0, 1, FULL)  # y = x, exactly


def depthwise(low: Lowering, node: ir.Node[ir.Depthwise], layer: int) -> list[Kernel]:
    """Convolves each channel with its own kernel. The array does it where the vector ring cannot hold one kernel."""
    op, graph, config = node.op, low.graph, low.config
    apart = taps_apart(op.window, low.images, low.size(node.output), config)
    words = op.window.kernel[0] * steps_in_row(op.window.kernel[1], apart)
    if words + config.vector_param_words > config.vector_ring_words:  # the vector engine cannot hold the kernel
        groups = low.channels(node.output)
        constants = (op.weights, op.bias, op.mult, op.shift)
        as_conv = ir.Conv(op.window, groups, *constants, op.out, table=op.table)
        return conv(low, ir.Node(node.name, as_conv, node.inputs, node.output), layer)
    bias, mult, shift = (blocked(graph.constants[name], config.ci) for name in (op.bias, op.mult, op.shift))
    weights = np.asarray(graph.constants[op.weights])
    lanes = blocked(weights.reshape(len(weights), -1), config.ci).transpose(0, 2, 1)  # [blocks, taps, ci]
    lanes = lanes.reshape(len(lanes), *op.window.kernel, config.ci).astype(np.int8)
    stream = vector_stream(pack_params(bias, mult, np.maximum(shift, 1)), lanes, config, apart)
    fields = low.common(node, layer, op.window, low.zero(node.inputs[0]), op.out, op.table)
    parts = _whole(low, node.output, stream, op.table, apart)
    return [VectorKernel.of(fields, op="depthwise", factor_b=0, uniform=False, parts=parts)]


def max_pool(low: Lowering, node: ir.Node[ir.MaxPool], layer: int) -> list[Kernel]:
    """A max pool; its padding is the least value."""
    fields = low.common(node, layer, node.op.window, -128, node.op.requant.out, node.op.requant.table)
    made = _uniform(low, fields, "max", node.op.requant, node.output)
    apart = taps_apart(node.op.window, low.images, low.size(node.output), low.config)
    return [replace(made, parts=tuple(replace(part, apart=apart) for part in made.parts))]


def combine(low: Lowering, node: ir.Node[ir.Combine], layer: int) -> list[Kernel]:
    """Adds two tensors, or brings one tensor to another scale."""
    fields, op = low.common(node, layer, ir.Window(), 0, node.op.out, node.op.table), node.op
    flat = ir.is_flat(node, low.graph.tensors)
    if flat:
        op = replace(op, factor_a=op.factor_b, factor_b=op.factor_a)
    return [replace(_uniform(low, fields, "elementwise", op, node.output), flat=flat)]


def product(low: Lowering, node: ir.Node[ir.Product], layer: int) -> list[Kernel]:
    """Multiplies two tensors."""
    op, flat = node.op, ir.is_flat(node, low.graph.tensors)
    first, second = (op.zero_b, op.zero_a) if flat else (op.zero_a, op.zero_b)
    fields = low.common(node, layer, ir.Window(), second, op.out, op.table)
    made = _uniform(low, fields, "product", ir.Combine(op.mult, 0, 0, op.shift, op.out, op.table), node.output)
    return [replace(made, flat=flat, zero=first)]


def table(low: Lowering, node: ir.Node[ir.Table], layer: int) -> list[Kernel]:
    """Looks up a whole map: a copy that leaves every value as it is, and the table behind it."""
    return combine(low, ir.Node(node.name, replace(IDENTITY, table=node.op), node.inputs, node.output), layer)


def maximum(low: Lowering, node: ir.Node[ir.Maximum | ir.Minimum], layer: int) -> list[Kernel]:
    """The maximum of two tensors: a max pool whose two taps lie in two maps. Or the minimum, which has an operation of its own."""
    op = "minimum" if isinstance(node.op, ir.Minimum) else "max"
    made = _uniform(low, low.common(node, layer, ir.Window(), 0, FULL), op, IDENTITY, node.output)
    return [replace(made, flat=ir.is_flat(node, low.graph.tensors))]


def affine(low: Lowering, node: ir.Node[ir.Affine], layer: int) -> list[Kernel]:
    """An affine layer: a factor and an offset for each channel."""
    op, constants = node.op, low.graph.constants
    factor, offset, shift = (blocked(constants[name], low.config.ci) for name in (op.factor, op.offset, op.shift))
    stream = vector_stream(pack_params(offset, factor, np.maximum(shift, 1)), None, low.config)
    fields = low.common(node, layer, ir.Window(), 0, op.out, op.table)
    parts = _whole(low, node.output, stream, op.table)
    return [VectorKernel.of(fields, op="elementwise", factor_b=0, uniform=False, parts=parts)]


def average_pool(low: Lowering, node: ir.Node[ir.AveragePool], layer: int) -> list[Kernel]:
    """An average pool: one part for each rectangle with equal divisors.

    Padding reads the zero point, so every window sums all its taps.
    """
    op, config = node.op, low.config
    size, out = (low.graph.tensors[name].shape[1:] for name in (node.inputs[0], node.output))
    divisors = ir.taps_inside(op.window, (size[0], size[1]), (out[0], out[1]), op.include_pad)
    parts = []
    for rows in _runs(divisors[:, 0]):  # each divisor is the product of a row count and a column count
        for columns in _runs(divisors[rows[0]]):
            mult, shift = arith.multiplier(op.ratio / int(divisors[rows[0], columns[0]]))
            offset = -op.zero_in * op.window.kernel[0] * op.window.kernel[1]
            stream = vector_stream(pack_params(np.full((1, config.ci), offset), mult, shift), None, config)
            apart = taps_apart(op.window, low.images, (rows[1] - rows[0], columns[1] - columns[0]), config)
            parts.append(VectorPart(rows, columns, stream, apart=apart))
    if op.table is not None:
        parts[0] = replace(parts[0], stream=behind_table(parts[0].stream, op.table.values, config.vector_word_bytes))
    fields = low.common(node, layer, op.window, op.zero_in, op.out, op.table)
    return [VectorKernel.of(fields, op="average", factor_b=0, uniform=True, parts=tuple(parts))]


def pixels(low: Lowering, node: ir.Node[ir.Pixels], layer: int) -> list[Kernel]:
    """An exact copy of some rows and columns; the padding around them has the value that lies outside."""
    (top, left), step = node.op.first, node.op.step
    fields = low.common(node, layer, ir.Window(stride=step, pads=(-top, -left, 0, 0)), node.op.outside, FULL)
    return [_uniform(low, fields, "elementwise", IDENTITY, node.output)]


def channels(low: Lowering, node: ir.Node[ir.Channels], layer: int) -> list[Kernel]:
    """Selects channels of a map. A view needs no kernel; blocks are copied; single channels are picked on the array."""
    x, y = (low.storage.views[name] for name in (node.inputs[0], node.output))
    first, rest = divmod(node.op.first, low.config.ci)
    there = replace(x, block=x.block + first, blocks=y.blocks)
    phase = any(isinstance(reader.op, ir.Mosaic) and node.output in reader.inputs for reader in low.graph.nodes)
    if rest or phase:  # all phases read one view
        return [picked_channels(low, node, layer, x, list(range(node.op.first, node.op.first + low.channels(node.output))))]
    if there == y:
        return []
    return [replace(copy(low, node.output, y, layer, node.name), source=there, tensor=node.output)]


def copy(low: Lowering, tensor: str, dest: View, layer: int, name: str) -> Kernel:
    """An exact copy of a tensor."""
    node = ir.Node(name, IDENTITY, (tensor,), tensor)
    fields = low.common(node, layer, ir.Window(), 0, FULL)
    return _uniform(low, replace(fields, dest=dest, tensor=None), "elementwise", IDENTITY, tensor)


def _uniform(low: Lowering, fields: KernelParts, op: str, how: ir.Combine, output: str) -> VectorKernel:
    """A kernel whose blocks share one set of `arith.combine` parameters."""
    params = pack_params(np.full((1, low.config.ci), how.offset), how.factor_a, how.shift)
    parts = _whole(low, output, vector_stream(params, None, low.config), how.table)
    return VectorKernel.of(fields, op=op, factor_b=how.factor_b, uniform=True, parts=parts)


def _whole(low: Lowering, output: str, stream: Stream, table: ir.Table | None, apart: int = 0) -> tuple[VectorPart, ...]:
    height, width = low.size(output)
    if table is not None:
        stream = behind_table(stream, table.values, low.config.vector_word_bytes)
    return (VectorPart((0, height), (0, width), stream, apart=apart),)


def _runs(counts: NDArray[np.int64]) -> list[Range]:
    """Ranges in which the count stays the same."""
    changes = np.flatnonzero(np.diff(counts)) + 1
    return list(pairwise([0, *changes.tolist(), len(counts)]))
