"""Turns the int8 graph into kernels: which engine runs each node, with which parameters, on which part of which map.

`OPERATORS` is the table of what runs where. Limits that do not depend on memory are checked here (ModelError).
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler import ir
from cnna.compiler.concat import Storage, blocks_of, store_tensors
from cnna.compiler.kernels import ConvKernel, ConvPart, Kernel, Lowered, Range, Stream, VectorKernel, VectorPart, View
from cnna.compiler.weights import conv_stream, pack_params, packing_overflows, vector_stream
from cnna.host.errors import ModelError
from cnna.hw.config import Config
from cnna.hw.regmap import command_fields
from cnna.sim import arith

FULL = ir.Clamp(0)  # the output stage that changes nothing
IDENTITY = ir.Combine(2, 0, 0, 1, FULL)  # y = x, exactly
UNIT_SHIFT = arith.MULT_BITS - 1  # requantise(acc, 1 << UNIT_SHIFT, UNIT_SHIFT) is acc


class _Lowering:
    """What every node's lowering reads: the graph, the configuration, and where tensors lie."""

    def __init__(self, graph: ir.Graph, config: Config, batch: int) -> None:
        self.graph, self.config, self.images = graph, config, (0, batch)
        self.storage: Storage = store_tensors(graph, config.ci)

    def channels(self, tensor: str) -> int:
        return self.graph.tensors[tensor].shape[0]

    def zero(self, tensor: str) -> int:
        quant = self.graph.tensors[tensor].quant
        if quant is None:
            raise ModelError(f"{self.graph.name}: tensor '{tensor}' is not quantised; run `cnna quantize` first")
        return quant.zero

    def common(self, node: ir.Node, layer: int, window: ir.Window, pad: int, out: ir.Clamp) -> dict[str, Any]:
        """The fields that every kernel of a node has."""
        views = self.storage.views
        second = views[node.inputs[1]] if len(node.inputs) > 1 else None
        return {
            "name": node.name,
            "layer": layer,
            "tensor": node.output,
            "tensor_block": 0,
            "images": self.images,
            "source": views[node.inputs[0]],
            "second": second,
            "dest": views[node.output],
            "window": window,
            "pad": pad,
            "out": out,
        }


def lower(graph: ir.Graph, config: Config, batch: int = 1) -> Lowered:
    """The kernels of a graph, in its order, each for all images of a batch.

    ModelError: a node beyond the accelerator's limits, with node, limit and value.
    """
    lowering = _Lowering(graph, config, batch)
    kernels: list[Kernel] = []
    for layer, node in enumerate(graph.nodes):
        if type(node.op) not in OPERATORS:
            raise ModelError(f"{graph.name}: node '{node.name}' ({type(node.op).__name__}) does not run on the accelerator")
        made = OPERATORS[type(node.op)](lowering, node, layer)
        for kernel in made:
            _check_limits(graph, kernel, lowering)
        kernels += made
    maps = {name: replace(map_, images=lowering.images) for name, map_ in lowering.storage.maps.items()}
    views, outputs = lowering.storage.views, []
    for name in graph.outputs:  # an input that is an output too is copied: ports never share a map
        output = name
        if name in graph.inputs:
            output = f"{name}:copy"
            if output not in maps:
                maps[output] = replace(maps[name], name=output)
                kernels.append(_copy(lowering, name, View(output, 0, maps[name].blocks), len(graph.nodes) - 1, name))
        outputs.append(output)
    return Lowered(tuple(kernels), maps, views, graph.inputs, tuple(outputs))


def macs_of(graph: ir.Graph, node: ir.Node) -> int:
    """Multiply-accumulates of one image: convolutions and fully connected layers, padding included; 0 for the rest."""
    if not isinstance(node.op, ir.Conv | ir.Depthwise):
        return 0
    weights = graph.constants[node.op.weights]
    _, height, width = graph.tensors[node.output].shape
    return int(weights.size) * height * width


