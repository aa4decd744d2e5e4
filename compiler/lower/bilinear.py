"""The kernel of a bilinear resize: depthwise convolutions whose outputs lie between each other.

Every times-th row of the output lies at the same distance from the rows of the input, so it has the same one or two taps, with
whole weights. Rows before the first row of the input, or behind the last, repeat that row: they are commands with one tap, which
take no step from row to row. Columns are alike. Each run of rows with each run of columns is a phase of the kernel.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from cnna.compiler.graph import ir
from cnna.compiler.lower.context import Lowering
from cnna.compiler.lower.kernels import Kernel, Phase, VectorKernel, VectorPart
from cnna.compiler.lower.weights import behind_table, uniform_stream
from cnna.compiler.lower.windows import taps_apart
from cnna.spec import arith
from cnna.spec.arith import pack_params


@dataclass(frozen=True)
class Run:
    """`count` output rows from row `at` on, `apart` from each other. The first tap of number n reads input row first + n * step."""

    at: int
    apart: int
    count: int
    first: int
    step: int
    weights: tuple[int, ...]


def runs(size: int, times: int, parts: int, centred: bool) -> list[Run]:
    """The runs of an axis of `size` pixels, in the order of their first outputs. The weights of each add up to `parts`."""
    count = size * times
    if size == 1:
        return [Run(0, 1, count, 0, 0, (parts,))]
    places = [2 * n + 1 - times if centred and times > 1 else n for n in range(count)]
    inside = [n for n, place in enumerate(places) if 0 <= place <= (size - 1) * parts]
    found = []
    for at in inside[:times]:
        first, weight = divmod(places[at], parts)
        taps = (parts - weight, weight) if weight else (parts,)
        found.append(Run(at, times, len(range(at, inside[-1] + 1, times)), first, 1, taps))
    before, behind = inside[0], count - 1 - inside[-1]
    edges = [Run(0, 1, before, 0, 0, (parts,)), Run(count - behind, 1, behind, size - 1, 0, (parts,))]
    return sorted((*found, *(edge for edge in edges if edge.count)), key=lambda run: run.at)


def bilinear(low: Lowering, node: ir.Node[ir.Bilinear], layer: int) -> list[Kernel]:
    """One kernel, whose commands share their parameters. The table comes with the first phase, with which every tiling begins."""
    op, (_, *size) = node.op, low.graph.tensors[node.inputs[0]].shape
    mult, shift = arith.multiplier(op.ratio / prod(op.parts))
    params = pack_params(np.full((1, low.config.ci), -op.zero_in * prod(op.parts)), mult, shift)
    fields = low.common(node, layer, ir.Window(), op.zero_in, op.out, op.table)
    parts: list[VectorPart] = []
    axes = [runs(*axis, op.centred) for axis in zip(size, op.times, op.parts, strict=True)]
    for down, right in product(*axes):
        taps = np.outer(down.weights, right.weights).astype(np.int8)
        kernel, stride = (len(down.weights), len(right.weights)), (down.step, right.step)
        window = ir.Window(kernel, stride, pads=(-down.first, -right.first, 0, 0))
        apart = taps_apart(window, low.images, (down.count, right.count), low.config)
        stream = uniform_stream(params, taps, fields.dest.blocks, low.config, apart)
        if op.table is not None and not parts:
            stream = behind_table(stream, op.table.values, low.config.vector_word_bytes)
        places = (down.at, right.at), (down.apart, right.apart), (down.count, right.count)
        phase = Phase(node.name, layer, node.output, window, *places)
        parts.append(VectorPart((0, down.count), (0, right.count), stream, phase, apart))
    return [VectorKernel.of(fields, op="depthwise", factor_b=0, uniform=True, parts=tuple(parts))]
