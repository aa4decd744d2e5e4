"""The integer reference: computes the int8 graph layer by layer, in numpy. `Reference` runs an artifact that way.

It is the first of the three executions, and shares nothing with tiling, scheduling or the register program. Sums run on the BLAS
in floating point wherever they provably fit its mantissa, so they are exact integers all the same.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.frontend.onnx_import import read
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.frontend.source_model import SourceModel
from cnna.compiler.graph import ir
from cnna.spec import arith
from cnna.spec.artifact import Artifact, ProgramPiece
from cnna.spec.errors import ArtifactError, DataError, ModelError
from cnna.spec.manifest import ACCELERATOR, Manifest, TensorEntry
from cnna.spec.samples import pack

Int8 = NDArray[np.int8]
COLUMN_BYTES = 64 << 20  # unfolded windows that are held at a time


def run(graph: ir.Graph, inputs: Mapping[str, Int8]) -> dict[str, Int8]:
    """Every activation of `graph`, inputs included, as int8 [N, C, H, W].

    `inputs` maps each graph input to int8 [N, C, H, W]. DataError: an input is missing or has another shape or type.
    """
    values = {name: _checked(graph, name, inputs) for name in graph.inputs}
    if len({len(value) for value in values.values()}) > 1:
        raise DataError(f"{graph.name}: the inputs hold different numbers of images")
    for node in graph.nodes:
        values[node.output] = _EXECUTE[type(node.op)](node.op, [values[name] for name in node.inputs], graph, node.output)
    return values


def _checked(graph: ir.Graph, name: str, inputs: Mapping[str, Int8]) -> Int8:
    if name not in inputs:
        raise DataError(f"{graph.name}: input '{name}' is missing")
    value, shape = np.asarray(inputs[name]), graph.tensors[name].shape
    if value.dtype != np.int8 or value.ndim != 4 or value.shape[1:] != shape:
        raise DataError(
            f"{graph.name}: input '{name}' must be int8 [N, {', '.join(map(str, shape))}], not {value.dtype} {value.shape}"
        )
    return value


def _padded(x: NDArray[Any], window: ir.Window, out: tuple[int, int], fill: int) -> NDArray[Any]:
    """x with `fill` around it, as far as the windows of the `out` pixels reach (they alone say how far, as in the walker)."""
    widths = [(0, 0), (0, 0)]
    for axis in (0, 1):
        reach = (out[axis] - 1) * window.stride[axis] + (window.kernel[axis] - 1) * window.dilation[axis] + 1
        widths.append((window.pads[axis], max(0, reach - window.pads[axis] - x.shape[2 + axis])))
    if not any(before or after for before, after in widths):
        return x
    return np.pad(x, widths, constant_values=fill)


def _taps(x: NDArray[Any], window: ir.Window, out: tuple[int, int]) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yields (ky, kx, view), where the view [N, C, *out] of the padded x holds what that tap reads."""
    (down, right), (dilation_y, dilation_x) = window.stride, window.dilation
    for ky in range(window.kernel[0]):
        for kx in range(window.kernel[1]):
            y, x0 = ky * dilation_y, kx * dilation_x
            yield ky, kx, x[:, :, y : y + (out[0] - 1) * down + 1 : down, x0 : x0 + (out[1] - 1) * right + 1 : right]


def _size(graph: ir.Graph, output: str) -> tuple[int, int]:
    shape = graph.tensors[output].shape
    return shape[1], shape[2]


