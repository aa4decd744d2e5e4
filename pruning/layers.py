"""Layers with weights, as matrix products: the rows of weights, and the columns of inputs that they are multiplied with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from cnna.pruning.coupled import Labels
from cnna.pruning.follow import CHANNELS, Followed
from cnna.pruning.values import attributes

Real = NDArray[np.float64]
Picture = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution or a matrix product. weights: as in the model, whole or with channels cut away."""

    number: int
    node: NodeProto
    weights: NDArray[np.float32]
    bias: NDArray[np.float32] | None

    @property
    def groups(self) -> int:
        """Of a convolution; 1 otherwise."""
        return int(attributes(self.node).get("group", 1)) if self.node.op_type == "Conv" else 1

    @property
    def turned(self) -> bool:
        """Whether the weights of an output lie in a column."""
        return self.node.op_type == "MatMul" or (self.node.op_type == "Gemm" and not attributes(self.node).get("transB"))

    @cached_property
    def rows(self) -> Real:
        """[groups, outputs of a group, taps]: channel by channel, and in each the kernel's rows and columns."""
        own = self.weights.T if self.turned else self.weights
        return own.reshape(self.groups, len(own) // self.groups, -1).astype(np.float64)

    def put(self, rows: Real) -> NDArray[np.float32]:
        """Such rows as the model has them."""
        own = rows.astype(np.float32)
        return own[0].T if self.turned else own.reshape(-1, *self.weights.shape[1:])

    @property
    def taps(self) -> int:
        """Numbers that an output of one pixel is the sum of."""
        return int(self.rows.shape[2])

    def columns(self, x: Picture, out: tuple[int, ...], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """[groups, taps, pixels]: what some output pixels see. x: the input of one sample; out: the output's shape."""
        if self.node.op_type != "Conv":
            return x.reshape(-1, x.shape[-1])[chosen].T[None]
        given, (high, wide) = attributes(self.node), self.weights.shape[2:]
        strides, dilations = given.get("strides", [1, 1]), given.get("dilations", [1, 1])
        top, left = _before(given, x.shape[2:], out[2:], strides, dilations, (high, wide))
        reach = [(size - 1) * step for size, step in zip(out[2:], strides, strict=True)]
        below = [far + (kernel - 1) * gap + 1 for far, kernel, gap in zip(reach, (high, wide), dilations, strict=True)]
        maps = np.zeros((x.shape[1], max(below[0], top + x.shape[2]), max(below[1], left + x.shape[3])), np.float32)
        maps[:, top : top + x.shape[2], left : left + x.shape[3]] = x[0]
        row, column = (chosen // out[3]) * strides[0], (chosen % out[3]) * strides[1]
        seen = [maps[:, row + i * dilations[0], column + j * dilations[1]] for i in range(high) for j in range(wide)]
        return np.stack(seen, axis=1).reshape(self.groups, -1, len(chosen))

    def outputs(self, y: Picture, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """[groups, outputs of a group, pixels] of one sample."""
        flat = y.reshape(y.shape[1], -1) if self.node.op_type == "Conv" else y.reshape(-1, y.shape[-1]).T
        return flat[:, chosen].reshape(self.groups, -1, len(chosen))

    def pixels(self, out: tuple[int, ...]) -> int:
        """Output pixels of one sample."""
        return int(np.prod(out[2:] if self.node.op_type == "Conv" else out[:-1]))


def _before(
    given: Mapping[str, list[int]],
    size: tuple[int, ...],
    out: tuple[int, ...],
    strides: list[int],
    dilations: list[int],
    kernel: tuple[int, int],
) -> tuple[int, int]:
    """Rows and columns of padding in front of a map."""
    kind = given.get("auto_pad", "NOTSET")
    if kind not in ("SAME_UPPER", "SAME_LOWER"):
        pads = given.get("pads", [0, 0, 0, 0])
        return pads[0], pads[1]
    whole = [max((out[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size[i], 0) for i in range(2)]
    first, second = ((one + (kind == "SAME_LOWER")) // 2 for one in whole)
    return first, second


def layers_of(found: Followed) -> dict[int, Layer]:
    """Every layer that can be solved anew, by its node's number."""
    made = {}
    for number in found.linear:
        node = found.network.nodes[number]
        if node.op_type != "ConvTranspose":
            bias = found.constants.get(node.input[2]) if len(node.input) > 2 else None
            made[number] = Layer(number, node, found.constants[node.input[1]], bias)
    return made


def input_labels(found: Followed, layer: Layer) -> Labels | None:
    """[groups, channels of a group]: the roots of what a layer reads; None: what it reads has no channels, or it is depthwise."""
    axes = found.of(layer.node.input[0])
    if not axes:
        return None
    (labels,) = axes.values()
    if layer.groups > 1 and layer.weights.shape[CHANNELS] == 1:
        return None
    return found.coupled.roots(labels).reshape(layer.groups, -1)
