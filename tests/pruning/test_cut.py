"""Channels whose weights are zero may go: the answers stay. One network for each way in which channels are coupled."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from cnna.pruning.cut import cut
from cnna.pruning.follow import Followed, follow
from cnna.pruning.values import network
from tests.pruning.small import ALIKE, answers, model, numbers, sample

CONV = "<pads = [1, 1, 1, 1]>"
STEM = f"a = Conv {CONV} (x, w1, b1)  r = Relu (a)"
HEAD = "g = GlobalAveragePool (h)  f = Flatten (g)  y = Gemm <transB = 1> (f, wf, bf)"
FIRST = {"w1": (8, 3, 3, 3), "b1": (8,)}


def _last(inputs: int) -> dict[str, Any]:
    return {"wf": (5, inputs), "bf": (5,)}


def _shuffle(groups: int, channels: int) -> tuple[str, dict[str, Any]]:
    """A channel shuffle of `r` into `s`."""
    nodes = "s0 = Reshape (r, to)  s1 = Transpose <perm = [0, 2, 1, 3, 4]> (s0)  s = Reshape (s1, back)"
    return nodes, {"to": numbers(-1, groups, channels // groups, 8, 8), "back": numbers(0, channels, 8, 8)}


NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": (f"{STEM} h = Conv {CONV} (r, w2)", {**FIRST, "w2": (6, 8, 3, 3), **_last(6)}),
    "residual": (
        f"{STEM} c = Conv {CONV} (r, w2, b2) s = Add (c, r) h = Relu (s)",
        {**FIRST, "w2": (8, 8, 3, 3), "b2": (8,), **_last(8)},
    ),
    "depthwise": (f"{STEM} d = Conv <group = 8> (r, w2) h = Clip (d)", {**FIRST, "w2": (8, 1, 3, 3), **_last(8)}),
    "depth multiplier": (f"{STEM} h = Conv <group = 8> (r, w2)", {**FIRST, "w2": (16, 1, 3, 3), **_last(16)}),
    "concatenation": (
        f"{STEM} p = Conv (r, w2) q = Conv {CONV} (r, w3) h = Concat <axis = 1> (p, q, r)",
        {**FIRST, "w2": (4, 8, 1, 1), "w3": (6, 8, 3, 3), **_last(18)},
    ),
    "shuffle": (
        f"{STEM} {_shuffle(2, 8)[0]} h = Conv <group = 2> (s, w2)",
        {**FIRST, **_shuffle(2, 8)[1], "w2": (8, 4, 1, 1), **_last(8)},
    ),
    "shuffle by dimensions": (
        f"{STEM} s0 = Reshape (r, to) s1 = Transpose <perm = [0, 2, 1, 3, 4]> (s0) s = Reshape (s1, back) h = Relu (s)",
        {**FIRST, "to": numbers(1, 4, 2, 8, 8), "back": numbers(1, 8, 8, 8), **_last(8)},
    ),
    "squeeze and excite": (
        f"{STEM} m = ReduceMean <axes = [2, 3]> (r) z = Conv (m, w2, b2) u = Relu (z) v = Conv (u, w3) "
        "e = HardSigmoid (v) h = Mul (r, e)",
        {**FIRST, "w2": (4, 8, 1, 1), "b2": (4,), "w3": (8, 4, 1, 1), **_last(8)},
    ),
    "squeeze and excite by Gemm": (
        f"{STEM} m = ReduceMean <axes = [2, 3], keepdims = 0> (r) z = Gemm (m, w2) u = Relu (z) v = MatMul (u, w3) "
        "e = Sigmoid (v) k = Unsqueeze (e, ax) h = Mul (r, k)",
        {**FIRST, "w2": (8, 4), "w3": (4, 8), "ax": numbers(2, 3), **_last(8)},
    ),
    "flatten": (f"{STEM} p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) h = Identity (p)", {**FIRST, **_last(8)}),
    "normalisation": (
        f"a = Conv {CONV} (x, w1) n = BatchNormalization (a, sc, sh, mu, va) h = LeakyRelu (n)",
        {"w1": (8, 3, 3, 3), "sc": (8,), "sh": (8,), "mu": (8,), "va": np.linspace(1, 2, 8, dtype=np.float32), **_last(8)},
    ),
    "constants of each channel": (
        f"{STEM} p = PRelu (r, sl) q = Mul (p, k) h = Add (q, t)",
        {**FIRST, "sl": (8, 1, 1), "k": (1, 8, 1, 1), "t": (8, 1, 1), **_last(8)},
    ),
    "grouped": (f"{STEM} h = Conv <group = 2> (r, w2, b2)", {**FIRST, "w2": (6, 4, 3, 3), "b2": (6,), **_last(6)}),
    "split": (
        f"{STEM} p, q = Split <axis = 1> (r, sz) c = Conv {CONV} (p, w2) h = Concat <axis = 1> (c, q)",
        {**FIRST, "sz": numbers(4, 4), "w2": (6, 4, 3, 3), **_last(10)},
    ),
    "even split": (
        f"{STEM} p, q = Split <axis = 1> (r) c = Conv {CONV} (p, w2) h = Concat <axis = 1> (c, q)",
        {**FIRST, "w2": (6, 4, 3, 3), **_last(10)},
    ),
    "halves that are found": (
        f"{STEM} z = Shape (r) n = Gather (z, ax) k = Div (n, two) p = Slice (r, b, k, ax) q = Slice (r, k, n, ax) "
        f"c = Conv {CONV} (p, w2) h = Concat <axis = 1> (c, q)",
        {**FIRST, "ax": numbers(1), "two": numbers(2), "b": numbers(0), "w2": (6, 4, 3, 3), **_last(10)},
    ),
    "slice": (
        f"{STEM} p = Slice (r, b, e, ax) h = Conv (p, w2)",
        {**FIRST, "b": numbers(2), "e": numbers(-1), "ax": numbers(1), "w2": (6, 5, 1, 1), **_last(6)},
    ),
    "gather": (f"{STEM} h = Gather <axis = 1> (r, at)", {**FIRST, "at": numbers(7, 1, 3, 4), **_last(4)}),
    "pixels from channels": (f"{STEM} d = DepthToSpace <blocksize = 2> (r) h = Relu (d)", {**FIRST, **_last(2)}),
    "channels from pixels": (f"{STEM} h = SpaceToDepth <blocksize = 2> (r)", {**FIRST, **_last(32)}),
    "resize": (
        f"{STEM} h = Resize (r, , , to)",
        {**FIRST, "to": numbers(1, 8, 16, 16), **_last(8)},
    ),
    "a size that is found": (
        f"{STEM} z = Shape (x) n = Gather (z, one) k = Unsqueeze (n, ax) to = Concat <axis = 0> (k, b) h = Reshape (r, to)",
        {**FIRST, "one": np.array(0, np.int64), "ax": numbers(0), "b": numbers(8, 8, 8), **_last(8)},
    ),
    "pad": (f"{STEM} h = Pad (r, wd)", {**FIRST, "wd": numbers(0, 0, 1, 2, 0, 0, 1, 0), **_last(8)}),
    "transposed": (
        f"{STEM} t = ConvTranspose <strides = [2, 2]> (r, w2, b2) h = Conv (t, w3)",
        {**FIRST, "w2": (8, 6, 2, 2), "b2": (6,), "w3": (4, 6, 1, 1), **_last(4)},
    ),
    "transposed in groups": (f"{STEM} h = ConvTranspose <group = 2> (r, w2)", {**FIRST, "w2": (8, 3, 2, 2), **_last(6)}),
    "shared weights": (
        f"{STEM} c = Conv {CONV} (r, w2) d = Conv {CONV} (c, w2) h = Relu (d)",
        {**FIRST, "w2": (8, 8, 3, 3), **_last(8)},
    ),
}


def _made(name: str) -> onnx.ModelProto:
    nodes, weights = NETWORKS[name]
    head = HEAD
    if name == "flatten":
        head = "f = Flatten (h)  y = Gemm <transB = 1> (f, wf, bf)"
        weights = {**weights, "wf": (5, 8 * 4 * 4)}
    return model(f"{nodes} {head}", weights, "float[1,3,8,8] x", "float[1,5] y")


def _zeroed(found: Followed, gone: list[int]) -> None:
    """Gives all constants 0 for some channels."""
    for name, value in found.constants.items():
        for axis, labels in found.of(name).items():
            value = np.where(
                np.isin(found.coupled.roots(labels), gone).reshape([-1 if i == axis else 1 for i in range(value.ndim)]), 0, value
            )
        found.constants[name] = value.astype(found.constants[name].dtype)


@pytest.mark.parametrize("name", NETWORKS)
def test_zero_channels_go_without_a_trace(name: str) -> None:
    """A weight would be cut at the wrong place, or a size would be stated that is not there any more."""
    x = sample((1, 3, 8, 8))
    found = follow(network(_made(name), name, {"x": x}))
    gone: list[int] = []
    for _, roots in found.coupled.families():
        free = [int(root) for root in roots if found.coupled.why_kept(int(root)) is None]
        gone += free[1::2] if len(free) > 1 else []
    assert gone, "nothing of it can be pruned"
    _zeroed(found, gone)
    whole = cut(found, ())
    small = cut(found, gone)
    (wanted,), (made,) = answers(whole, {"x": x}), answers(small, {"x": x})
    assert np.abs(made - wanted).max() <= ALIKE * np.abs(wanted).max()
    sizes = [sum(numpy_helper.to_array(one).size for one in each.graph.initializer) for each in (whole, small)]
    assert sizes[1] < sizes[0]
    assert [value.name for value in small.graph.input] == ["x"]
    read = {one for node in small.graph.node for one in node.input}
    assert {one.name for one in small.graph.initializer} <= read, "onnxruntime would warn of constants that nothing reads"


KEPT: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "an output": ("y = Conv (x, w1)", {"w1": (8, 3, 1, 1)}, "float[1,8,8,8] y", "it reaches the output 'y'"),
    "a sum over channels": (
        f"{STEM} l = LRN <size = 3> (r) y = Conv (l, w2)",
        {**FIRST, "w2": (5, 8, 1, 1)},
        "float[1,5,8,8] y",
        "LRN (l) needs all of them",
    ),
    "a mean over channels": (
        f"{STEM} y = ReduceMean <axes = [1]> (r)",
        FIRST,
        "float[1,1,8,8] y",
        "ReduceMean (y) needs all of them",
    ),
    "the input beside them": (
        f"a = Conv {CONV} (x, w1) s = Add (a, x) y = Conv (s, w2)",
        {"w1": (3, 3, 3, 3), "w2": (5, 3, 1, 1)},
        "float[1,5,8,8] y",
        "Add (s) joins them with 'x', which has other channels",
    ),
    "a convolution along one axis": (
        f"{STEM} p = Reshape (r, to) y = Conv (p, w2)",
        {**FIRST, "to": numbers(1, 8, 64), "w2": (5, 8, 1)},
        "float[1,5,64] y",
        "Conv (y) needs all of them",
    ),
    "one channel": (
        f"{STEM} p = Gather <axis = 1> (r, at) k = Unsqueeze (p, ax) y = Conv (k, w2)",
        {**FIRST, "at": np.array(3, np.int64), "ax": numbers(1), "w2": (5, 1, 1, 1)},
        "float[1,5,8,8] y",
        "Gather (p) needs all of them",
    ),
    "rows that depend on the input": (
        f"{STEM} m = ReduceMin <keepdims = 0> (x) i = Cast <to = 7> (m) j = Unsqueeze (i, z) k = Mul (j, z) "
        "p = Slice (r, k, e, ax) y = ReduceMean <axes = [1]> (p)",
        {**FIRST, "ax": numbers(2), "z": numbers(0), "e": numbers(8)},
        "float[1,1,8,8] y",
        "Slice (p) needs all of them",
    ),
    "every second channel": (
        f"{STEM} p = Slice (r, b, e, ax, st) y = Conv (p, w2)",
        {**FIRST, "b": numbers(0), "e": numbers(8), "ax": numbers(1), "st": numbers(2), "w2": (5, 4, 1, 1)},
        "float[1,5,8,8] y",
        "Slice (p) needs all of them",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_followed_stays_and_says_why(name: str) -> None:
    """Channels would go that others need, or a user would not learn why nothing can be saved."""
    nodes, weights, outputs, why = KEPT[name]
    found = follow(network(model(nodes, weights, "float[1,3,8,8] x", outputs), name, {"x": sample((1, 3, 8, 8))}))
    _, roots = found.coupled.families()[0]
    assert {found.coupled.why_kept(int(root)) for root in roots} == {why}
    x = {"x": sample((1, 3, 8, 8))}
    (wanted,), (made,) = answers(found.network.proto, x), answers(cut(found, ()), x)
    assert np.array_equal(made, wanted), "it would be another network, though nothing was removed"


def test_residual_channels_go_together() -> None:
    """One of both operands of an Add would lose a channel that the other keeps."""
    found = follow(network(_made("residual"), "net", {"x": sample((1, 3, 8, 8))}))
    families = [([found.network.called(node) for node in nodes], len(roots)) for nodes, roots in found.coupled.families()]
    assert families[0] == (["a", "c"], 8)


def test_what_is_folded_leaves_nothing_unread() -> None:
    """Weights that a Reshape gives their axes would be in the file twice, and onnxruntime would warn of them each time."""
    nodes = f"{STEM} w = Reshape (flat, kernel)  h = Conv {CONV} (r, w)  {HEAD}"
    whole = model(nodes, {**FIRST, "flat": (6, 72), "kernel": numbers(6, 8, 3, 3), **_last(6)}, "float[N,3,8,8] x", "float[N,5] y")
    found = follow(network(whole, "net", {"x": sample((1, 3, 8, 8))}))
    left = cut(found, ())
    assert {tensor.name for tensor in left.graph.initializer} == {name for node in left.graph.node for name in node.input} - {
        "x",
        *(name for node in left.graph.node for name in node.output),
    }
