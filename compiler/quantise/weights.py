"""A convolution's weights in int8: their scales, rounding to the nearest, and how they and the bias come into a graph."""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import Node

WEIGHT_MAX = 127  # the packing wants no -128
BIAS_MAX = 1 << 30  # leaves the sums of the products room in int32
GREATEST = float(np.finfo(np.float32).max)
NORMAL = 2 * float(np.finfo(np.float32).tiny)  # numbers below half of it have fewer bits, and some processors take them for 0


def scales_of(weights: np.ndarray, bias: np.ndarray, input_scale: float) -> np.ndarray:
    """Of each output channel, so that its greatest weight is WEIGHT_MAX; greater where its bias would not fit in int32.

    Also greater where float32 could not hold it, or the bias's scale, but as a number without all its bits: such weights become 0.
    1 for a channel of zeros.
    """
    greatest = np.abs(weights).reshape(len(weights), -1).max(axis=1)
    least = np.abs(bias) / (input_scale * BIAS_MAX)
    scale = np.maximum(greatest / WEIGHT_MAX, least)
    normal = NORMAL / min(input_scale, 1.0)
    return np.where(scale > 0, np.clip(scale, normal, GREATEST), 1.0).astype(np.float32).astype(np.float64)


def nearest(weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The weights as multiples of their scales, each rounded to the nearest."""
    whole = np.clip(np.rint(weights / scales[:, None, None, None]), -WEIGHT_MAX, WEIGHT_MAX)
    return whole * scales[:, None, None, None]


def mean_output(weights: np.ndarray, means: np.ndarray, groups: int) -> np.ndarray:
    """The mean of each output channel without its bias; means: the input's at each tap, [C, kernel rows, kernel columns]."""
    per_group = weights.shape[1]
    seen = np.repeat(means.reshape(groups, per_group, *means.shape[1:]), len(weights) // groups, axis=0)
    return (weights * seen).sum(axis=(1, 2, 3))


def put_weights(edit: Editor, node: Node, rounded: np.ndarray, bias: np.ndarray, scales: np.ndarray) -> None:
    """Gives a convolution weights that are multiples of `scales`, and a bias."""
    op: Conv = node.op
    changed = replace(
        op,
        weights=edit.constant(op.weights, rounded.astype(np.float32)),
        bias=edit.constant(op.bias, bias),
        weight_scale=edit.constant(f"{op.weights}:scales", scales),
    )
    edit.nodes[node.output] = replace(node, op=changed)