# --- the array ---


def _conv(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    op, graph = node.op, low.graph
    constants = [np.asarray(graph.constants[name]) for name in (op.weights, op.bias, op.mult, op.shift)]
    parts = _conv_parts(low, node.name, op.groups, *constants)
    out = FULL if op.residual is None else op.residual.out
    fields = low.common(node, layer, op.window, low.zero(node.inputs[0]), out)
    return [ConvKernel(**fields, mid=op.out, add=op.residual, parts=parts)]


def _depthwise(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    op, graph, config = node.op, low.graph, low.config
    taps = op.window.kernel[0] * op.window.kernel[1]
    if taps + config.ci // 2 > config.vector_ring_words:  # the vector engine cannot hold the kernel
        groups = low.channels(node.output)
        return _conv(low, replace(node, op=ir.Conv(op.window, groups, op.weights, op.bias, op.mult, op.shift, op.out)), layer)
    bias, mult, shift = (_blocked(graph.constants[name], config.ci) for name in (op.bias, op.mult, op.shift))
    weights = np.asarray(graph.constants[op.weights])
    lanes = _blocked(weights.reshape(len(weights), -1), config.ci).transpose(0, 2, 1)  # [blocks, taps, ci]
    stream = vector_stream(pack_params(bias, mult, np.maximum(shift, 1)), lanes.astype(np.int8), config)
    fields = low.common(node, layer, op.window, low.zero(node.inputs[0]), op.out)
    return [VectorKernel(**fields, op="depthwise", factor_b=0, uniform=False, parts=_whole(low, node.output, stream))]


def _conv_parts(
    low: _Lowering,
    name: str,
    groups: int,
    weights: NDArray[np.int8],
    bias: NDArray[np.int32],
    mult: NDArray[np.int32],
    shift: NDArray[np.int32],
) -> tuple[ConvPart, ...]:
    """Chunks that need the same input blocks, together; of a grouped convolution only the blocks of a chunk's groups.

    Channels of the last chunk beyond the last have a factor of 0, which makes them the output's zero point.
    """
    config, cout = low.config, len(weights)
    channels_in, channels_out = weights.shape[1], cout // groups
    ranges: list[Range] = []
    for first in range(0, cout, config.co):
        last = min(first + config.co, cout) - 1
        group_low, group_high = first // channels_out, last // channels_out + 1
        ranges.append((group_low * channels_in // config.ci, -(-group_high * channels_in // config.ci)))
    params = _blocked(pack_params(bias, mult, shift), config.co, fill=int(pack_params(0, 0, 1)))
    parts, first = [], 0
    while first < len(ranges):
        count = next((n for n in range(1, len(ranges) - first) if ranges[first + n] != ranges[first]), len(ranges) - first)
        span, chunks = ranges[first], range(first, first + count)
        spread = np.stack([_chunk_weights(weights, groups, chunk, span, config) for chunk in chunks])
        if packing_overflows(spread, config.cascade).any():
            raise ModelError(
                f"{low.graph.name}: node '{name}': {config.cascade} weights of -128 in a row of input channels overflow the packed "
                f"multiplier if their inputs are all -128 too; quantise weights to -127..127"
            )
        stream = conv_stream(params[first : first + count], spread, config)
        parts.append(ConvPart(first, count, span[0], span[1] - span[0], stream))
        first += count
    return tuple(parts)


def _chunk_weights(weights: NDArray[np.int8], groups: int, chunk: int, span: Range, config: Config) -> NDArray[np.int8]:
    """Weights of a chunk over input blocks `span`: int8 [blocks, kh, kw, co, ci], zero where groups do not meet."""
    cout, channels_in, *kernel = weights.shape
    first, last = chunk * config.co, min((chunk + 1) * config.co, cout)
    spread = np.zeros((config.co, (span[1] - span[0]) * config.ci, *kernel), np.int8)
    per_group = cout // groups
    for group in range(first // per_group, -(-last // per_group)):
        low, high = max(first, group * per_group), min(last, (group + 1) * per_group)
        start = group * channels_in - span[0] * config.ci
        spread[low - first : high - first, start : start + channels_in] = weights[low:high]
    return spread.reshape(config.co, -1, config.ci, *kernel).transpose(1, 3, 4, 0, 2)


def _select(low: _Lowering, node: ir.Node, layer: int) -> Kernel:
    """A concatenation off block boundaries: its stacked inputs through a 1x1 convolution that picks channels, exactly."""
    config, stack = low.config, low.storage.stacks[node.output]
    cout, zero = low.channels(node.output), low.zero(node.output)
    start = 0
    picked: list[int] = []  # channel in the stack of each output channel
    for name in node.inputs:
        picked += range(start, start + low.channels(name))
        start += blocks_of(low.graph, name, config.ci) * config.ci
    parts = []
    for chunk in range(-(-cout // config.co)):
        wanted = picked[chunk * config.co : (chunk + 1) * config.co]
        span = (wanted[0] // config.ci, wanted[-1] // config.ci + 1)
        spread = np.zeros((1, span[1] - span[0], 1, 1, config.co, config.ci), np.int8)
        for channel, source in enumerate(wanted):
            spread[0, source // config.ci - span[0], 0, 0, channel, source % config.ci] = 1
        offset = np.where(np.arange(config.co) < len(wanted), 0, zero)  # unused channels hold the zero point
        params = pack_params(offset, 1 << UNIT_SHIFT, UNIT_SHIFT)[None]
        parts.append(ConvPart(chunk, 1, span[0], span[1] - span[0], conv_stream(params, spread, config)))
    fields = low.common(replace(node, inputs=node.inputs[:1]), layer, ir.Window(), zero, FULL) | {"source": stack}
    return ConvKernel(**fields, mid=FULL, add=None, parts=tuple(parts))


# --- the vector engine ---


def _max_pool(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    fields = low.common(node, layer, node.op.window, -128, node.op.requant.out)
    return [_uniform(low, fields, "max", node.op.requant, node.output)]


def _combine(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    return [_uniform(low, low.common(node, layer, ir.Window(), 0, node.op.out), "elementwise", node.op, node.output)]


def _affine(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    op, constants = node.op, low.graph.constants
    factor, offset, shift = (_blocked(constants[name], low.config.ci) for name in (op.factor, op.offset, op.shift))
    stream = vector_stream(pack_params(offset, factor, np.maximum(shift, 1)), None, low.config)
    fields = low.common(node, layer, ir.Window(), 0, op.out)
    return [VectorKernel(**fields, op="elementwise", factor_b=0, uniform=False, parts=_whole(low, node.output, stream))]


def _average_pool(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    """One part for each rectangle of equal divisors. Padding reads the zero point, so every window sums all its taps."""
    op, config = node.op, low.config
    size, out = (low.graph.tensors[name].shape[1:] for name in (node.inputs[0], node.output))
    divisors = ir.taps_inside(op.window, (size[0], size[1]), (out[0], out[1]), op.include_pad)
    parts = []
    for rows in _runs(divisors[:, 0]):  # divisors are a product of a row's and a column's count
        for columns in _runs(divisors[rows[0]]):
            mult, shift = arith.multiplier(op.ratio / int(divisors[rows[0], columns[0]]))
            offset = -op.zero_in * op.window.kernel[0] * op.window.kernel[1]
            stream = vector_stream(pack_params(np.full((1, config.ci), offset), mult, shift), None, config)
            parts.append(VectorPart(rows, columns, stream))
    fields = low.common(node, layer, op.window, op.zero_in, op.out)
    return [VectorKernel(**fields, op="average", factor_b=0, uniform=True, parts=tuple(parts))]


def _concat(low: _Lowering, node: ir.Node, layer: int) -> list[Kernel]:
    """Copies of what could not be written in place; then, off block boundaries, the selection."""
    stack = low.storage.stacks.get(node.output)
    todo = low.storage.copies.get(node.output, ())
    whole = low.storage.views[node.output]
    kernels = []
    for tensor, view in todo:
        copy = _copy(low, tensor, view, layer, node.name)
        if stack is None:
            copy = replace(copy, tensor=node.output, tensor_block=view.block - whole.block)
        kernels.append(copy)
    return kernels if stack is None else [*kernels, _select(low, node, layer)]


def _copy(low: _Lowering, tensor: str, dest: View, layer: int, name: str) -> Kernel:
    """An exact copy of a tensor."""
    node = ir.Node(name, IDENTITY, (tensor,), tensor)
    fields = low.common(node, layer, ir.Window(), 0, FULL) | {"dest": dest, "tensor": None}
    return _uniform(low, fields, "elementwise", IDENTITY, tensor)


def _uniform(low: _Lowering, fields: dict[str, Any], op: str, combine: ir.Combine, output: str) -> VectorKernel:
    """A kernel whose blocks share one set of `arith.combine` parameters."""
    params = pack_params(np.full((1, low.config.ci), combine.offset), combine.factor_a, combine.shift)
    parts = _whole(low, output, vector_stream(params, None, low.config))
    return VectorKernel(**fields, op=op, factor_b=combine.factor_b, uniform=True, parts=parts)


def _whole(low: _Lowering, output: str, stream: Stream) -> tuple[VectorPart, ...]:
    _, height, width = low.graph.tensors[output].shape
    return (VectorPart((0, height), (0, width), stream),)


def _runs(counts: NDArray[np.int64]) -> list[Range]:
    """Ranges over which a count does not change."""
    changes = np.flatnonzero(np.diff(counts)) + 1
    return list(pairwise([0, *changes.tolist(), len(counts)]))


def _blocked(values: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """[channels, ...] as [blocks, size, ...], the last block filled up."""
    values = np.asarray(values)
    padded = np.full((-(-len(values) // size) * size, *values.shape[1:]), fill, values.dtype)
    padded[: len(values)] = values
    return padded.reshape(-1, size, *values.shape[1:])


def _check_limits(graph: ir.Graph, kernel: Kernel, low: _Lowering) -> None:
    """ModelError: a window, map or channel count that the registers cannot express."""
    engine = "conv" if isinstance(kernel, ConvKernel) else "vector"
    fields = command_fields(engine)
    source, dest = low.storage.maps[kernel.source.map], kernel.dest
    window = kernel.window
    values = {
        "kernel_height": window.kernel[0],
        "kernel_width": window.kernel[1],
        "stride_y": window.stride[0],
        "stride_x": window.stride[1],
        "stride_dilation_y": window.dilation[0],
        "stride_dilation_x": window.dilation[1],
        "first_y": -window.pads[0],
        "first_x": -window.pads[1],
        "in_height": source.height,
        "in_width": source.width,
        "blocks": max((part.blocks for part in kernel.parts), default=1) if isinstance(kernel, ConvKernel) else dest.blocks,
    }
    if isinstance(kernel, ConvKernel):
        values["chunks"] = max(part.chunks for part in kernel.parts)
    for name, value in values.items():
        least, most = fields[name].limits
        if not least <= value <= most:
            raise ModelError(
                f"{graph.name}: node '{kernel.name}': {engine} {name.replace('_', ' ')} {value} is not within {least}..{most}"
            )


OPERATORS: dict[type, Callable[[_Lowering, ir.Node, int], list[Kernel]]] = {
    ir.Conv: _conv,
    ir.Depthwise: _depthwise,
    ir.MaxPool: _max_pool,
    ir.AveragePool: _average_pool,
    ir.Combine: _combine,
    ir.Affine: _affine,
    ir.Concat: _concat,
}
