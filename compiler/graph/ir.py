"""The graph that passes rewrite. It is frozen, so a pass cannot edit its input and must return a new graph.

`Graph`, `Node` and `Tensor` serve float and int8 graphs. The operators here are those of the int8 graph: the reference computes
them (`sim/reference/reference.py`), and `compiler/lower` turns them into kernels. Activations are (C, H, W), one image; a vector is
(C, 1, 1). Constants are numpy arrays by name; an operator declares in `CONSTANTS` which of its fields name one (`constants_of`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isinf
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from cnna.compiler.graph.float_ops import FloatOperator


@dataclass(frozen=True)
class Quant:
    """real = scale * (int8 - zero)."""

    scale: float
    zero: int


@dataclass(frozen=True)
class Tensor:
    """Shape of an activation without its batch axis, and its quantisation if it has one."""

    shape: tuple[int, ...]
    quant: Quant | None = None


@dataclass(frozen=True)
class Window:
    """A sliding window: sizes and steps as (rows, columns), padding as (top, left, bottom, right)."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True)
class Clamp:
    """The int8 output stage: the zero point, and the limits of a ReLU or ReLU6."""

    zero: int
    low: int = -128
    high: int = 127


def clamp(quant: Quant, low: float = -inf, high: float = inf) -> Clamp:
    """The output stage of a tensor with real limits. Rounding keeps the order of values, so int8 limits have the same effect."""

    def whole(limit: float, default: int) -> int:
        if isinf(limit):
            return default
        return int(np.clip(quant.zero + np.rint(np.float64(limit) / quant.scale), -128, 127))

    return Clamp(quant.zero, whole(low, -128), whole(high, 127))


@dataclass(frozen=True)
class Combine:
    """`arith.combine` of two tensors (an add), or of one tensor (a requantised copy).

    With `table`, the result is what that table has for it.
    """

    factor_a: int
    factor_b: int
    offset: int
    shift: int
    out: Clamp
    table: "Table | None" = None


@dataclass(frozen=True)
class Table:
    """y = values[x]: 256 bytes, that of an int8 v at v modulo 256."""

    values: bytes


@dataclass(frozen=True)
class Conv:
    """Convolution on the array. A fully connected layer is one whose kernel is the whole map. Padding reads the input's zero point.

    mid = requantise(Σ x * weights + bias, mult, shift, out), with inputs (x,). With `table`, mid is what that table has for it.
    With `residual`, the inputs are (x, r) or (x,), and the output is combine(mid, r) or combine(mid, 0). Constants: weights int8
    [cout, cin / groups, kh, kw]; bias int32 [cout], which includes the zero-point term; mult and shift int32 [cout].
    """

    CONSTANTS: ClassVar = ("weights", "bias", "mult", "shift")
    window: Window
    groups: int
    weights: str
    bias: str
    mult: str
    shift: str
    out: Clamp
    residual: Combine | None = None
    table: Table | None = None


@dataclass(frozen=True)
class Depthwise:
    """As Conv, with one input and one output channel in each group, on the vector engine. weights: [c, 1, kh, kw]. No residual."""

    CONSTANTS: ClassVar = ("weights", "bias", "mult", "shift")
    window: Window
    weights: str
    bias: str
    mult: str
    shift: str
    out: Clamp
    table: Table | None = None


@dataclass(frozen=True)
class MaxPool:
    """The greatest of the pixels inside the map, then `requant`, which is an exact identity if both scales are equal."""

    window: Window
    requant: Combine


@dataclass(frozen=True)
class AveragePool:
    """requantise(Σ (x - zero_in), *multiplier(ratio / divisor), out). ratio: scale_in / scale_out. divisor: from `taps_inside`.

    With `table`, the result is what that table has for it.
    """

    window: Window
    include_pad: bool
    ratio: float
    zero_in: int
    out: Clamp
    table: Table | None = None


@dataclass(frozen=True)
class Bilinear:
    """A map enlarged `times` (down, right), between the centres of its pixels or, without `centred`, between their corners.

    Output pixel o of an axis lies at (o + 1/2) / times - 1/2 or at o / times of the input, but not beyond its first or last pixel.
    It is the mean of the two pixels beside it, each the heavier the nearer it is. With weights in units of 1 / `parts`,
    y = requantise(Σ (x - zero_in) * weight, *multiplier(ratio / product of parts), out). ratio: scale_in / scale_out.
    With `table`, the result is what that table has for it.
    """

    times: tuple[int, int]
    centred: bool
    ratio: float
    zero_in: int
    out: Clamp
    table: Table | None = None

    @property
    def parts(self) -> tuple[int, int]:
        """Into how many steps the distance between two pixels of the input is cut, down and to the right."""
        down, right = (1 if times == 1 else times * (2 if self.centred else 1) for times in self.times)
        return down, right


@dataclass(frozen=True)
class Affine:
    """For each channel c: combine(x, factor[c], 0, 0, offset[c], shift[c], out). Constants: int32 [channels].

    With `table`, the result is what that table has for it.
    """

    CONSTANTS: ClassVar = ("factor", "offset", "shift")
    factor: str
    offset: str
    shift: str
    out: Clamp
    table: Table | None = None


@dataclass(frozen=True)
class Product:
    """requantise((a - zero_a) * (b - zero_b), mult, shift, out) of two tensors.

    With `table`, the result is what that table has for it.
    """

    zero_a: int
    zero_b: int
    mult: int
    shift: int
    out: Clamp
    table: Table | None = None


@dataclass(frozen=True)
class Maximum:
    """The greater of two tensors. The output has their quantisation."""


