"""The graph that passes rewrite: frozen, so that a pass cannot edit its input and must return a new graph.

`Graph`, `Node`, `Tensor` serve float and int8 graphs. The operators here are those of the int8 graph: what the reference
computes (`sim/reference/reference.py`) and `lower.py` turns into commands. Activations are (C, H, W), one image; a vector is
(C, 1, 1). Constants are numpy arrays by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isinf
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

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
    """Shape of an activation without its batch axis, and its quantisation once it has one."""

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
    """int8 output stage: zero point and the limits that ReLU or ReLU6 leave."""

    zero: int
    low: int = -128
    high: int = 127


def clamp(quant: Quant, low: float = -inf, high: float = inf) -> Clamp:
    """The output stage of a tensor with real limits: rounding keeps order, so limits may be applied after it, in int8."""

    def whole(limit: float, default: int) -> int:
        if isinf(limit):
            return default
        return int(np.clip(quant.zero + np.rint(np.float64(limit) / quant.scale), -128, 127))

    return Clamp(quant.zero, whole(low, -128), whole(high, 127))


@dataclass(frozen=True)
class Combine:
    """`arith.combine` of one or two tensors of equal shape: add, or (one input) requantised copy."""

    factor_a: int
    factor_b: int
    offset: int
    shift: int
    out: Clamp


@dataclass(frozen=True)
class Conv:
    """Convolution on the array (a fully connected layer is one whose kernel is the map). Padding reads the input's zero point.

    mid = requantise(Σ x * weights + bias, mult, shift, out); inputs (x,). With `residual`, inputs (x, r) or (x,), and the
    output is combine(mid, r) or combine(mid, 0). Constants: weights int8 [cout, cin / groups, kh, kw]; bias int32 [cout],
    zero-point term folded in; mult and shift int32 [cout].
    """

    window: Window
    groups: int
    weights: str
    bias: str
    mult: str
    shift: str
    out: Clamp
    residual: Combine | None = None


@dataclass(frozen=True)
class Depthwise:
    """As Conv with one input and one output channel a group, on the vector engine; weights [c, 1, kh, kw], no residual."""

    window: Window
    weights: str
    bias: str
    mult: str
    shift: str
    out: Clamp


@dataclass(frozen=True)
class MaxPool:
    """Greatest of the pixels inside the map; then `requant`, which is exact identity where both scales are equal."""

    window: Window
    requant: Combine


@dataclass(frozen=True)
class AveragePool:
    """requantise(Σ (x - zero_in), *multiplier(ratio / divisor), out); divisors from `taps_inside`. ratio = scale_in / scale_out."""

    window: Window
    include_pad: bool
    ratio: float
    zero_in: int
    out: Clamp


@dataclass(frozen=True)
class Affine:
    """Per channel: combine(x, factor[c], 0, 0, offset[c], shift[c], out). Constants int32 [c]."""

    factor: str
    offset: str
    shift: str
    out: Clamp


@dataclass(frozen=True)
class Maximum:
    """The greater of two tensors of equal shape and quantisation, which the output has too."""


@dataclass(frozen=True)
class Concat:
    """Channels of the inputs one after another; all have the output's quantisation."""


@dataclass(frozen=True)
class Pixels:
    """Rows and columns `step` apart, from `first` on, as many as the output has: y[c, i, j] = x[c, first + step * (i, j)].

    A place outside the map holds `outside`; `first` may be negative.
    """

    first: tuple[int, int]
    step: tuple[int, int]
    outside: int = 0


@dataclass(frozen=True)
class Channels:
    """y[c, i, j] = x[first + c, i, j], as many channels as the output has."""

    first: int


@dataclass(frozen=True)
class Mosaic:
    """One map of many: input n's pixel (i, j) is the output's first + step * (i, j), where (first, step) is `places[n]`.

    The inputs are made by nodes of one kind from the same tensor, for the Mosaic alone, and fill the output without overlap.
    """

    places: tuple[tuple[tuple[int, int], tuple[int, int]], ...]


IntegerOperator = (
    Combine | Conv | Depthwise | MaxPool | AveragePool | Affine | Concat | Pixels | Channels | Mosaic | Maximum
)  # of an int8 graph
AnyOperator: TypeAlias = "IntegerOperator | FloatOperator"
Operator = TypeVar("Operator", bound=AnyOperator, covariant=True)


@dataclass(frozen=True)
class Node(Generic[Operator]):
    """One operator: `name` is that of the source model's node it came from, `output` the tensor it makes.

    `Node[Conv]` is a node whose operator is known to be a Conv.
    """

    name: str
    op: Operator
    inputs: tuple[str, ...]
    output: str


AnyNode: TypeAlias = "Node[AnyOperator]"


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order; `tensors` describes every activation, `constants` holds the arrays that ops name."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[AnyNode, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    opset: int = 17  # of the ONNX operators in a float graph
    sources: Mapping[str, str] = field(default_factory=dict)  # operator of each node of the user's model, by its name
    types: Mapping[str, str] = field(default_factory=dict)  # numpy's type of tensors that are not float32; "" where it has none

    def uses(self, tensor: str) -> int:
        """How many node inputs and graph outputs a tensor is."""
        return sum(node.inputs.count(tensor) for node in self.nodes) + self.outputs.count(tensor)

    def producer(self, tensor: str) -> "AnyNode | None":
        """The node that makes a tensor; None for graph inputs and constants."""
        return next((node for node in self.nodes if node.output == tensor), None)


def taps_inside(window: Window, size: tuple[int, int], out: tuple[int, int], include_pad: bool = False) -> np.ndarray:
    """Taps of each output pixel that lie in a map of `size` (or in it with its padding): int [out rows, out columns]."""

    def along(axis: int) -> np.ndarray:
        before, after = window.pads[axis], window.pads[axis + 2]
        low, high = (-before, size[axis] + after) if include_pad else (0, size[axis])
        start = np.arange(out[axis])[:, None] * window.stride[axis] - before
        taps = start + np.arange(window.kernel[axis])[None] * window.dilation[axis]
        return ((taps >= low) & (taps < high)).sum(axis=1)

    return np.outer(along(0), along(1))
