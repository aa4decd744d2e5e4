"""Kernels of the array: convolutions, and the selection of channels that lie off block boundaries."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph import ir
from cnna.compiler.lower.concat import blocks_of
from cnna.compiler.lower.context import FULL, UNIT_SHIFT, Lowering, blocked
from cnna.compiler.lower.kernels import ConvKernel, ConvPart, Kernel, Range, View
from cnna.compiler.lower.weights import behind_table, coded_stream, conv_stream, packing_overflows
from cnna.spec.arith import pack_params
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.errors import ModelError

LOWEST = -128  # without it, no weights overflow the packed multiplier


def conv(low: Lowering, node: ir.Node[ir.Conv], layer: int) -> list[Kernel]:
    """A convolution or fully connected layer, with what it adds."""
    op, graph = node.op, low.graph
    constants = [np.asarray(graph.constants[name]) for name in (op.weights, op.bias, op.mult, op.shift)]
    parts = _conv_parts(low, node, op.groups, *constants)
    height, width = low.size(node.output)
    if low.config.codebook and few_groups(low.config, (low.images[1] - low.images[0]) * height * width):
        coded = [coded_stream(part.stream, low.config) for part in parts]
        parts = tuple(replace(part, stream=own or part.stream) for part, own in zip(parts, coded, strict=True))
    if op.table is not None:
        first = behind_table(parts[0].stream, op.table.values, low.config.stripe_bytes)
        parts = (replace(parts[0], stream=first), *parts[1:])
    out = FULL if op.residual is None else op.residual.out
    fields = low.common(node, layer, op.window, low.zero(node.inputs[0]), out, op.table)
    return [ConvKernel.of(fields, mid=op.out, add=op.residual, parts=parts)]


def few_groups(config: Config, pixels: int) -> bool:
    """Whether the array has done a chunk's groups of pixels before its weights could come plainly, at a beat a clock on each port.

    pixels: of the output, in all images. Otherwise the array hides the weights, and each chunk as a command of its own would only
    cost.
    """
    return pixels <= config.pix * (config.stripe_bytes // BEAT_BYTES)


def _conv_parts(
    low: Lowering,
    node: ir.Node,
    groups: int,
    weights: NDArray[np.int8],
    bias: NDArray[np.int32],
    mult: NDArray[np.int32],
    shift: NDArray[np.int32],
) -> tuple[ConvPart, ...]:
    """Groups the chunks that need the same input blocks into parts.

    A chunk of a grouped convolution needs only the blocks of its own groups. In the last chunk, channels beyond the last have a
    factor of 0, so that they come out as the output's zero point.
    """
    config, cout, first_block = low.config, len(weights), low.storage.views[node.inputs[0]].block
    channels_in, channels_out = weights.shape[1], cout // groups
    ranges: list[Range] = []
    for first in range(0, cout, config.co):
        last = min(first + config.co, cout) - 1
        group_low, group_high = first // channels_out, last // channels_out + 1
        needed = group_low * channels_in // config.ci, -(-group_high * channels_in // config.ci)
        ranges.append(_whole_sets(needed, first_block, config))
    params = blocked(pack_params(bias, mult, shift), config.co, fill=int(pack_params(0, 0, 1)))
    lowest = weights.min() == LOWEST  # few networks have such a weight
    parts, first = [], 0
    while first < len(ranges):
        count = next((n for n in range(1, len(ranges) - first) if ranges[first + n] != ranges[first]), len(ranges) - first)
        span, chunks = ranges[first], range(first, first + count)
        spread = partial(_spread, weights, groups, chunks, span, config)
        if lowest and packing_overflows(spread(), config.cascade, config.depth).any():
            wide = config.depth == 1
            why = "all -128 too" if wide else "-128, and so does one beside a negative weight of the channel before"
            what = f"{config.cascade} weights of -128 at consecutive input channels overflow the packed multiplier if their inputs"
            raise ModelError(f"{low.graph.name}: node '{node.name}': {what} are {why}; quantise weights to -127..127")
        size = (span[1] - span[0]) * config.ci * config.co * weights.shape[2] * weights.shape[3]
        stream = conv_stream(params[first : first + count], size, spread, config)
        parts.append(ConvPart(first, count, span[0], span[1] - span[0], stream))
        first += count
    return tuple(parts)


def _whole_sets(blocks: Range, first_block: int, config: Config) -> Range:
    """The range of blocks, widened to whole sets: `first_block` is the source's first block in its map."""
    low, high = (first_block + edge for edge in blocks)
    return low - low % config.depth - first_block, high + -high % config.depth - first_block


def _spread(weights: NDArray[np.int8], groups: int, chunks: range, span: Range, config: Config) -> NDArray[np.int8]:
    """Weights of chunks, as `conv_stream` takes them."""
    return np.stack([_chunk_weights(weights, groups, chunk, span, config) for chunk in chunks])


def _chunk_weights(weights: NDArray[np.int8], groups: int, chunk: int, span: Range, config: Config) -> NDArray[np.int8]:
    """Weights of a chunk over the input blocks `span`: int8 [blocks, kh, kw, co, ci], zero between channels of different groups."""
    cout, channels_in, *kernel = weights.shape
    first, last = chunk * config.co, min((chunk + 1) * config.co, cout)
    spread = np.zeros((config.co, (span[1] - span[0]) * config.ci, *kernel), np.int8)
    per_group = cout // groups
    for group in range(first // per_group, -(-last // per_group)):
        low, high = max(first, group * per_group), min(last, (group + 1) * per_group)
        start = group * channels_in - span[0] * config.ci
        spread[low - first : high - first, start : start + channels_in] = weights[low:high]
    return spread.reshape(config.co, -1, config.ci, *kernel).transpose(1, 3, 4, 0, 2)


def select(low: Lowering, node: ir.Node[ir.Concat], layer: int) -> Kernel:
    """A concatenation off block boundaries: a 1x1 convolution picks the channels from its stacked inputs, exactly."""
    start = 0
    picked: list[int] = []  # for each output channel, its channel in the stack
    for name in node.inputs:
        picked += range(start, start + low.channels(name))
        start += blocks_of(low.graph, name, low.config.ci) * low.config.ci
    return picked_channels(low, node, layer, low.storage.stacks[node.output], picked)


def picked_channels(low: Lowering, node: ir.Node, layer: int, source: View, picked: list[int]) -> Kernel:
    """A 1x1 convolution that picks channels of `source` exactly; `picked` is in rising order."""
    config, cout, zero = low.config, low.channels(node.output), low.zero(node.output)
    parts = []
    for chunk in range(-(-cout // config.co)):
        wanted = picked[chunk * config.co : (chunk + 1) * config.co]
        span = _whole_sets((wanted[0] // config.ci, wanted[-1] // config.ci + 1), source.block, config)
        spread = np.zeros((1, span[1] - span[0], 1, 1, config.co, config.ci), np.int8)
        for channel, place in enumerate(wanted):
            spread[0, place // config.ci - span[0], 0, 0, channel, place % config.ci] = 1
        offset = np.where(np.arange(config.co) < len(wanted), 0, zero)  # unused channels hold the zero point
        params = pack_params(offset, 1 << UNIT_SHIFT, UNIT_SHIFT)[None]
        stream = conv_stream(params, spread.size, partial(np.asarray, spread), config)
        parts.append(ConvPart(chunk, 1, span[0], span[1] - span[0], stream))
    fields = replace(low.common(replace(node, inputs=node.inputs[:1]), layer, ir.Window(), zero, FULL), source=source)
    return ConvKernel.of(fields, mid=FULL, add=None, parts=tuple(parts))
