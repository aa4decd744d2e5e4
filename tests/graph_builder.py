"""Grows int8 graphs node by node, with random parameters, for tests."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph import ir
from cnna.spec import arith

Rng = np.random.Generator
Sides = Sequence[int]  # rows, columns


class Builder:
    """Grows an int8 graph node by node. Every method adds one, and returns the name of the tensor that it makes."""

    def __init__(self, rng: Rng, name: str) -> None:
        self.rng, self.name = rng, name
        self.tables = np.random.default_rng([*name.encode()])  # apart, so that a graph is the same but for its tables
        self.pairs = np.random.default_rng([*name.encode(), 1])  # and but for its products, minima and flat operands
        self.nodes: list[ir.Node] = []
        self.tensors: dict[str, ir.Tensor] = {}
        self.constants: dict[str, NDArray[np.generic]] = {}
        self.inputs: list[str] = []

    def pick(self, *values: int) -> int:
        """One of the values."""
        return int(self.rng.choice(values))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """(C, H, W) of a tensor."""
        return self.tensors[tensor].shape

    def size(self, tensor: str) -> tuple[int, int]:
        """(H, W) of a tensor."""
        _, height, width = self.shape(tensor)
        return height, width

    def zero(self, tensor: str) -> int:
        """Zero point of a tensor."""
        quant = self.tensors[tensor].quant
        assert quant is not None
        return quant.zero

    def input(self, channels: int, height: int, width: int) -> str:
        """Adds a graph input with any zero point."""
        name = self._tensor((channels, height, width), self.random_zero())
        self.inputs.append(name)
        return name

    def graph(self, *outputs: str) -> ir.Graph:
        """The graph so far. Unless outputs are named, they are the tensors that nothing uses."""
        used = {name for node in self.nodes for name in node.inputs}
        ends = outputs or tuple(node.output for node in self.nodes if node.output not in used)
        return ir.Graph(self.name, tuple(self.inputs), ends, tuple(self.nodes), self.tensors, self.constants)

    def conv(self, x: str, cout: int, window: ir.Window, groups: int = 1, residual: str | None = None) -> str:
        """Adds a convolution, with the residual operand `residual` if it is given."""
        channels, height, width = self.shape(x)
        fields = self.sum_fields(window, (cout, channels // groups))
        mid = self._clamp()
        shape = (cout, *out_size(window, (height, width)))
        if residual is None:
            return self.node(ir.Conv(window, groups, **fields, out=mid), (x,), shape, mid.zero)
        combine = self._combine(mid.zero, self.zero(residual))
        return self.node(ir.Conv(window, groups, **fields, out=mid, residual=combine), (x, residual), shape, combine.out.zero)

    def fully_connected(self, x: str, cout: int) -> str:
        """Adds a convolution whose kernel is the whole map."""
        _, height, width = self.shape(x)
        return self.conv(x, cout, ir.Window((height, width)))

    def depthwise(self, x: str, window: ir.Window) -> str:
        """Adds a depthwise convolution."""
        channels, height, width = self.shape(x)
        out = self._clamp()
        op = ir.Depthwise(window, **self.sum_fields(window, (channels, 1)), out=out)
        return self.node(op, (x,), (channels, *out_size(window, (height, width))), out.zero)

    def max_pool(self, x: str, window: ir.Window, same_scale: bool = True, ceil: bool = False) -> str:
        """Adds a max pool; unless `same_scale`, its output has another scale than its input."""
        channels, height, width = self.shape(x)
        zero = self.zero(x)
        requant = ir.Combine(2, 0, 0, 1, ir.Clamp(0)) if same_scale else self._combine(zero)
        shape = (channels, *out_size(window, (height, width), ceil))
        return self.node(ir.MaxPool(window, requant), (x,), shape, zero if same_scale else requant.out.zero)

    def average_pool(self, x: str, window: ir.Window, include_pad: bool = False, ceil: bool = False) -> str:
        """Adds an average pool."""
        channels, height, width = self.shape(x)
        out = self._clamp()
        op = ir.AveragePool(window, include_pad, float(self.rng.uniform(0.3, 3)), self.zero(x), out)
        return self.node(op, (x,), (channels, *out_size(window, (height, width), ceil)), out.zero)

    def bilinear(self, x: str, times: Sides, centred: bool) -> str:
        """Enlarges a map by interpolation."""
        channels, height, width = self.shape(x)
        out = self._clamp()
        op = ir.Bilinear((times[0], times[1]), centred, float(self.rng.uniform(0.5, 2)), self.zero(x), out)
        return self.node(op, (x,), (channels, height * times[0], width * times[1]), out.zero)

    def add(self, a: str, b: str) -> str:
        """Adds the sum of two tensors, each with its own scale. Here and in the other pairs b may be flat."""
        combine = self._combine(self.zero(a), self.zero(b))
        return self.node(combine, (a, b), self.shape(a), combine.out.zero)

    def copy(self, x: str) -> str:
        """Adds a requantised copy."""
        combine = self._combine(self.zero(x))
        return self.node(combine, (x,), self.shape(x), combine.out.zero)

    def affine(self, x: str) -> str:
        """Adds a layer with a scale and an offset for each channel."""
        channels, out = self.shape(x)[0], self._clamp()
        ratios = self.rng.uniform(-2, 2, channels)
        made = [arith.factors(float(r), self.zero(x), constant=float(self.rng.uniform(-50, 50))) for r in ratios]
        factor, _, offset, shift = np.array(made, np.int64).T
        op = ir.Affine(self._constant(factor), self._constant(offset), self._constant(shift), out)
        return self.node(op, (x,), self.shape(x), out.zero)

    def concat(self, *parts: str) -> str:
        """Concatenates channels. Inputs with another zero point are requantised first, as the importer does."""
        zero = self.zero(parts[0])
        same = [x if self.zero(x) == zero else self._requantised_to(x, zero) for x in parts]
        shape = (sum(self.shape(x)[0] for x in parts), *self.shape(parts[0])[1:])
        return self.node(ir.Concat(), tuple(same), shape, zero)

    def pixels(self, x: str, first: Sides, step: Sides, size: Sides, outside: int = 0) -> str:
        """Selects rows and columns of a map; those outside it hold `outside`."""
        op = ir.Pixels((first[0], first[1]), (step[0], step[1]), outside)
        return self.node(op, (x,), (self.shape(x)[0], *size), self.zero(x))

    def maximum(self, a: str, b: str) -> str:
        """Adds the greater of two tensors; the second is requantised first if its zero point differs."""
        b = b if self.zero(b) == self.zero(a) else self._requantised_to(b, self.zero(a))
        return self.node(ir.Maximum(), (a, b), self.shape(a), self.zero(a))

    def minimum(self, a: str, b: str) -> str:
        """Adds the lesser of two tensors; the second is requantised first if its zero point differs."""
        b = b if self.zero(b) == self.zero(a) else self._requantised_to(b, self.zero(a))
        return self.node(ir.Minimum(), (a, b), self.shape(a), self.zero(a))

    def product(self, a: str, b: str) -> str:
        """Adds the product of two tensors. Results are mostly within int8, or all of them beyond."""
        reach = [max(127 - self.zero(x), 128 + self.zero(x)) for x in (a, b)]
        ratio = float(self.pairs.choice([*self.pairs.uniform(50, 400, 8) / (reach[0] * reach[1]), 1.0]))
        zero = int(self.pairs.choice([0, 0, 0, -128, -100, 90, 127]))
        low, high = ((-128, 127), (-128, 127), (min(zero, 0), 127), (-100, 90))[int(self.pairs.integers(4))]
        op = ir.Product(self.zero(a), self.zero(b), *arith.multiplier(ratio), ir.Clamp(zero, low, high))
        return self.node(op, (a, b), self.shape(a), zero)

    def paired(self, a: str, b: str) -> str:
        """Adds any operation on two tensors, mostly a product."""
        kinds = (self.product, self.product, self.minimum, self.maximum, self.add)
        return kinds[int(self.pairs.integers(len(kinds)))](a, b)

    def excited(self, x: str) -> str:
        """Scales each channel by what a convolution and a table make of the means of all channels (squeeze-and-excite)."""
        means = self.average_pool(x, ir.Window(self.size(x)))
        return self.product(x, self.looked_up(self.conv(means, self.shape(x)[0], ir.Window())))

    def looked_up(self, x: str) -> str:
        """Gives the newest node, if it makes x and can have one, a random table; or adds a table of its own."""
        table = ir.Table(self.tables.integers(0, 256, 256).astype(np.uint8).tobytes())
        last, zero = self.nodes[-1] if self.nodes else None, self.zero(x)
        if last is None or last.output != x or self.tables.random() < 0.3:
            return self.node(table, (x,), self.shape(x), zero)
        op = last.op
        if isinstance(op, ir.MaxPool):
            self.nodes[-1] = replace(last, op=replace(op, requant=replace(op.requant, table=table)))
        elif isinstance(op, ir.Conv | ir.Depthwise | ir.AveragePool | ir.Bilinear | ir.Affine | ir.Combine | ir.Product):
            self.nodes[-1] = replace(last, op=replace(op, table=table))
        else:
            return self.node(table, (x,), self.shape(x), zero)
        return x

    def channels(self, x: str, first: int, count: int) -> str:
        """Selects channels of a map."""
        return self.node(ir.Channels(first), (x,), (count, *self.shape(x)[1:]), self.zero(x))

    def mosaic(self, parts: Sequence[tuple[str, Sides, Sides]], size: Sides) -> str:
        """Joins maps (name, first, step) that lie between each other's pixels."""
        channels, zero = self.shape(parts[0][0])[0], self.zero(parts[0][0])
        places = tuple(((first[0], first[1]), (step[0], step[1])) for _, first, step in parts)
        return self.node(ir.Mosaic(places), tuple(name for name, _, _ in parts), (channels, *size), zero)

    def enlarged(self, x: str, times: Sides) -> str:
        """Repeats every pixel `times` down and to the right: copies that are written between each other."""
        _, height, width = self.shape(x)
        firsts = [(i, j) for i in range(times[0]) for j in range(times[1])]
        parts = [(self.pixels(x, (0, 0), (1, 1), (height, width)), first, times) for first in firsts]
        return self.mosaic(parts, (height * times[0], width * times[1]))

    def phases(self, x: str, cout: int, kernels: Sequence[Sides], size: Sides, groups: int = 1) -> str:
        """Adds four convolutions with these kernels, whose pixels alternate in rows and columns of a map of `size`."""
        _, height, width = self.shape(x)
        zero, parts, mid = 0, [], self._clamp()
        for number, kernel in enumerate(kernels):
            i, j = divmod(number, 2)
            own = (-(-(size[0] - i) // 2), -(-(size[1] - j) // 2))
            pads = (i, j, own[0] - 1 + kernel[0] - i - height, own[1] - 1 + kernel[1] - j - width)
            window = ir.Window((kernel[0], kernel[1]), pads=pads)
            depthwise = groups == self.shape(x)[0] == cout
            fields = self.sum_fields(window, (cout, self.shape(x)[0] // groups))
            op = ir.Depthwise(window, **fields, out=mid) if depthwise else ir.Conv(window, groups, **fields, out=mid)
            zero = mid.zero
            parts.append((self.node(op, (x,), (cout, *own), zero), (i, j), (2, 2)))
        return self.mosaic(parts, size)

    # --- parameters ---

    def _requantised_to(self, x: str, zero: int) -> str:
        a, b, offset, shift = arith.factors(float(self.rng.uniform(0.2, 1.5)), self.zero(x))
        return self.node(ir.Combine(a, b, offset, shift, ir.Clamp(zero)), (x,), self.shape(x), zero)

    def random_zero(self) -> int:
        """A zero point; 0 and the ends of int8 come up often."""
        return self.pick(0, 0, -128, 127, int(self.rng.integers(-128, 128)))

    def _clamp(self) -> ir.Clamp:
        """No limits, ReLU, or ReLU6 somewhere in the range."""
        zero = self.random_zero()
        kind = self.pick(0, 0, 1, 2)
        return ir.Clamp(zero, zero if kind else -128, min(127, zero + self.pick(10, 100)) if kind == 2 else 127)

    def _combine(self, zero_a: int, zero_b: int | None = None) -> ir.Combine:
        ratio_b = 0.0 if zero_b is None else float(self.rng.uniform(-1.5, 1.5))
        return ir.Combine(*arith.factors(float(self.rng.uniform(0.1, 1.5)), zero_a, ratio_b, zero_b or 0), self._clamp())

    def sum_fields(self, window: ir.Window, channels: tuple[int, int]) -> dict[str, Any]:
        """Weights, bias and requantiser of a sum over a window, sometimes at the ends of their ranges."""
        rng, terms = self.rng, channels[1] * window.kernel[0] * window.kernel[1]
        shape = (*channels, *window.kernel)
        if rng.random() < 0.15:
            weights = rng.choice(np.array([-128, -127, 0, 127], np.int8), shape)
            weights[:, ::8] = np.maximum(weights[:, ::8], -127)  # a whole cascade of -128 would be refused
        else:
            weights = rng.integers(-127, 128, shape).astype(np.int8)
        spread = 74.0 * 74.0 * np.sqrt(terms)
        bias = rng.integers(-int(spread), int(spread) + 1, channels[0])
        ratios = 50 / spread * 2 ** rng.uniform(-1, 1, channels[0])
        if rng.random() < 0.15:
            room = 2**31 - 1 - terms * 2**14
            bias = rng.choice([-room, 0, room], channels[0])
            ratios = rng.choice([2.0**-31, 2.0**-40, 1e-7, 8388607.0, 0.0], channels[0])
        mult, shift = np.array([arith.multiplier(float(r)) for r in ratios], np.int64).T
        constants = {
            "weights": weights,
            "bias": bias.astype(np.int32),
            "mult": mult.astype(np.int32),
            "shift": shift.astype(np.int32),
        }
        return {key: self._constant(value) for key, value in constants.items()}

    def _constant(self, value: NDArray[np.generic]) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def _tensor(self, shape: tuple[int, ...], zero: int) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = ir.Tensor(shape, ir.Quant(1.0, zero))
        return name

    def node(self, op: object, inputs: tuple[str, ...], shape: tuple[int, ...], zero: int) -> str:
        """Adds a node of any operator; its output has that shape and zero point."""
        assert min(shape) > 0, f"{op} gives {shape}"
        output = self._tensor(shape, zero)
        self.nodes.append(ir.Node(f"{type(op).__name__.lower()}_{len(self.nodes)}", op, inputs, output))
        return output


def out_size(window: ir.Window, size: Sides, ceil: bool = False) -> tuple[int, int]:
    """Output rows and columns; with `ceil`, also of windows that begin inside the map or its padding and end beyond it."""

    def along(axis: int) -> int:
        pads = window.pads[axis] + window.pads[axis + 2]
        room = size[axis] + pads - (window.kernel[axis] - 1) * window.dilation[axis] - 1
        count = room // window.stride[axis] + 1
        if ceil and room % window.stride[axis] and count * window.stride[axis] < size[axis] + window.pads[axis]:
            count += 1
        return count

    return along(0), along(1)
