"""Operators of the float graph: `Onnx` is any operator of the model; the others are the few forms that the passes reduce it to.

Tensors have ONNX's shapes; the batch axis comes first and has size 1 (`onnx_import` sets it). Typed operators other than views take
and give [1, C, H, W]; fields name their constants, which are not in `Node.inputs`. A constant that a model stores in int8 is held
as real values, exact enough to divide back; `scale_name(constant)` holds the scale of each element, in a shape that broadcasts.
`float_macs` counts what a node multiplies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

from cnna.compiler.graph.ir import Graph, Node, Quant, Window


@dataclass(frozen=True)
class Onnx:
    """Any ONNX operator; inputs as in the model, including constants and "" (absent).

    `captured`: under which names the graphs inside an If, Loop or Scan read tensors from outside. Those are the node's last inputs.
    """

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    more_outputs: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reshape:
    """The same elements in raster order; `shape` has the batch axis."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Transpose:
    """y's axis i is x's axis perm[i]; perm[0] is 0 wherever a rewrite may touch it."""

    perm: tuple[int, ...]


@dataclass(frozen=True)
class Conv:
    """clip(Σ x * weights + bias): weights [cout, cin / groups, kh, kw], bias [cout].

    With `weight_scale` [cout], the weights of a channel are whole multiples of its scale, -128 to 127.
    """

    window: Window
    groups: int
    weights: str
    bias: str
    weight_scale: str | None = None
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class MaxPool:
    """Greatest of the pixels inside the map."""

    window: Window


@dataclass(frozen=True)
class AveragePool:
    """clip(mean) of the pixels inside the map, or inside the map with its padding."""

    window: Window
    include_pad: bool = False
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Affine:
    """clip(x * scale + shift), both [C]."""

    scale: str
    shift: str
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Add:
    """clip(a + b), or clip(a - b) with `minus`, both of the output's shape."""

    low: float = -inf
    high: float = inf
    minus: bool = False


@dataclass(frozen=True)
class Maximum:
    """The greater of a and b, both of the output's shape."""


@dataclass(frozen=True)
class Clip:
    """min(max(x, low), high): Relu, ReLU6, Clip."""

    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Concat:
    """Channels of the inputs one after another."""


@dataclass(frozen=True)
class Join:
    """Rows (axis 2) or columns (axis 3) of the inputs one after another."""

    axis: int


@dataclass(frozen=True)
class Pixels:
    """y[c, i, j] = x[c, rows[i], columns[j]]: a nearest Resize, a Slice, a Pad that repeats or mirrors what is there."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Pad:
    """x with `value` around it. The widths are (top, left, bottom, right); a negative one cuts off as many rows or columns."""

    widths: tuple[int, int, int, int]
    value: float


@dataclass(frozen=True)
class Channels:
    """y[c, i, j] = x[first + c, i, j], as many channels as the output has."""

    first: int


@dataclass(frozen=True)
class Interleave:
    """y[c, step * i + a, step * j + b] = inputs[step * a + b][c, i, j]: step * step maps, pixel beside pixel."""

    step: int


@dataclass(frozen=True)
class Requantise:
    """A Q and its DQ: the nearest value that int8 at `quant` holds."""

    quant: Quant


CLIPPED = (Conv, AveragePool, Affine, Add, Clip)
VIEWS = (Reshape, Transpose)
FloatOperator = (
    Onnx
    | Reshape
    | Transpose
    | Conv
    | MaxPool
    | AveragePool
    | Affine
    | Add
    | Clip
    | Concat
    | Join
    | Pixels
    | Pad
    | Channels
    | Interleave
    | Maximum
    | Requantise
)
MOVES = (
    MaxPool,
    Concat,
    Join,
    Pixels,
    Channels,
    Interleave,
)  # every element of the output is one of the inputs', whatever the scale


def scale_name(constant: str) -> str:
    """Name of the constant that holds the scales of an int8 constant."""
    return constant + ":scale"


def float_macs(node: Node, graph: Graph) -> int:
    """Multiply-accumulates of a node of a float graph, for one image: those that the CPU does if the accelerator does not.

    Only convolutions and matrix products have any; 0 also if a shape is unknown.
    """
    if isinstance(node.op, Conv):
        weights = graph.constants[node.op.weights].shape
        return prod(weights) * prod(graph.tensors[node.output].shape[2:])
    if not isinstance(node.op, Onnx) or node.op.domain:
        return 0
    out = _shape(graph, node.output)
    kind = node.op.kind.removesuffix("Integer").removeprefix("QLinear")
    if kind in ("Conv", "ConvTranspose"):
        weights = _shape(graph, node.inputs[3 if node.op.kind.startswith("QLinear") else 1])
        image = out if kind == "Conv" else _shape(graph, node.inputs[0])
        return prod(weights) * prod(image[2:]) if weights and image else 0
    if kind in ("Gemm", "MatMul"):
        first = _shape(graph, node.inputs[0])
        summed = first[0] if kind == "Gemm" and node.op.attributes.get("transA") else first[-1] if first else 0
        return prod(out) * summed if out else 0
    return 0


def _shape(graph: Graph, name: str) -> tuple[int, ...]:
    return graph.constants[name].shape if name in graph.constants else graph.tensors[name].shape