def accumulate(x: Int8, weights: Int8, window: ir.Window, groups: int, out: tuple[int, int], fill: int) -> NDArray[np.int64]:
    """The sum of x * weights for every output pixel: int64 [N, cout, *out].

    x is [N, cin, H, W], and `fill` outside. weights as in `ir.Conv`.
    """
    cout, per_group, taps = weights.shape[0], weights.shape[1], weights.shape[2] * weights.shape[3]
    bound = 128 * int(np.abs(weights.astype(np.int64)).reshape(cout, -1).sum(axis=1).max(initial=0))
    # every partial sum is an integer below 2^24, or 2^53
    kind: type[np.floating[Any]] = np.float32 if bound < 1 << 24 else np.float64
    matrix = weights.reshape(groups, cout // groups, -1).astype(kind)
    padded = _padded(x, window, out, fill)
    pixels = out[0] * out[1]
    images = max(1, COLUMN_BYTES // (np.dtype(kind).itemsize * groups * per_group * taps * pixels))
    sums = np.empty((len(x), cout, *out), np.int64)
    for first in range(0, len(x), images):
        part = padded[first : first + images]
        columns = np.empty((len(part), groups, per_group, taps, *out), kind)
        for ky, kx, view in _taps(part, window, out):
            columns[:, :, :, ky * window.kernel[1] + kx] = view.reshape(len(part), groups, per_group, *out)
        product = matrix @ columns.reshape(len(part), groups, per_group * taps, pixels)
        sums[first : first + images] = product.reshape(len(part), cout, *out)
    return sums


def _per_channel(constant: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(constant, np.int64)[:, None, None]


def _zero(graph: ir.Graph, tensor: str) -> int:
    quant = graph.tensors[tensor].quant
    assert quant is not None, f"'{tensor}' has no quantisation"
    return quant.zero


def _looked_up(table: ir.Table | None, x: Int8) -> Int8:
    return x if table is None else np.frombuffer(table.values, np.int8)[x.view(np.uint8)]


def _table(op: ir.Table, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    return _looked_up(op, x[0])


def _requantised(op: "ir.Conv | ir.Depthwise", sums: NDArray[np.int64], graph: ir.Graph) -> Int8:
    acc = sums + _per_channel(graph.constants[op.bias])
    mult, shift = (_per_channel(graph.constants[name]) for name in (op.mult, op.shift))
    return _looked_up(op.table, arith.requantise(acc, mult, shift, op.out.zero, op.out.low, op.out.high))


def _conv(op: ir.Conv, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    node = graph.producer(output)
    assert node is not None
    out, fill = _size(graph, output), _zero(graph, node.inputs[0])
    mid = _requantised(op, accumulate(x[0], graph.constants[op.weights], op.window, op.groups, out, fill), graph)
    return mid if op.residual is None else _combine(op.residual, [mid, *x[1:]], graph, output)


def _depthwise(op: ir.Depthwise, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    node = graph.producer(output)
    assert node is not None
    out, weights = _size(graph, output), graph.constants[op.weights].astype(np.int32)
    padded = _padded(x[0], op.window, out, _zero(graph, node.inputs[0]))
    sums = np.zeros((*x[0].shape[:2], *out), np.int32)  # at most 32 * 32 taps of 2^14
    for ky, kx, view in _taps(padded, op.window, out):
        sums += view * weights[:, 0, ky, kx, None, None]
    return _requantised(op, sums.astype(np.int64), graph)


def _max_pool(op: ir.MaxPool, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    out = _size(graph, output)
    padded = _padded(x[0], op.window, out, -128)
    greatest = np.full((*x[0].shape[:2], *out), -128, np.int8)
    for _, _, view in _taps(padded, op.window, out):
        np.maximum(greatest, view, out=greatest)
    return _combine(op.requant, [greatest], graph, output)


def _average_pool(op: ir.AveragePool, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    out = _size(graph, output)
    padded = _padded(x[0].astype(np.int32) - op.zero_in, op.window, out, 0)
    sums = np.zeros((*x[0].shape[:2], *out), np.int64)
    for _, _, view in _taps(padded, op.window, out):
        sums += view
    divisors = ir.taps_inside(op.window, (x[0].shape[2], x[0].shape[3]), out, op.include_pad)
    mult, shift = np.empty(out, np.int64), np.empty(out, np.int64)
    for divisor in np.unique(divisors):
        mult[divisors == divisor], shift[divisors == divisor] = arith.multiplier(op.ratio / int(divisor))
    return _looked_up(op.table, arith.requantise(sums, mult, shift, op.out.zero, op.out.low, op.out.high))


def _bilinear(op: ir.Bilinear, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    sums = x[0].astype(np.int32) - op.zero_in  # the weights of a pixel add up to 64 at most
    for axis, (times, parts) in enumerate(zip(op.times, op.parts, strict=True), 2):
        size = sums.shape[axis]
        place = np.arange(size * times, dtype=np.int32)  # in steps, `parts` of which lie between two pixels
        place = 2 * place + 1 - times if op.centred and times > 1 else place
        place = place.clip(0, (size - 1) * parts)
        before, weight = place // parts, np.expand_dims(place % parts, tuple(range(1, 4 - axis)))
        behind = np.minimum(before + 1, size - 1)
        sums = sums.take(before, axis) * (parts - weight) + sums.take(behind, axis) * weight
    mult, shift = arith.multiplier(op.ratio / math.prod(op.parts))
    return _looked_up(op.table, arith.requantise(sums.astype(np.int64), mult, shift, op.out.zero, op.out.low, op.out.high))


def _combine(op: ir.Combine, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    b = x[1] if len(x) > 1 else np.int8(0)
    y = arith.combine(x[0], op.factor_a, b, op.factor_b, op.offset, op.shift, op.out.zero, op.out.low, op.out.high)
    return _looked_up(op.table, y)


def _product(op: ir.Product, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    a, b = (value.astype(np.int64) - zero for value, zero in zip(x, (op.zero_a, op.zero_b), strict=True))
    return _looked_up(op.table, arith.requantise(a * b, op.mult, op.shift, op.out.zero, op.out.low, op.out.high))


def _affine(op: ir.Affine, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    factor, offset, shift = (_per_channel(graph.constants[name]) for name in (op.factor, op.offset, op.shift))
    return _looked_up(op.table, arith.combine(x[0], factor, 0, 0, offset, shift, op.out.zero, op.out.low, op.out.high))


def _concat(op: ir.Concat, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    return np.concatenate(x, axis=1)


def _maximum(op: ir.Maximum, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    return np.maximum(x[0], x[1])


def _minimum(op: ir.Minimum, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    return np.minimum(x[0], x[1])


def _pixels(op: ir.Pixels, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    down, right = (
        first + step * np.arange(size) for first, step, size in zip(op.first, op.step, _size(graph, output), strict=True)
    )
    height, width = x[0].shape[2:]
    inside = ((down >= 0) & (down < height))[:, None] & ((right >= 0) & (right < width))
    return np.where(inside, x[0][:, :, down.clip(0, height - 1)[:, None], right.clip(0, width - 1)], np.int8(op.outside))


def _channels(op: ir.Channels, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    return x[0][:, op.first : op.first + graph.tensors[output].shape[0]]


def _mosaic(op: ir.Mosaic, x: list[Int8], graph: ir.Graph, output: str) -> Int8:
    y = np.empty((len(x[0]), *graph.tensors[output].shape), np.int8)
    for part, (first, step) in zip(x, op.places, strict=True):
        down, right = (start + stride * np.arange(n) for start, stride, n in zip(first, step, part.shape[2:], strict=True))
        y[:, :, down[:, None], right] = part
    return y


_EXECUTE: dict[type, Callable[[Any, list[Int8], ir.Graph, str], Int8]] = {
    ir.Table: _table,
    ir.Conv: _conv,
    ir.Depthwise: _depthwise,
    ir.MaxPool: _max_pool,
    ir.AveragePool: _average_pool,
    ir.Bilinear: _bilinear,
    ir.Combine: _combine,
    ir.Affine: _affine,
    ir.Concat: _concat,
    ir.Product: _product,
    ir.Maximum: _maximum,
    ir.Minimum: _minimum,
    ir.Pixels: _pixels,
    ir.Channels: _channels,
    ir.Mosaic: _mosaic,
}


class Original:
    """The model in an artifact, for all that compares with it: it is read when that is first needed, and once.

    source: the model, if its maker still has it; the artifact's is not read then.
    """

    def __init__(self, artifact: Artifact, source: SourceModel | None = None) -> None:
        self.artifact, self._given = artifact, source
        self.name = f"{artifact.manifest['name']}: its model.onnx"

    @cached_property
    def source(self) -> SourceModel:
        """The model. ModelError: it cannot be read."""
        return self._given or read(self.artifact.model, self.name)

    @cached_property
    def graphs(self) -> list[ir.Graph]:
        """The int8 graph of each program. ArtifactError: the artifact was made from another model."""
        try:
            found = import_quantised(self.source, placed_as=placement_of(self.artifact.manifest)).programs
        except ModelError as error:
            raise ArtifactError(f"{error}; compile it again") from None
        programs = self.artifact.programs
        if len(found) != len(programs) or not all(map(_is_of, found, programs)):
            raise ArtifactError(f"{self.name} is not the model that it was compiled from; compile it again")
        return found


def placement_of(manifest: Manifest) -> frozenset[str] | None:
    """The tensors of the float graph that nodes on the accelerator make; None: an older file, which does not name them."""
    programs = [entry for entry in manifest["pieces"] if entry["kind"] == ACCELERATOR]
    if all("nodes" in entry for entry in programs):
        return frozenset(name for entry in programs for name in entry["nodes"])
    return None


def _is_of(graph: ir.Graph, piece: ProgramPiece) -> bool:
    """Whether a graph has the tensors that a program's manifest lists."""
    manifest = piece.manifest
    ports = {port["name"]: port for port in (*manifest["inputs"], *manifest["outputs"])}
    same = {*graph.inputs, *graph.outputs} == set(ports)
    return same and not any(_differs(graph, tensor, entry) for tensor, entry in (*ports.items(), *manifest["tensors"].items()))


def _differs(graph: ir.Graph, tensor: str, entry: TensorEntry) -> bool:
    """Whether a tensor differs from what a manifest's entry says."""
    found = graph.tensors.get(tensor)
    quant = (found.quant.scale, found.quant.zero) if found and found.quant else None
    return found is None or list(found.shape) != entry["shape"] or quant != (entry["scale"], entry["zero"])


class Reference:
    """Runs batches of int8 tensors by port name, as `host.device.accelerator.Accelerator` does."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.counters: dict[str, int] = {}  # it has no clock
        self.tensors: dict[str, Int8] = {}  # every activation of the last run

    def run(self, inputs: Mapping[str, Int8]) -> dict[str, Int8]:
        """Runs one batch: int8 [batch, C, H, W] by graph input gives the same by graph output."""
        self.tensors = run(self.graph, inputs)
        return {name: self.tensors[name] for name in self.graph.outputs}

    def real(self) -> dict[str, NDArray[np.float32]]:
        """`tensors`, as the real numbers that they represent."""
        quants = {name: self.graph.tensors[name].quant for name in self.tensors}
        return {name: pack.dequantise(self.tensors[name], q.scale, q.zero) for name, q in quants.items() if q is not None}
