"""Networks with tensors between layers whose shapes are not [batch, channels, rows, columns], or are computed by the graph."""

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.errors import ModelError

from ..written import answers, images, rewritten, written
from .test_quantised_import import on_cpu, run_whole

HEAD = "g (float[N,3,6,6] x) => (float[N,{shape}] y) {{ a = Conv <pads=[1,1,1,1]> (x, w) {body} }}"
WEIGHTS = {
    "w": (8, 3, 3, 3), "w8": (4, 8, 1, 1), "w4": (4, 4, 1, 1), "g": (5, 288),
    "five": np.array([0, 2, 4, 6, 6]), "four": np.array([0, 8, 6, 6]), "three": np.array([0, 8, 36]), "two": np.array([0, -1]),
    "s2": (2,), "var2": (2,), "s8": (8,), "var8": (8,), "group": (2, 1, 1, 1), "member": (4, 1, 1), "quad": (4, 1, 1, 1),
    "zero": np.int64(0),
    "one": np.int64(1), "c2": np.int64(2), "first": np.array([0]), "second": np.array([1]), "minus": np.array([-1]),
}  # fmt: skip
COMPUTED = "s = Shape (a) n = Gather (s, zero) u = Unsqueeze (n, first)"  # the batch size, as exporters write it
TAIL = "d = Reshape (b, four) y = Conv (d, w8)"
FORMS = {  # body, shape of the output, operators that are left
    "batch norm of five axes": ("r = Reshape (a, five) b = BatchNormalization (r, s2, s2, s2, var2) c = Relu (b)"
                                " d = Reshape (c, four) y = Conv (d, w8)", "4,6,6", ["Conv", "Conv"]),
    "a factor for each group": (f"r = Reshape (a, five) b = Mul (r, group) {TAIL}", "4,6,6", ["Conv", "Conv"]),
    "an offset in each group": (f"r = Reshape (a, five) b = Add (member, r) {TAIL}", "4,6,6", ["Conv", "Conv"]),
    "twice a tensor of five axes": (f"r = Reshape (a, five) b = Add (r, r) {TAIL}", "4,6,6", ["Conv", "Conv"]),
    "channels shuffled and scaled": ("r = Reshape (a, five) t = Transpose <perm=[0,2,1,3,4]> (r) b = Mul (t, quad)"
                                     " d = Reshape (b, four) y = Conv (d, w8)", "4,6,6", ["Conv", "Conv", "Conv"]),
    "batch norm of three axes": ("r = Reshape (a, three) b = BatchNormalization (r, s8, s8, s8, var8) c = Clip (b)"
                                 " d = Reshape (c, four) y = Conv (d, w8)", "4,6,6", ["Conv", "Conv"]),
    "a concatenation of three axes": ("r = Reshape (a, three) b = Relu (a) q = Reshape (b, three) c = Concat <axis=1> (q, r)"
                                      " z = Flatten (c) d = Relu (z) y = Gemm (d, wide)", "5",
                                      ["Conv", "Clip", "Clip", "Concat", "Conv", "Reshape"]),
    "a target of computed sizes": (f"{COMPUTED} t = Concat <axis=0> (u, minus) r = Reshape (a, t) y = Gemm <transB=1> (r, g)", "5",
                                   ["Conv", "Conv", "Reshape"]),
    "a target of rounded products": (f"{COMPUTED} k = Gather (s, one) h = Gather (s, c2) p = Mul (k, h) f = Cast <to=1> (p)"
                                     " q = Floor (f) i = Cast <to=7> (q) v = Unsqueeze (i, first) t = Concat <axis=0> (u, v, minus)"
                                     " r = Reshape (a, t) s5 = Shape (r) z = Reshape (r, two) y = Gemm <transB=1> (z, g)", "5",
                                     ["Conv", "Conv", "Reshape"]),
    "the shape of a computed shape": (f"{COMPUTED} t = Concat <axis=0> (u, minus) r = Reshape (a, t) b = Relu (r) s2d = Shape (b)"
                                      " l = Gather (s2d, second) e = Concat <axis=0> (u, l) d = Reshape (b, e)"
                                      " y = Gemm <transB=1> (d, g)", "5", ["Conv", "Conv", "Reshape"]),
}  # fmt: skip


def made(name):
    body, shape, _ = FORMS[name]
    return written(HEAD.format(shape=shape, body=body), WEIGHTS | {"wide": (576, 5)})


@pytest.mark.parametrize("name", FORMS)
def test_runs_between_layers(name):
    """A tensor of another shape between two layers would cause a traceback, a refusal, or another result."""
    assert rewritten(made(name))[1] == FORMS[name][2]


@pytest.mark.parametrize("name", FORMS)
def test_quantised_it_answers_as_the_float_model(name):
    """A model that `quantise` takes would not compile, or be another network: int8 must be within a few steps of float."""
    model = made(name)
    feeds = images(model, 8)
    quantised, _ = quantise(model, feeds)
    split = import_quantised(load_model(quantised.SerializeToString()))
    assert on_cpu(split) in ([], [["Reshape"]])
    (expected,) = answers(model, feeds)
    assert np.abs(run_whole(split, feeds)["y"].reshape(expected.shape) - expected).max() < 0.05 * np.ptp(expected)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 5), (4, 1), (1, 1), (1,)])
def test_bias_of_a_batch(shape):
    """The C of a Gemm may have a row for each sample of a batch: equal rows are a bias like any other."""
    text = (
        "g (float[4,3,6,6] x) => (float[4,5] y) { a = Conv <pads=[1,1,1,1]> (x, w) r = Flatten (a) y = Gemm <transB=1> (r, g, c) }"
    )
    bias = np.float32([[0.5, -1, 2, 0, 1]])[:, : shape[-1]]
    model = written(text, WEIGHTS | {"c": np.broadcast_to(bias, (shape if len(shape) == 2 else (1, *shape))).reshape(shape).copy()})
    assert rewritten(model)[1] == ["Conv", "Conv", "Reshape"]


def test_bias_that_differs_within_a_batch():
    """A program has one bias for all samples: using the first row for every sample would give another network."""
    text = "g (float[4,3] x) => (float[4,5] y) { y = Gemm <transB=1> (x, v, c) }"
    model = written(text, {"v": (5, 3), "c": np.arange(20, dtype=np.float32).reshape(4, 5)})
    with pytest.raises(ModelError, match=r"node 'Gemm:y' \(Gemm\): its C has shape \(4, 5\).*give every sample the same"):
        rewritten(model)


@pytest.mark.parametrize(
    ("line", "rank"), [("y = Squeeze (b)", 0), ("y = Reshape (b, t)", 4), ("y = ReduceMean <keepdims=0> (b)", 0)]
)
def test_outputs_whose_shape_nobody_infers(line, rank):
    """`quantise` would write a file that cannot be read again, since an output without a shape is not sound ONNX."""
    body = f"a = Conv (x, w) b = GlobalAveragePool (a) s = Shape (b) t = Cast <to=7> (s) {line}"
    model = written(f"g (float[N,3,6,6] x) => (float[{','.join('?' * rank) or 'N'}] y) {{ {body} }}", WEIGHTS)
    if not rank:
        del model.graph.output[0].type.tensor_type.shape.dim[:]
    quantised, _ = quantise(model, images(model, 4))
    split = import_quantised(load_model(quantised.SerializeToString()))
    assert [type(node.op).__name__ for node in split.programs[0].nodes] == ["Conv", "AveragePool"]