@dataclass(frozen=True)
class Minimum:
    """The lesser of two tensors. The output has their quantisation."""


@dataclass(frozen=True)
class Concat:
    """The channels of the inputs, one input after another. All inputs have the output's quantisation."""


@dataclass(frozen=True)
class Pixels:
    """Every `step`-th row and column, from `first` on, as many as the output has: y[c, i, j] = x[c, first + step * (i, j)].

    `first` may be negative. A place outside the map holds `outside`.
    """

    first: tuple[int, int]
    step: tuple[int, int]
    outside: int = 0


@dataclass(frozen=True)
class Channels:
    """y[c, i, j] = x[first + c, i, j], for as many channels as the output has."""

    first: int


@dataclass(frozen=True)
class Mosaic:
    """One map made of several. Pixel (i, j) of input n is the output's pixel first + step * (i, j); (first, step) is `places[n]`.

    Nodes of one kind make all inputs from the same tensor. Only the Mosaic reads them, and they fill the output without overlap.
    """

    places: tuple[tuple[tuple[int, int], tuple[int, int]], ...]


# The operators of an int8 graph.
IntegerOperator = (
    Table
    | Combine
    | Conv
    | Depthwise
    | MaxPool
    | AveragePool
    | Bilinear
    | Affine
    | Concat
    | Pixels
    | Channels
    | Mosaic
    | Product
    | Maximum
    | Minimum
)
PAIRS = (Combine, Product, Maximum, Minimum)  # of two tensors of the output's shape, of which the second may be flat (`is_flat`)
AnyOperator: TypeAlias = "IntegerOperator | FloatOperator"
Operator = TypeVar("Operator", bound=AnyOperator, covariant=True)


@dataclass(frozen=True)
class Node(Generic[Operator]):
    """One operator. name: of the source model's node from which it came. output: the tensor that it makes.

    `Node[Conv]` is a node whose operator is known to be a Conv.
    """

    name: str
    op: Operator
    inputs: tuple[str, ...]
    output: str


AnyNode: TypeAlias = "Node[AnyOperator]"


def constants_of(op: AnyOperator) -> tuple[str, ...]:
    """The constants that an operator names in its fields. Those of an `Onnx` are inputs of its node instead."""
    names = (getattr(op, field) for field in getattr(op, "CONSTANTS", ()))
    return tuple(name for name in names if name is not None)


class Scaled(NamedTuple):
    """A tensor whose channels are scaled. name: of the tensor before; factors: what each of its channels is divided by."""

    name: str
    factors: tuple[float, ...]


class Whole(NamedTuple):
    """Weights that came in int8. real: the constant made of them; values: int8; scale: above 0 and broadcast to them.

    real is values * scale, and real / scale, rounded, is values again. Once a pass has put another array in real's place, it says
    nothing about that one.
    """

    real: np.ndarray
    values: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order. `tensors` describes every activation; `constants` holds the arrays that operators name."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[AnyNode, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    opset: int = 17  # of the ONNX operators in a float graph
    sources: Mapping[str, str] = field(default_factory=dict)  # by name, the operator of each node of the user's model
    types: Mapping[str, str] = field(default_factory=dict)  # numpy's type of tensors that are not float32; "" if it has none
    joins: Mapping[str, int | None] = field(default_factory=dict)  # of a float graph: the batch's axis in the user's outputs
    scaled: Mapping[str, Scaled] = field(default_factory=dict)  # of a float graph: tensors that equalisation has scaled
    scales: Mapping[str, np.ndarray] = field(default_factory=dict)  # of a float graph: by constant in int8, those of its elements
    wholes: Mapping[str, Whole] = field(default_factory=dict)  # of a float graph: the whole numbers of constants, where known
    finished: bool = field(default=False, init=False, repr=False, compare=False)  # whether `Editor.finish` has just made it

    def uses(self, tensor: str) -> int:
        """How many times a tensor is a node input or a graph output."""
        return sum(node.inputs.count(tensor) for node in self.nodes) + self.outputs.count(tensor)

    def whole(self, name: str, scale: np.ndarray) -> np.ndarray | None:
        """The whole numbers of weights at these scales of their output channels, in int8; None if they are not known."""
        found = self.wholes.get(name)
        if found is None or found.real is not self.constants[name] or found.scale.size not in (1, len(found.scale)):
            return None
        return found.values if (found.scale.reshape(-1) == scale).all() else None

    def producer(self, tensor: str) -> "AnyNode | None":
        """The node that makes a tensor; None for graph inputs and constants."""
        return next((node for node in self.nodes if node.output == tensor), None)


def is_flat(node: "AnyNode", tensors: Mapping[str, Tensor]) -> bool:
    """Whether the second operand of one of `PAIRS` is (C, 1, 1) beside a map (C, H, W): one value of a channel for all pixels."""
    if not isinstance(node.op, PAIRS) or len(node.inputs) < 2:
        return False
    return tensors[node.inputs[1]].shape != tensors[node.output].shape


def taps_inside(window: Window, size: tuple[int, int], out: tuple[int, int], include_pad: bool = False) -> np.ndarray:
    """For each output pixel, the number of taps inside a map of `size` (or inside its padding too): int [out rows, out columns]."""

    def along(axis: int) -> np.ndarray:
        before, after = window.pads[axis], window.pads[axis + 2]
        low, high = (-before, size[axis] + after) if include_pad else (0, size[axis])
        start = np.arange(out[axis])[:, None] * window.stride[axis] - before
        taps = start + np.arange(window.kernel[axis])[None] * window.dilation[axis]
        return ((taps >= low) & (taps < high)).sum(axis=1)

    return np.outer(along(0), along(1))
