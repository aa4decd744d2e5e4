"""Random int8 graphs for agreement tests: single layers of every kind, and small networks. A seed always gives the same one.

`layer(seed)` and `network(seed)` make a graph, `inputs(graph, batch, seed)` int8 images for it.
"""

from collections.abc import Callable
from dataclasses import replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph import ir

from .graph_builder import Builder, Sides, out_size


def random_window(b: Builder, size: Sides, most: int = 11, dilate: bool = True, pool: bool = False) -> ir.Window:
    """A window that fits a map of `size` with its padding. No window of a pool lies only in padding."""
    kernel, stride, dilation, pads = [], [], [], [0, 0, 0, 0]
    for axis in (0, 1):
        taps = min(b.pick(1, 1, 2, 3, 3, 3, 4, 5, 7, int(b.rng.integers(1, most + 1))), most)
        spread = b.pick(1, 1, 1, 2, 3) if dilate else 1
        limit = min(taps // 2 if pool else taps * spread, size[axis])
        before, after = (int(b.rng.integers(0, limit + 1)) if b.rng.random() < 0.6 else 0 for _ in range(2))
        while (taps - 1) * spread + 1 > size[axis] + before + after:
            taps, spread = (taps, spread - 1) if spread > 1 else (taps - 1, 1)
            if pool:
                before, after = min(before, taps // 2), min(after, taps // 2)
        kernel.append(taps)
        dilation.append(spread)
        stride.append(b.pick(1, 1, 2, 3, 4))
        pads[axis], pads[axis + 2] = before, after
    return ir.Window(
        (kernel[0], kernel[1]), (stride[0], stride[1]), (dilation[0], dilation[1]), (pads[0], pads[1], pads[2], pads[3])
    )


def _input(b: Builder, most_channels: int = 40, most_side: int = 18) -> str:
    sides = [b.pick(1, 2, 3, 7, 8, int(b.rng.integers(1, most_side + 1)), int(b.rng.integers(1, most_side + 1))) for _ in range(2)]
    return b.input(b.pick(1, 3, 4, 8, 16, int(b.rng.integers(1, most_channels + 1))), *sides)


def _conv(b: Builder) -> str:
    x = _input(b)
    return b.conv(x, int(b.rng.integers(1, 50)), random_window(b, b.shape(x)[1:]))


def _grouped(b: Builder) -> str:
    groups = b.pick(2, 3, 4, 8)
    x = b.input(groups * int(b.rng.integers(1, 13)), int(b.rng.integers(1, 12)), int(b.rng.integers(1, 12)))
    return b.conv(x, groups * int(b.rng.integers(1, 13)), random_window(b, b.shape(x)[1:], 5), groups)


def _residual(b: Builder) -> str:
    x = _input(b)
    window, cout = random_window(b, b.shape(x)[1:], 5), int(b.rng.integers(1, 40))
    return b.conv(x, cout, window, residual=b.input(cout, *out_size(window, b.shape(x)[1:])))


def _fully_connected(b: Builder) -> str:
    return b.fully_connected(
        b.input(int(b.rng.integers(1, 80)), b.pick(1, 1, 3, 7), b.pick(1, 1, 4, 7)), int(b.rng.integers(1, 60))
    )


def _depthwise(b: Builder) -> str:
    x = _input(b)
    return b.depthwise(x, random_window(b, b.shape(x)[1:]))


def _multiplied(b: Builder) -> str:
    """A depthwise convolution with several outputs a channel, which is the array's work."""
    x = _input(b, 20, 10)
    channels = b.shape(x)[0]
    return b.conv(x, channels * b.pick(2, 3), random_window(b, b.shape(x)[1:], 5), groups=channels)


def _max_pool(b: Builder) -> str:
    x = _input(b)
    return b.max_pool(x, random_window(b, b.shape(x)[1:], pool=True), b.rng.random() < 0.5, b.rng.random() < 0.5)


def _average_pool(b: Builder) -> str:
    x = _input(b)
    window = random_window(b, b.shape(x)[1:], dilate=False, pool=True)
    return b.average_pool(x, window, b.rng.random() < 0.5, b.rng.random() < 0.5)


def _large_pool(b: Builder) -> str:
    """Pools with windows of up to 32 x 32, and global ones."""
    height, width = int(b.rng.integers(20, 36)), int(b.rng.integers(20, 36))
    x = b.input(int(b.rng.integers(1, 10)), height, width)
    whole = b.rng.random() < 0.5
    window = ir.Window((height, width)) if whole else ir.Window((min(height, 32), min(width, 32)), (2, 3))
    return b.average_pool(x, window) if b.rng.random() < 0.6 else b.max_pool(x, window)


def _add(b: Builder) -> str:
    x = _input(b)
    return b.add(x, x if b.rng.random() < 0.1 else b.input(*b.shape(x)))


def _affine(b: Builder) -> str:
    return b.affine(_input(b))


def _copy(b: Builder) -> str:
    return b.copy(_input(b))


def _concat(b: Builder) -> str:
    """A concatenation at whole blocks or not, of inputs or of results that can be written in place."""
    first = _input(b, 24)
    parts = [
        first,
        *(b.input(b.pick(3, 4, 8, 16, int(b.rng.integers(1, 20))), *b.shape(first)[1:]) for _ in range(b.pick(1, 2, 3))),
    ]
    return b.concat(*(b.copy(x) if b.rng.random() < 0.5 else x for x in parts))


def _first(b: Builder) -> str:
    """A first layer with few channels, so that the compiler folds the input."""
    x = b.input(int(b.rng.integers(1, 7)), int(b.rng.integers(1, 25)), int(b.rng.integers(1, 25)))
    return b.conv(x, int(b.rng.integers(1, 20)), random_window(b, b.shape(x)[1:], dilate=False))


def _pixels(b: Builder) -> str:
    """A selection of rows and columns of a map, sometimes with some outside it."""
    x = _input(b)
    first, step, size = [], [], []
    for length in b.shape(x)[1:]:
        first.append(int(b.rng.integers(0, length)))
        step.append(b.pick(1, 1, 2, 3))
        size.append(int(b.rng.integers(1, (length - 1 - first[-1]) // step[-1] + 2)))
    if b.rng.random() < 0.5:
        return b.pixels(x, first, step, size)
    around = b.rng.integers(0, 7, 4)
    return b.pixels(x, np.subtract(first, around[:2]).tolist(), step, np.add(size, around[2:]).tolist(), b.random_zero())


def _maximum(b: Builder) -> str:
    """The maximum of an input and another one, or of a part of a concatenation."""
    x = _input(b)
    return b.maximum(b.copy(x) if b.rng.random() < 0.5 else x, b.affine(x) if b.rng.random() < 0.5 else b.input(*b.shape(x)))


def _paired(b: Builder) -> str:
    """An operation on two maps, or on a map and a flat operand: inputs, results, and parts of a concatenation."""
    x = _input(b)
    y = b.input(*b.shape(x)) if b.pairs.random() < 0.5 else b.input(b.shape(x)[0], 1, 1)
    a, other = (b.copy(t) if b.pairs.random() < 0.4 else t for t in (x, y))
    if b.shape(y)[1:] == (1, 1) and b.pairs.random() < 0.4:
        other = b.conv(b.average_pool(x, ir.Window(b.size(x))), b.shape(x)[0], ir.Window())
    made = b.paired(a, other)
    if b.pairs.random() < 0.3:
        made = b.looked_up(made)
    return made if b.pairs.random() < 0.7 else b.concat(made, b.input(b.pick(3, 4, 8), *b.shape(x)[1:]))


def _channels(b: Builder) -> str:
    """A selection of channels, from a block's first or not; each part is read by a layer or put in another order."""
    x = _input(b, 40)
    if b.rng.random() < 0.5:
        x = b.copy(x)
    count = b.shape(x)[0]
    cut = min(b.pick(8, 16, int(b.rng.integers(0, count))), count - 1)
    parts = [b.channels(x, cut, count - cut), *([b.channels(x, 0, cut)] if cut else [])]
    if b.rng.random() < 0.4:
        return b.concat(*parts)
    return b.affine(parts[0]) if b.rng.random() < 0.5 else b.conv(parts[0], 9, ir.Window())


def _enlarged(b: Builder) -> str:
    """A map with repeated pixels, sometimes in a concatenation."""
    y = b.enlarged(_input(b, 30, 9), (b.pick(1, 2, 2, 3), b.pick(2, 2, 3, 4)))
    return y if b.rng.random() < 0.5 else b.concat(y, b.input(b.pick(3, 4, 8), *b.shape(y)[1:]))


def _bilinear(b: Builder) -> str:
    """An enlarged map, sometimes behind a layer, with a table or in a concatenation."""
    x = _input(b, 30, 8) if b.rng.random() < 0.5 else _conv(b)
    y = b.bilinear(x, (b.pick(1, 2, 2, 4), b.pick(2, 2, 4)), b.rng.random() < 0.6)
    y = b.looked_up(y) if b.rng.random() < 0.3 else y
    return y if b.rng.random() < 0.5 else b.concat(y, b.input(b.pick(3, 4, 8), *b.shape(y)[1:]))


def _phases(b: Builder) -> str:
    """The form that a transposed convolution takes."""
    x = _input(b, 20, 10)
    channels, height, width = b.shape(x)
    size = [2 * length - int(b.rng.integers(0, 2)) if length > 1 else 2 for length in (height, width)]
    kernels = [(b.pick(1, 2, 3), b.pick(1, 2, 3)) for _ in range(4)]
    depthwise = b.rng.random() < 0.3 and channels > 1
    return b.phases(x, channels if depthwise else int(b.rng.integers(1, 30)), kernels, size, channels if depthwise else 1)


def _table(b: Builder) -> str:
    """A table behind any layer that rounds, or alone."""
    kinds = (_conv, _grouped, _residual, _fully_connected, _depthwise, _max_pool, _average_pool, _add, _affine, _copy, _input)
    return b.looked_up(kinds[int(b.rng.integers(len(kinds)))](b))


LAYERS: dict[str, Callable[[Builder], str]] = {
    "conv": _conv,
    "grouped": _grouped,
    "residual": _residual,
    "fully_connected": _fully_connected,
    "depthwise": _depthwise,
    "multiplied": _multiplied,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "large_pool": _large_pool,
    "add": _add,
    "affine": _affine,
    "copy": _copy,
    "concat": _concat,
    "first": _first,
    "pixels": _pixels,
    "maximum": _maximum,
    "channels": _channels,
    "enlarged": _enlarged,
    "phases": _phases,
    "table": _table,
    "bilinear": _bilinear,
    "paired": _paired,
}


def layer(seed: int, kind: str | None = None) -> ir.Graph:
    """A graph of one layer of the given kind, or of the kind that the seed chooses (each in turn)."""
    kind = kind or list(LAYERS)[seed % len(LAYERS)]
    b = Builder(np.random.default_rng([seed, list(LAYERS).index(kind)]), f"{kind}_{seed}")
    return b.graph(LAYERS[kind](b))


def network(seed: int, nodes: int | None = None) -> ir.Graph:
    """A small network: branches, residual adds, concatenations at any depth, pools, and often a classifier; seeded."""
    b = Builder(np.random.default_rng([seed, 1000]), f"network_{seed}")
    tensors = [b.input(b.pick(1, 3, 8, 12), int(b.rng.integers(6, 17)), int(b.rng.integers(6, 17)))]
    for _ in range(nodes or int(b.rng.integers(3, 10))):
        x = tensors[-1] if b.rng.random() < 0.7 else tensors[int(b.rng.integers(len(tensors)))]
        tensors.append(_grow(b, x, tensors))
        if b.pairs.random() < 0.25:
            tensors[-1] = _beside(b, tensors)
    if b.rng.random() < 0.6:
        x = tensors[-1]
        if b.rng.random() < 0.5:
            x = b.average_pool(x, ir.Window((b.shape(x)[1], b.shape(x)[2])))
        tensors.append(b.fully_connected(x, int(b.rng.integers(2, 20))))
    extra = [t for t in tensors[1:-1] if b.rng.random() < 0.1]  # an inner tensor that is an output too
    ends = b.graph().outputs
    return b.graph(*dict.fromkeys((*ends, *extra)))


def coded(seed: int) -> ir.Graph:
    """Fully connected layers, one behind the other. Each channel of most of them has at most 16 values; seeded."""
    b = Builder(np.random.default_rng([seed, 2000]), f"coded_{seed}")
    x = b.input(int(b.rng.integers(1, 80)), b.pick(1, 1, 3, 7), b.pick(1, 1, 4, 7))
    for number in range(b.pick(1, 2, 3)):
        cout, window = int(b.rng.integers(1, 100)), ir.Window(b.size(x))
        x = b.conv(x, cout, window, residual=b.input(cout, 1, 1) if number and b.rng.random() < 0.3 else None)
    graph, rng = b.graph(), np.random.default_rng([seed, 2001])
    constants = dict(graph.constants)
    for node in graph.nodes:
        if rng.random() < 0.9:
            assert isinstance(node.op, ir.Conv)
            weights = constants[node.op.weights]
            rows = weights.reshape(len(weights), -1)
            values = np.maximum(rows[:, rng.integers(0, rows.shape[1], int(rng.integers(1, 17)))], -127)
            places = rng.integers(0, values.shape[1], rows.shape)
            constants[node.op.weights] = np.take_along_axis(values, places, axis=1).reshape(weights.shape)
    return replace(graph, constants=constants)


def resnet8(seed: int) -> ir.Graph:
    """A network of the shape of MLPerf Tiny's ResNet-8: 32x32 pixels, three residual blocks, 12.5 million multiply-accumulates."""
    b = Builder(np.random.default_rng([seed, 1001]), f"resnet8_{seed}")
    x = b.conv(b.input(3, 32, 32), 16, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        inner = b.conv(x, channels, ir.Window((3, 3), (stride, stride), pads=(1, 1, 1, 1)))
        beside = b.conv(x, channels, ir.Window((1, 1), (stride, stride))) if stride > 1 else x
        x = b.conv(inner, channels, ir.Window((3, 3), pads=(1, 1, 1, 1)), residual=beside)
    return b.graph(b.fully_connected(b.average_pool(x, ir.Window((8, 8))), 10))


def _beside(b: Builder, tensors: list[str]) -> str:
    """Squeeze-and-excite of the newest tensor, or an operation on it and one of equal size if there is one."""
    x = tensors[-1]
    equal = [t for t in tensors if t != x and b.shape(t) == b.shape(x)]
    if equal and b.pairs.random() < 0.5:
        return b.paired(x, equal[int(b.pairs.integers(len(equal)))])
    return b.excited(x) if max(b.shape(x)[1:]) <= 32 else x


def _grow(b: Builder, x: str, tensors: list[str]) -> str:
    """Adds one node on x, and on a second tensor of equal size if there is one."""
    channels, height, width = b.shape(x)
    equal = [t for t in tensors if t != x and b.shape(t) == b.shape(x)]
    beside = [t for t in tensors if t != x and b.shape(t)[1:] == (height, width) and b.shape(t)[0] + channels < 80]
    same = ir.Window((3, 3), pads=(1, 1, 1, 1))
    choices: list[Callable[[], str]] = [
        lambda: b.conv(x, b.pick(4, 8, 12, 16, int(b.rng.integers(1, 30))), random_window(b, (height, width), 5)),
        lambda: b.conv(x, b.pick(4, 8, 12, 16, 24), same),
        lambda: b.conv(x, b.pick(8, 16, 24), ir.Window()),
        lambda: b.conv(x, channels * 2, same, groups=gcd(channels, 4)),
        lambda: b.depthwise(x, same),
        lambda: b.depthwise(x, random_window(b, (height, width), 5)),
        lambda: b.max_pool(x, random_window(b, (height, width), 3, pool=True)),
        lambda: b.average_pool(x, same, b.rng.random() < 0.5),
        lambda: b.affine(x),
    ]
    if equal:
        twin = equal[int(b.rng.integers(len(equal)))]
        choices += [lambda: b.add(x, twin), lambda: b.conv(x, channels, same, residual=twin)] * 2
    if beside:
        other = beside[int(b.rng.integers(len(beside)))]
        choices += [lambda: b.concat(x, other), lambda: b.concat(other, x, b.conv(x, b.pick(4, 6, 8), ir.Window()))] * 2
    y = choices[int(b.rng.integers(len(choices)))]()
    return b.looked_up(y) if b.tables.random() < 0.25 else y


def inputs(graph: ir.Graph, batch: int, seed: int) -> dict[str, NDArray[np.int8]]:
    """Images for a graph: int8 [batch, C, H, W], all values; of every few images one holds only -128 and 127."""
    rng = np.random.default_rng([seed, 2000])
    found = {}
    for name in graph.inputs:
        shape = (batch, *graph.tensors[name].shape)
        wild = rng.random() < 0.2
        found[name] = rng.choice(np.array([-128, 127], np.int8), shape) if wild else rng.integers(-128, 128, shape).astype(np.int8)
    return found
