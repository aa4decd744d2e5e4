"""Cross-layer equalisation: scales channels between two layers, so that all of them use the range of their tensor.

After M. Nagel, M. van Baalen, T. Blankevoort, M. Welling, "Data-Free Quantization Through Weight Equalization and Bias Correction",
arXiv:1906.04721 (2019), section 4.1. A ReLU gives s * y for s * x if s > 0. So the first layer's output channel c is divided by s_c
and the second layer's weights for c are multiplied by it, which changes nothing in float:

    W1[c] / s_c,  b1[c] / s_c,  W2[:, c] * s_c

The paper makes the ranges of both layers' weights equal. Here weights have a scale for each output channel, so the factors
change nothing for the first layer. What counts is the tensor between them, x, which has one scale, and the second layer's
weights. With r_c, the greatest |x_c| on some samples, s_c is r_c to a power from 0 to 1, the one with the least noise behind
the second layer:

    sum over o, c of  d^2 (W2[o, c] s_c)^2 + D_o^2 Var[x_c] / s_c^2
    d = max over c of r_c / s_c / 255,  D_o = max over c of |W2[o, c]| s_c / 127

where 0 leaves everything as it is. The mean of x does not count, since the corrected bias takes care of it. If the second layer is
depthwise, D_o follows s_c, and the power is 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import AveragePool, Clip, Conv, MaxPool, Pad, Pixels
from cnna.compiler.graph.ir import Graph, Node, Scaled
from cnna.compiler.passes.fusion.fuse_affine import fits
from cnna.compiler.quantise.calibrate import ChannelStatistics
from cnna.compiler.quantise.weights import WEIGHT_MAX

GREAT = 1e30  # beyond it, a mask's numbers times a scale might not be finite
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
LEVELS = 255.0
EQUALISED = ":equalised"  # ends the names of tensors whose channels are scaled
MOST = 64.0  # and one by this: the scales that channels may get
LEAST = 1e-3  # of the greatest channel's reach: a channel below is as good as dead, and keeps its scale

Pair = tuple[Node[Any], Node[Any]]


def pairs(graph: Graph, body: Graph) -> list[Pair]:
    """Convolutions with the one that reads their output; between them is nothing, or what gives s * y for s * x.

    body: what of the graph the accelerator runs. A tensor with several readers is left alone, and so is one behind a ReLU6.
    """
    readers: dict[str, Node[Any]] = {name: node for node in body.nodes for name in node.inputs}
    found = []
    for node in body.nodes:
        if not isinstance(node.op, Conv) or not _is_homogeneous(node):
            continue
        last = node
        while graph.uses(last.output) == 1 and last.output in readers:
            last = readers[last.output]
            if isinstance(last.op, Conv):
                found.append((node, last))
            if isinstance(last.op, Conv) or not _is_homogeneous(last):
                break
    return found


def _is_homogeneous(node: Node[Any]) -> bool:
    """Whether a node gives s * y for s * x (a convolution: for s times its weights and bias), with an s of each channel's own."""
    op = node.op
    if isinstance(op, Pad):
        return op.value == 0
    if isinstance(op, Conv | AveragePool | Clip):
        return op.low in (-inf, 0) and op.high == inf
    return isinstance(op, MaxPool | Pixels)


def equalised(graph: Graph, chosen: Sequence[Pair], seen: Mapping[str, ChannelStatistics]) -> Graph:
    """The graph with these `pairs` equalised. seen: what samples say of the first ones' outputs."""
    edit, scaled = Editor(graph), dict[str, Scaled]()
    for pair in chosen:
        first, second = (_as_it_is(edit, node) for node in pair)
        one, other = first.op, second.op
        weights = edit.constants[other.weights]
        scales = _scales(seen[first.output], weights, other.groups)
        if scales is None:
            continue
        made = edit.constants[one.weights] / scales[:, None, None, None], edit.constants[one.bias] / scales
        read = weights * _of_inputs(scales, weights, other.groups)
        if fits(*made, read):
            _put(edit, first, *made)
            _put(edit, second, read, edit.constants[other.bias])
            names = _rename(edit, first.output, second.output)
            scaled |= {new: Scaled(old, tuple(scales.tolist())) for new, old in names.items()}
    return replace(edit.finish(), scaled={**graph.scaled, **scaled})


def _rename(edit: Editor, first: str, second: str) -> dict[str, str]:
    """Renames the tensors from one node to another: under their own names, users would take scaled channels for the model's.

    Returns the old name of each new one.
    """
    reader, name, names = edit.nodes[second], "", dict[str, str]()
    while name != first:
        (name,) = reader.inputs
        edit.tensors[new := edit.fresh(f"{name}{EQUALISED}")] = edit.tensors[name]
        edit.nodes[reader.output] = replace(reader, inputs=(new,))
        reader = edit.nodes[new] = replace(edit.nodes.pop(name), output=new)
        names[new] = name
    return names


def _as_it_is(edit: Editor, node: Node[Any]) -> Node[Any]:
    """A node as earlier changes have left it."""
    return edit.nodes[node.output]


def _of_inputs(scales: np.ndarray, weights: np.ndarray, groups: int) -> np.ndarray:
    """What channels of the input have, for each weight: [cout, cin / groups, 1, 1]."""
    return np.repeat(scales.reshape(groups, -1), len(weights) // groups, axis=0)[:, :, None, None]


def _scales(seen: ChannelStatistics, weights: np.ndarray, groups: int) -> np.ndarray | None:
    """s of each channel, whose geometric mean is 1; None: leave them as they are. weights: the second layer's."""
    reach = np.maximum(np.abs(seen.low), np.abs(seen.high)).astype(np.float64)
    alive = reach > LEAST * reach.max()
    if not alive.any() or not (reach < GREAT).all():  # NaN too: such tensors stay in float
        return None
    logs = np.where(alive, np.log(np.where(alive, reach, 1.0)), 0.0)
    logs = np.where(alive, logs - logs[alive].mean(), 0.0)
    tried = [np.clip(np.exp(power * logs), 1 / MOST, MOST) for power in POWERS]
    least = int(np.argmin([_noise(scales, reach, seen.variances, weights, groups) for scales in tried]))
    return tried[least] if least else None


def _noise(scales: np.ndarray, reach: np.ndarray, variances: np.ndarray, weights: np.ndarray, groups: int) -> float:
    """The noise of the second layer's output, in some unit."""
    scaled = weights * _of_inputs(scales, weights, groups)
    step = (reach / scales).max() / LEVELS
    steps = np.abs(scaled).max(axis=(1, 2, 3)) / WEIGHT_MAX
    power = _of_inputs(variances / np.square(scales), weights, groups)
    taps = weights.shape[2] * weights.shape[3]
    return float(np.square(step) * np.square(scaled).sum() + (np.square(steps) * taps * power.sum(axis=(1, 2, 3))).sum())


def _put(edit: Editor, node: Node[Any], weights: np.ndarray, bias: np.ndarray) -> None:
    op = replace(
        node.op,
        weights=edit.constant(node.op.weights, weights.astype(np.float32)),
        bias=edit.constant(node.op.bias, bias.astype(np.float32)),
        weight_scale=None,  # scaled weights are no multiples of it, as those that select a channel were
    )
    edit.nodes[node.output] = replace(node, op=op)
