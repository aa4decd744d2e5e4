"""What exporters write comes down to a few typed operators, and still computes the same (`rewritten` asks onnxruntime)."""

import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.graph.ir import Graph
from cnna.compiler.passes.drop_identity import drop_identity
from cnna.compiler.passes.pipeline import INTEGER, QUANTISATION, REWRITES, run_passes

from ..written import rewritten, written

I64 = np.int64


def ints(*values):
    return np.array(values, np.int64)


FORMS = {
    "pytorch": (
        """g (float[N,3,8,8] x) => (float[N,5] y) {
            a = Conv <pads=[1,1,1,1], kernel_shape=[3,3]> (x, w1)
            b = BatchNormalization (a, s, o, m, var)
            c = Relu (b)
            d = MaxPool <kernel_shape=[2,2], strides=[2,2]> (c)
            e = ReduceMean <axes=[-1,-2], keepdims=0> (d)
            y = Gemm <transB=1> (e, w2, b2)}""",
        {"w1": (6, 3, 3, 3), "s": (6,), "o": (6,), "m": (6,), "var": (6,), "w2": (5, 6), "b2": (5,)},
        ["Conv", "MaxPool", "AveragePool", "Conv", "Reshape"],
    ),
    "pytorch, shape computed": (
        """g (float[N,3,4,4] x) => (float[N,5] y) {
            a = Relu (x)
            n = Shape (a)
            n0 = Gather <axis=0> (n, zero)
            n1 = Unsqueeze (n0, axes)
            shape = Concat <axis=0> (n1, rest)
            c = Reshape (a, shape)
            y = Gemm <transB=1> (c, w, b)}""",
        {"zero": np.array(0, I64), "axes": ints(0), "rest": ints(-1), "w": (5, 48), "b": (5,)},
        ["Clip", "Conv", "Reshape"],
    ),
    "tf2onnx": (
        """g (float[N,8,8,3] x) => (float[N,5] y) {
            t = Transpose <perm=[0,3,1,2]> (x)
            a = Conv <auto_pad="SAME_UPPER", strides=[2,2], kernel_shape=[3,3]> (t, w1)
            b = Add (a, b1)
            c = Clip (b, low, high)
            u = Transpose <perm=[0,2,3,1]> (c)
            d = Reshape (u, flat)
            e = MatMul (d, w2)
            y = Add (e, b2)}""",
        {
            "w1": (4, 3, 3, 3), "b1": (1, 4, 1, 1), "low": np.float32(0), "high": np.float32(6), "flat": ints(-1, 64),
            "w2": (64, 5), "b2": (5,),
        },
        ["Transpose", "Conv", "Conv", "Reshape"],
    ),
    "tf2onnx, layouts between": (
        """g (float[N,3,8,8] x) => (float[N,6] y) {
            a = Conv <kernel_shape=[1,1]> (x, w1)
            u = Transpose <perm=[0,2,3,1]> (a)
            b = Add (u, b1)
            c = Relu (b)
            v = Transpose <perm=[0,3,1,2]> (c)
            p = Conv <kernel_shape=[1,1]> (v, w2)
            q = Transpose <perm=[0,2,3,1]> (p)
            r = Add (q, c)
            y = ReduceMean <axes=[1,2], keepdims=0> (r)}""",
        {"w1": (6, 3, 1, 1), "b1": (6,), "w2": (6, 6, 1, 1)},
        ["Conv", "Conv", "Add", "AveragePool", "Reshape"],
    ),
    "caffe2": (
        """g (float[N,3,7,7] x) => (float[N,4] y) {
            a = Conv <pads=[2,2,2,2], kernel_shape=[5,5], strides=[2,2]> (x, w1, b1)
            b = Conv <kernel_shape=[1,1]> (x, w2)
            c = MaxPool <kernel_shape=[2,2], strides=[2,2], pads=[0,0,1,1]> (b)
            d = Sum (a, c)
            e = Relu (d)
            f, mask = Dropout (e)
            h = AveragePool <kernel_shape=[4,4]> (f)
            i = Reshape (h, flat)
            j = Gemm <transB=1, alpha=0.5, beta=2.0> (i, w3, b3)
            y = Softmax (j)}""",
        {"w1": (6, 3, 5, 5), "b1": (6,), "w2": (6, 3, 1, 1), "flat": ints(-1, 6), "w3": (4, 6), "b3": (4,)},
        ["Conv", "Conv", "MaxPool", "Add", "AveragePool", "Conv", "Reshape", "Softmax"],
    ),
    "keras": (
        """g (float[N,3,6,6] x) => (float[N,4] y) {
            p = Pad (x, pads)
            a = Conv <kernel_shape=[3,3], strides=[2,2]> (p, w1, b1)
            b = Mul (a, scale)
            c = Sub (b, shift)
            d = Max (c, nought)
            e = Conv <kernel_shape=[3,3], group=6, pads=[1,1,1,1]> (d, w2)
            f = Div (e, scale)
            h = GlobalAveragePool (f)
            i = Squeeze (h, axes)
            j = MatMul (i, w3)
            y = Identity (j)}""",
        {
            "pads": ints(0, 0, 0, 0, 0, 0, 1, 1), "w1": (6, 3, 3, 3), "b1": (6,), "scale": np.full((6, 1, 1), 2, np.float32),
            "shift": (6, 1, 1), "nought": np.float32(0), "w2": (6, 1, 3, 3), "axes": ints(2, 3), "w3": (6, 4),
        },
        ["Conv", "Conv", "AveragePool", "Conv", "Reshape"],
    ),
    "densenet": (
        """g (float[N,4,6,6] x) => (float[N,12,6,6] y) {
            a = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w1)
            b = Concat <axis=1> (x, a)
            c = BatchNormalization (b, s, o, m, var)
            d = Relu (c)
            e = Conv <kernel_shape=[1,1]> (d, w2)
            y = Concat <axis=1> (b, e)}""",
        {"w1": (4, 4, 3, 3), "s": (8,), "o": (8,), "m": (8,), "var": (8,), "w2": (4, 8, 1, 1)},
        ["Conv", "Concat", "Affine", "Conv", "Concat"],
    ),
    "shufflenet": (
        """g (float[N,6,4,4] x) => (float[N,6,4,4] y) {
            a = Conv <kernel_shape=[1,1], group=2> (x, w1)
            b = Reshape (a, split)
            c = Transpose <perm=[0,2,1,3,4]> (b)
            d = Reshape (c, join)
            y = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=6> (d, w2)}""",
        {"w1": (6, 3, 1, 1), "split": ints(0, 2, 3, 4, 4), "join": ints(0, 6, 4, 4), "w2": (6, 1, 3, 3)},
        ["Conv", "Conv", "Conv"],
    ),
    "one axis": (
        """g (float[N,4,16] x) => (float[N,3] y) {
            a = Conv <kernel_shape=[5], pads=[4,0], dilations=[1], strides=[2]> (x, w1, b1)
            b = Relu (a)
            c = MaxPool <kernel_shape=[2], strides=[2]> (b)
            d = GlobalAveragePool (c)
            e = Flatten (d)
            y = Gemm (e, w2)}""",
        {"w1": (6, 4, 5), "b1": (6,), "w2": (6, 3)},
        ["Reshape", "Conv", "MaxPool", "AveragePool", "Conv", "Reshape"],
    ),
    "vectors": (
        """g (float[N,3,4,4] x) => (float[N,4] y) {
            z = Relu (x)
            a = Flatten (z)
            b = Gemm (a, w1, b1)
            c = BatchNormalization (b, s, o, m, var)
            d = Clip (c, low, high)
            e = Gemm (d, w2)
            f = Add (e, d)
            y = Gemm (f, w3)}""",
        {
            "w1": (48, 6), "b1": (6,), "s": (6,), "o": (6,), "m": (6,), "var": (6,), "low": np.float32(-1), "high": np.float32(1),
            "w2": (6, 6), "w3": (6, 4),
        },
        ["Clip", "Conv", "Conv", "Add", "Conv", "Reshape"],
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
    "flatten of a map in channels-last order": (
        """g (float[N,2,3,4] x) => (float[N,5] y) {
            r = Relu (x)
            t = Transpose <perm=[0,2,3,1]> (r)
            f = Flatten (t)
            y = Gemm (f, w)}""",
        {"w": (24, 5)},
        ["Clip", "Conv", "Reshape"],
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


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    """A form that does not become these operators would be refused, or run more slowly."""
    text, weights, kinds = FORMS[name]
    assert rewritten(written(text, weights))[1] == kinds


@pytest.mark.parametrize("opset", [9, 11])
def test_old_opsets_are_raised(opset):
    """Attributes that are inputs today (Unsqueeze, Pad at 9), or the old meaning of Softmax, would be lost."""
    text = """g (float[N,3,4,4] x) => (float[N,5] y) {
        s4 = Unsqueeze <axes=[1,2]> (s)
        a = Mul (x, s4)
        b = Conv <kernel_shape=[3,3]> (a, w)
        c = Flatten (b)
        d = Gemm (c, w2, b2)
        y = Softmax (d)}"""
    _, kinds = rewritten(written(text, {"s": (3,), "w": (4, 3, 3, 3), "w2": (16, 5), "b2": (5,)}, opset))
    assert kinds == ["Conv", "Conv", "Reshape", "Softmax"]


@pytest.mark.parametrize("one", dict.fromkeys((*REWRITES, *QUANTISATION, *INTEGER)), ids=lambda one: one.__name__)
def test_every_pass_states_its_contract_and_has_its_test(one):
    """A person who moves a pass, or adds one, would not find what it requires and ensures, or a test of it alone."""
    text = inspect.getmodule(one).__doc__
    assert [line.split(":")[0] for line in text.splitlines() if re.match("Requires|Ensures|Leaves alone", line)] == [
        *("Requires", "Ensures", "Leaves alone")
    ]
    assert any(Path(__file__).parent.rglob(f"test_{one.__name__}.py"))


def test_every_pass_is_dumped():
    """`cnna compile --dump` would leave out the pass that somebody looks for."""
    dumped: dict[str, Graph] = {}
    text, weights, _ = FORMS["caffe2"]
    final = run_passes(to_graph(written(text, weights)), REWRITES, dumped.__setitem__)
    assert list(dumped) == list(dict.fromkeys(one.__name__ for one in REWRITES))
    assert dumped[REWRITES[-1].__name__] == final


def _broken(graph: Graph) -> Graph:
    """A pass that forgets the shape of an output."""
    return replace(graph, tensors={name: tensor for name, tensor in graph.tensors.items() if name not in graph.outputs})


def test_a_pass_that_breaks_the_graph_is_found_at_once():
    """Graphs that a pass gives back as they were are not checked again; what is broken must be found before the next pass."""
    reached: list[str] = []
    text, weights, _ = FORMS["caffe2"]
    graph = to_graph(written(text, weights))

    def same(graph: Graph) -> Graph:
        return graph

    with pytest.raises(AssertionError, match="has no shape"):
        run_passes(graph, (same, drop_identity, drop_identity, _broken, same), lambda name, graph: reached.append(name))
    assert reached == ["same", "drop_identity", "drop_identity"]
    with pytest.raises(AssertionError, match="has no shape"):
        run_passes(_broken(graph), (same,))


def test_fixed_batch_is_freed():
    """A model exported for a batch of 1 or 4, with Reshapes that name it, must answer for any number of images."""
    for batch in (1, 4):
        text = f"""g (float[{batch},3,4,4] x) => (float[{batch},5] y) {{
            a = Relu (x)
            b = Reshape (a, shape)
            c = Gemm (b, w)
            y = Reshape (c, last)}}"""
        model = written(text, {"shape": ints(batch, 48), "w": (48, 5), "last": ints(batch, 5)})
        graph, kinds = rewritten(model)
        assert graph.tensors["x"].shape == (1, 3, 4, 4)
        assert kinds == ["Clip", "Conv", "Reshape"]
