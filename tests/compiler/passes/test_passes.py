"""What each rewrite must leave alone, because it would not be exact, and forms that `test_pipeline.py` does not have.

`rewritten` checks every time that the graph still computes what onnxruntime computes for the model.
"""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import AveragePool, Clip, Conv, MaxPool
from cnna.compiler.graph.ir import Graph
from cnna.spec.errors import ModelError

from ..written import rewritten, written


def ints(*values):
    return np.array(values, np.int64)


def op_of(graph: Graph, kind: type):
    (found,) = [node.op for node in graph.nodes if isinstance(node.op, kind)]
    return found


CASES = {
    "shift before padding stays": (
        """g (float[N,3,5,5] x) => (float[N,4,5,5] y) {
            a = Add (x, s)
            y = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (a, w)}""",
        {"s": (1, 3, 1, 1), "w": (4, 3, 3, 3)},
        ["Affine", "Conv"],
    ),
    "scale before padding goes in": (
        """g (float[N,4,5,5] x) => (float[N,6,5,5] y) {
            a = Mul (s, x)
            y = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=2> (a, w)}""",
        {"s": (1, 4, 1, 1), "w": (6, 2, 3, 3)},
        ["Conv"],
    ),
    "affine of a shared tensor stays": (
        """g (float[N,3,5,5] x) => (float[N,4,5,5] y, float[N,4,5,5] z) {
            y = Conv <kernel_shape=[1,1]> (x, w)
            z = Mul (y, s)}""",
        {"s": (4, 1, 1), "w": (4, 3, 1, 1)},
        ["Conv", "Affine"],
    ),
    "affine behind a relu stays": (
        """g (float[N,3,5,5] x) => (float[N,4,5,5] y) {
            a = Conv <kernel_shape=[1,1]> (x, w)
            b = Relu (a)
            c = Mul (b, s)
            y = Add (c, s)}""",
        {"s": (4, 1, 1), "w": (4, 3, 1, 1)},
        ["Conv", "Affine"],
    ),
    "affines merge": (
        """g (float[N,3,5,5] x) => (float[N,3,5,5] y) {
            a = Mul (x, s)
            b = Sub (t, a)
            y = Mul (b, u)}""",
        {"s": (3, 1, 1), "t": (3, 1, 1), "u": (3, 1, 1)},
        ["Affine"],
    ),
    "relu of a shared tensor stays": (
        """g (float[N,3,5,5] x) => (float[N,4,5,5] y) {
            a = Conv <kernel_shape=[1,1]> (x, w)
            b = Relu (a)
            y = Add (a, b)}""",
        {"w": (4, 3, 1, 1)},
        ["Conv", "Clip", "Add"],
    ),
    "relu behind pool and concat goes to the sources": (
        """g (float[N,3,6,6] x) => (float[N,9,3,3] y) {
            a = Conv <kernel_shape=[1,1]> (x, w)
            b = Conv <kernel_shape=[1,1]> (x, v)
            c = Concat <axis=1> (a, b)
            d = MaxPool <kernel_shape=[2,2], strides=[2,2]> (c)
            y = Relu (d)}""",
        {"w": (4, 3, 1, 1), "v": (5, 3, 1, 1)},
        ["Conv", "Conv", "Concat", "MaxPool"],
    ),
    "pad with another value stays": (
        """g (float[N,3,5,5] x) => (float[N,4,5,5] y) {
            a = Pad (x, pads, one)
            y = Conv <kernel_shape=[3,3]> (a, w)}""",
        {"pads": ints(0, 0, 1, 1, 0, 0, 1, 1), "one": np.float32(1), "w": (4, 3, 3, 3)},
        ["Pad", "Conv"],
    ),
    "pad before a max pool of any sign becomes a copy": (
        """g (float[N,3,5,5] x) => (float[N,3,3,3] y) {
            a = Pad (x, pads)
            y = MaxPool <kernel_shape=[3,3], strides=[2,2]> (a)}""",
        {"pads": ints(0, 0, 1, 1, 0, 0, 1, 1)},
        ["Conv", "MaxPool"],
    ),
    "pad before a max pool of a relu goes in": (
        """g (float[N,3,5,5] x) => (float[N,3,3,3] y) {
            r = Relu (x)
            a = Pad (r, pads)
            y = MaxPool <kernel_shape=[3,3], strides=[2,2]> (a)}""",
        {"pads": ints(0, 0, 1, 1, 0, 0, 1, 1)},
        ["Clip", "MaxPool"],
    ),
    "pad before an average is counted": (
        """g (float[N,3,5,5] x) => (float[N,3,3,3] y) {
            a = Pad (x, pads)
            y = AveragePool <kernel_shape=[3,3], strides=[2,2]> (a)}""",
        {"pads": ints(0, 0, 1, 1, 0, 0, 1, 1)},
        ["AveragePool"],
    ),
    "option A shortcut": (
        """g (float[N,4,6,6] x) => (float[N,8,3,3] y) {
            a = Relu (x)
            b = Slice (a, starts, ends, axes, steps)
            c = Pad (b, pads)
            d = Conv <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (a, w)
            y = Add (c, d)}""",
        {"starts": ints(0, 0), "ends": ints(99, 99), "axes": ints(2, 3), "steps": ints(2, 2), "pads": ints(0, 2, 0, 0, 0, 2, 0, 0),
         "w": (8, 4, 3, 3)},
        ["Clip", "Conv", "Conv", "Add"],
    ),
    "slice of a part stays": (
        """g (float[N,4,6,6] x) => (float[N,4,2,3] y) { y = Slice (x, starts, ends, axes, steps) }""",
        {"starts": ints(2, 0), "ends": ints(99, 99), "axes": ints(2, 3), "steps": ints(2, 2)},
        ["Slice"],
    ),
    "sum of three, of one twice": (
        """g (float[N,3,4,4] x, float[N,3,4,4] z) => (float[N,3,4,4] y, float[N,3,4,4] t) {
            y = Sum (x, z, x)
            t = Add (z, z)}""",
        {},
        ["Affine", "Add", "Add"],
    ),
    "broadcast of a computed tensor stays": (
        """g (float[N,3,4,4] x) => (float[N,3,4,4] y) {
            m = GlobalAveragePool (x)
            y = Mul (x, m)}""",
        {},
        ["AveragePool", "Mul"],
    ),
    "constant of every pixel stays": (
        "g (float[N,3,4,4] x) => (float[N,3,4,4] y) { y = Add (x, s) }",
        {"s": (3, 4, 4)},
        ["Add"],
    ),
    "flatten of a map in channels-last order": (
        """g (float[N,2,3,4] x) => (float[N,5] y) {
            r = Relu (x)
            t = Transpose <perm=[0,2,3,1]> (r)
            f = Flatten (t)
            y = Gemm (f, w)}""",
        {"w": (24, 5)},
        ["Clip", "Conv", "Reshape"],
    ),
    "flatten of the input stays with the head": (
        """g (float[N,2,3,4] x) => (float[N,5] y) {
            f = Flatten (x)
            y = Gemm (f, w)}""",
        {"w": (24, 5)},
        ["Reshape", "Conv", "Reshape"],
    ),
    "map and vector views between layers": (
        """g (float[N,2,3,4] x) => (float[N,4,3,2] y) {
            r = Relu (x)
            f = Reshape (r, other)
            y = Conv <kernel_shape=[1,1]> (f, w)}""",
        {"other": ints(0, 4, 3, 2), "w": (4, 4, 1, 1)},
        ["Clip", "Reshape", "Conv"],
    ),
    "identities": (
        """g (float[N,2,3,4] x) => (float[N,2,3,4] y) {
            a = Identity (x)
            b = Dropout (a)
            c = Relu (b)
            d = Transpose <perm=[0,2,3,1]> (c)
            e = Transpose <perm=[0,3,1,2]> (d)
            f = Mul (e, one)
            h = Concat <axis=1> (f)
            i = Cast <to=1> (h)
            y = Reshape (i, same)}""",
        {"one": np.ones((2, 1, 1), np.float32), "same": ints(0, 2, 3, 4)},
        ["Clip"],
    ),
    "concat of channels-last maps": (
        """g (float[N,2,3,4] x) => (float[N,3,4,4] y) {
            a = Relu (x)
            b = Conv <kernel_shape=[1,1]> (x, w)
            c = Transpose <perm=[0,2,3,1]> (a)
            d = Transpose <perm=[0,2,3,1]> (b)
            y = Concat <axis=3> (c, d)}""",
        {"w": (2, 2, 1, 1)},
        ["Clip", "Conv", "Concat", "Transpose"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rewrites(name):
    text, weights, kinds = CASES[name]
    assert rewritten(written(text, weights))[1] == kinds


@pytest.mark.parametrize("opset", [13, 19])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool"])
def test_pools_with_ceil_mode(pool, include, opset):
    """The last window hangs over the edge; what it divides by is what onnxruntime divides by."""
    attributes = (
        f"kernel_shape=[3,2], strides=[2,3], pads=[1,0,1,0], ceil_mode=1{f', count_include_pad={include}' * (pool[0] == 'A')}"
    )
    graph, kinds = rewritten(
        written(f"g (float[N,2,6,7] x) => (float[N,2,4,3] y) {{ y = {pool} <{attributes}> (x) }}", opset=opset)
    )
    assert kinds == [pool]
    assert graph.tensors["y"].shape == (1, 2, 4, 3)
    assert op_of(graph, MaxPool if pool[0] == "M" else AveragePool).window.pads == (1, 0, 1, 0)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad(mode):
    """An even kernel puts the odd zero on the side that the mode says."""
    text = f"""g (float[N,2,7,8] x) => (float[N,3,?,?] y) {{
        y = Conv <kernel_shape=[4,2], strides=[2,3], auto_pad="{mode}"> (x, w)}}"""
    rewritten(written(text, {"w": (3, 2, 4, 2)}))


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.0, 1.0), (None, 2.0), (0.5, None)])
def test_clips_merge(low, high):
    """Clip of Clip is one; limits that are left out are infinite."""
    names = [name if value is not None else '""' for name, value in (("low", low), ("high", high))]
    constants = {name: np.float32(value) for name, value in (("low", low), ("high", high)) if value is not None}
    text = f"""g (float[N,2,3,3] x) => (float[N,2,3,3] y) {{
        a = Clip (x, {", ".join(names)})
        y = Min (a, four)}}""".replace('""', "")
    graph, kinds = rewritten(written(text, constants | {"four": np.float32(4)}))
    assert kinds == ["Clip"]
    clip = op_of(graph, Clip)
    assert (clip.low, clip.high) == (-np.inf if low is None else low, min(4.0, high or np.inf))


def test_batch_norm_folds_into_weights_and_bias():
    text = """g (float[N,3,5,5] x) => (float[N,4,5,5] y) {
        a = Conv <kernel_shape=[1,1]> (x, w)
        b = BatchNormalization <epsilon=0.01> (a, s, o, m, var)
        y = Relu (b)}"""
    graph, _ = rewritten(written(text, {"w": (4, 3, 1, 1), "s": (4,), "o": (4,), "m": (4,), "var": (4,)}))
    conv = op_of(graph, Conv)
    assert (conv.low, conv.high) == (0, np.inf)
    assert graph.constants[conv.bias].any()


def test_weights_that_do_not_fit_are_named():
    with pytest.raises(ModelError, match=r"node 'Conv:y' \(Conv\): weights \(2, 4, 1, 1\) in 1 groups do not fit"):
        rewritten(
            written("g (float[N,3,4,4] x) => (float[N,2,4,4] y) { y = Conv <kernel_shape=[1,1]> (x, w) }", {"w": (2, 4, 1, 1)})
        )
