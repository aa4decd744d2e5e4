"""Operators of the float graph. `Onnx` is any operator of the model; the others are the few forms to which the passes reduce it.

Tensors have ONNX's shapes. The batch axis comes first and has size 1 (`source_model` sets it). Typed operators other than views
read and write [1, C, H, W]. Their fields name their constants, which are not in `Node.inputs`; `CONSTANTS` says which fields. A
constant that a model stores in int8 is held as real values, exact enough to divide back by `Graph.scales`, which broadcast to its
shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any, ClassVar

from cnna.compiler.graph.ir import Graph, Node, Quant, Window


@dataclass(frozen=True)
class Onnx:
    """Any ONNX operator. Its inputs are those of the model, including constants and "" (absent).

    captured: the names under which graphs inside an If, Loop or Scan read tensors from outside. These tensors are the node's last
    inputs.
    """

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    more_outputs: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reshape:
    """The same elements in raster order. `shape` includes the batch axis."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Transpose:
    """Axis i of the output is axis perm[i] of the input. perm[0] is 0 wherever a rewrite may touch it."""

    perm: tuple[int, ...]


@dataclass(frozen=True)
class Conv:
    """clip(Σ x * weights + bias). Constants: weights [cout, cin / groups, kh, kw]; bias [cout].

    With `weight_scale` [cout], the weights of an output channel are whole multiples (-128 to 127) of its scale.
    """

    CONSTANTS: ClassVar = ("weights", "bias", "weight_scale")
    window: Window
    groups: int
    weights: str
    bias: str
    weight_scale: str | None = None
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class MaxPool:
    """The greatest of the pixels inside the map."""

    window: Window


@dataclass(frozen=True)
class AveragePool:
    """clip(mean) of the window's pixels inside the map; with `include_pad`, also of those in its padding."""

    window: Window
    include_pad: bool = False
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Bilinear:
    """clip(the map enlarged `times` (down, right) by a mean of the four pixels around each new one), as `ir.Bilinear` has it."""

    times: tuple[int, int]
    centred: bool
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Affine:
    """clip(x * scale + shift). Constants: scale [C], shift [C]."""

    CONSTANTS: ClassVar = ("scale", "shift")
    scale: str
    shift: str
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Add:
    """clip(a + b), or clip(a - b) with `minus`.

    Each operand has the output's shape, or one of them is flat: [1, C, 1, 1], one value of a channel for all pixels.
    """

    low: float = -inf
    high: float = inf
    minus: bool = False


@dataclass(frozen=True)
class Product:
    """clip(a * b). One operand may be flat, as in Add."""

    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Maximum:
    """The greater of a and b. One operand may be flat, as in Add."""


@dataclass(frozen=True)
class Minimum:
    """The lesser of a and b. One operand may be flat, as in Add."""


@dataclass(frozen=True)
class Clip:
    """min(max(x, low), high), such as a Relu or ReLU6."""

    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Concat:
    """The channels of the inputs, one input after another."""


@dataclass(frozen=True)
class Join:
    """The rows (axis 2) or columns (axis 3) of the inputs, one input after another."""

    axis: int


@dataclass(frozen=True)
class Pixels:
    """y[c, i, j] = x[c, rows[i], columns[j]]: a nearest Resize, a Slice, or a Pad that repeats or mirrors pixels of the map."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Pad:
    """x with `value` around it. widths: (top, left, bottom, right); a negative width cuts off rows or columns."""

    widths: tuple[int, int, int, int]
    value: float


@dataclass(frozen=True)
class Channels:
    """y[c, i, j] = x[first + c, i, j], for as many channels as the output has."""

    first: int


@dataclass(frozen=True)
class Interleave:
    """y[c, step * i + a, step * j + b] = inputs[step * a + b][c, i, j]. The inputs are step * step maps."""

    step: int


@dataclass(frozen=True)
class Requantise:
    """A Q followed by its DQ: rounds to the nearest value that int8 with `quant` can hold."""

    quant: Quant


@dataclass(frozen=True)
class Chain:
    """Element-wise nodes of one map as one function of it: Sigmoid, x * Sigmoid(x), a Q and DQ between the two.

    nodes: in order, each an Onnx that `pointwise` knows or a Requantise; the last one makes the output. source: the name by which
    they read the map. numbers: the value of each constant, by name; every constant is one number.
    """

    nodes: tuple[Node, ...]
    source: str
    numbers: tuple[tuple[str, float], ...] = ()


CLIPPED = (Conv, AveragePool, Bilinear, Affine, Add, Product, Clip)
VIEWS = (Reshape, Transpose)
FloatOperator = (
    Onnx
    | Reshape
    | Transpose
    | Conv
    | MaxPool
    | AveragePool
    | Bilinear
    | Affine
    | Add
    | Clip
    | Concat
    | Join
    | Pixels
    | Pad
    | Channels
    | Interleave
    | Product
    | Maximum
    | Minimum
    | Requantise
    | Chain
)
# Kinds of `Onnx` whose outputs hold elements of their inputs, and the value of a Pad.
MOVERS = (
    *("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Slice", "Concat", "Pad"),
    *("Gather", "Resize", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"),
)
MOVES = (MaxPool, Concat, Join, Pixels, Channels, Interleave)  # each element of the output is one of an input, at any scale


def float_macs(node: Node, graph: Graph) -> int:
    """Multiply-accumulates of a node of a float graph for one image, if the CPU computes it.

    Only convolutions and matrix products have any. 0 also if a shape is unknown.
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
