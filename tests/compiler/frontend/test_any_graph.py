"""Graphs of every kind are read: inputs of any type and rank, functions, graphs inside nodes, weights of any size and origin."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.model_ports import model_inputs
from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, source_of, to_graph
from cnna.compiler.frontend.onnx_model import hollow
from cnna.compiler.passes.pipeline import REWRITES, run_passes
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ..written import answers, written

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 3, 6, 6)).astype(np.float32)
CONV = "a = Conv <pads=[1,1,1,1]> (x, w) r = Relu (a)"
WEIGHTS = {"w": (4, 3, 3, 3)}
ONNX_TESTS = Path(onnx.__file__).parent / "backend" / "test" / "data"
STRIDE = 12  # of some 1,700 tests of single nodes, so that this test takes seconds


def read(text, weights=None):
    return load_model(written(text, {**WEIGHTS, **(weights or {})}).SerializeToString(), "net.onnx")


def same_as_source(model, feeds, single=()):
    """Checks that the rewritten graph computes what the model does; inputs of `single` get their new first axis."""
    exported = to_model(run_passes(to_graph(model), REWRITES))
    given = {name: x[None] if name in single else x for name, x in feeds.items()}
    for got, wanted in zip(answers(exported, given), answers(model, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    return exported


def onnx_cases():
    nodes = sorted((ONNX_TESTS / "node").glob("*/model.onnx"))[::STRIDE]
    return [*nodes, *(path for kind in ("simple", "pytorch-operator") for path in sorted((ONNX_TESTS / kind).glob("*/model.onnx")))]


def test_onnx_own_test_models_are_read_or_refused_in_a_line():
    """A model that ONNX itself ships must give a graph or one line. Over all strides, every operator comes up at least once."""
    read, said = 0, []
    for path in onnx_cases():
        try:
            to_graph(load_model(path))
            read += 1
        except ModelError as error:
            said.append(str(error))
    assert not [line for line in said if "\n" in line or not line]
    assert read > 0.8 * len(onnx_cases())


def test_models_that_pytorch_exported_are_all_read():
    """A third of them has three-dimensional convolutions, integer inputs or no batch in front."""
    for path in sorted((ONNX_TESTS / "pytorch-converted").glob("*/model.onnx")):
        run_passes(to_graph(load_model(path)), REWRITES)


def test_weights_made_by_nodes():
    """Weights would not be taken for weights if a node makes them: ConstantOfShape in ONNX's own networks, Transpose in old
    ones.
    """
    text = """g (float[N,3,6,6] x) => (float[N,4,6,6] y) {
        ones = ConstantOfShape <value = float[1] {0.1}> (shape) b = Mul (ones, v) c = Cast <to=1> (b) d = Identity (c)
        t = Transpose <perm=[3,2,0,1]> (d) y = Conv <pads=[1,1,1,1]> (x, t) }"""
    model = written(text, {"shape": np.array([3, 3, 3, 4]), "v": (3, 3, 3, 4)})
    exported = same_as_source(model, {"x": X})
    assert [node.op_type for node in exported.graph.node] == ["Conv"]


def test_an_image_without_a_batch():
    """[3, H, W] is one image.

    If its 3 channels were taken for a batch, one of them would be left; the accelerator must get it whole.
    """
    model = read("g (float[3,6,6] x0) => (float[?,?,?,?] r) { x = Unsqueeze (x0, front) " + CONV + " }", {"front": np.array([0])})
    same_as_source(model, {"x0": X[0]}, single=("x0",))
    assert model_inputs(source_of(model)) == [{"name": "x0", "shape": [3, 6, 6], "dtype": "float32"}]
    quantised, _ = quantise(model, {"x0": X})
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    wanted = [answers(model, {"x0": x})[0][0] for x in X]
    with Model(artifact) as board:
        got = np.concatenate([board.run(X[n : n + 1]) for n in range(len(X))])
    assert np.abs(got - wanted).max() < 0.05 * np.ptp(wanted)


@pytest.mark.parametrize(
    ("tail", "batched"),
    [
        ("t = Transpose <perm=[1,0,2,3]> (c) y = Reshape (t, two_open)", False),
        ("y = Reshape (c, rows)", False),
        ("y = Add (c, each)", False),
        ("y = Gather <axis=0> (c, second)", False),
        ("y = Slice (c, second1, two, zero)", False),
        ("y = Softmax <axis=0> (c)", False),
        ("d = Flatten (c) y = Trilu (d)", False),
        ("y = LayerNormalization <axis=0> (c, each)", False),
        ("y = CumSum (c, none)", False),
        ("y = ScatterND (c, place, rows3)", False),
        ("y = MeanVarianceNormalization <axes=[0,2,3]> (c)", False),
        ("y = Reshape (c, two_open)", True),
        ("y = Reshape (c, open_8)", True),
        ("y = Softmax <axis=1> (c)", True),
    ],
)
def test_a_fixed_batch_that_the_graph_mixes_is_one_sample(tail, batched):
    """Made for 2 images that a constant or an operator joins, a model was refused, or answered to each image by itself."""
    constants = {
        "two_open": np.array([2, -1]), "rows": np.array([12, 8]), "open_8": np.array([-1, 8]), "second": np.array(1),
        "each": np.ones((2, 6, 2, 4), np.float32), "second1": np.array([1]), "two": np.array([2]), "zero": np.array([0]),
        "none": np.array(0), "place": np.array([[1]]), "rows3": np.ones((1, 6, 2, 4), np.float32),
    }  # fmt: skip
    text = f"g (float[2,3,2,4] x) => (float y) {{ c = Conv <kernel_shape=[1,1]> (x, w) {tail} }}"
    model = written(text, {"w": (6, 3, 1, 1), **{name: value for name, value in constants.items() if name in text}}, opset=18)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    if batched:
        assert model_inputs(source_of(model))[0]["shape"] == [3, 2, 4]
        return
    assert model_inputs(source_of(model))[0]["shape"] == [2, 3, 2, 4]
    same_as_source(model, {"x": RNG.normal(size=(2, 3, 2, 4)).astype(np.float32)}, single=("x",))


def test_sizes_and_numbers_beside_the_image():
    """Detectors take the original size as int64, or a threshold as a number: the same for all images, or one for each."""
    text = f"""g (float[N,3,6,6] x, int64[2] size, float factor) => (float[N,4,6,6] y, int64[2] z) {{
        {CONV} y = Mul (r, factor) z = Add (size, size) }}"""
    model = read(text)
    feeds = {"x": X, "size": np.array([480, 640]), "factor": np.array(2, np.float32)}
    same_as_source(model, feeds, single=("size", "factor"))
    quantised, _ = quantise(model, {"x": X, "size": np.tile(feeds["size"], (3, 1)), "factor": np.full(3, 2, np.float32)})
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    shapes = [(entry["shape"], entry["dtype"]) for entry in artifact.manifest["model_inputs"]]
    assert shapes == [([3, 6, 6], "float32"), ([2], "int64"), ([], "float32")]
    wanted = answers(model, feeds)
    with Model(artifact) as board:
        got = board.run(feeds)
        again = board.run({**feeds, "size": np.array([[1, 2], [3, 4], [5, 6]], np.int32)})
    assert np.abs(got["y"] - wanted[0]).max() < 0.05 * np.ptp(wanted[0])
    assert got["z"].tolist() == [[960, 1280]] * 3
    assert again["z"].tolist() == [[2, 4], [6, 8], [10, 12]]


def test_sizes_that_cross_an_accelerator_piece():
    """onnxruntime counts the sizes of a Resize when it opens a piece: two that an earlier piece made must not be `some`."""
    text = f"""g (float[N,3,6,6] x) => (float[N,4] y) {{
        {CONV} m = ArgMax <axis=1> (r) least = ReduceMin <keepdims=0> (m) flat = Reshape (least, one) more = Clip (flat, two, two)
        size = Mul (more, four) s = LpNormalization <axis=1> (r) b = Conv <pads=[1,1,1,1]> (s, v)
        whole = Concat <axis=0> (front, size) z = Resize <mode="nearest"> (b, , , whole)
        y = ReduceMean <axes=[2,3], keepdims=0> (z) }}"""
    sizes = {"one": np.array([1]), "two": np.int64(2), "four": np.array([4, 5]), "front": np.array([1, 4])}
    model = read(text, {"v": (4, 4, 3, 3), **sizes})
    quantised, _ = quantise(model, {"x": X})
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    assert [piece.manifest["kind"] for piece in artifact.pieces] == ["accelerator", "cpu"] * 2
    wanted = np.concatenate([answers(model, {"x": X[n : n + 1]})[0] for n in range(2)])
    with Model(artifact, check=True) as board:
        got = board.run(X[:2])[:, 0]  # answers of unknown size are stacked
    assert np.abs(got - wanted).max() < 0.05 * np.ptp(wanted)


def test_pictures_that_the_model_itself_makes_floats_of():
    """TensorFlow exports uint8 with channels last: a pass might take the integers before the Cast for floats."""
    text = f"""g (uint8[N,6,6,3] p) => (float[N,4,6,6] r) {{
        m = Max (p, one) t = Transpose <perm=[0,3,1,2]> (m) f = Cast <to=1> (t) x = Mul (f, k) {CONV} }}"""
    model = read(text, {"k": np.float32(1 / 255), "one": np.array(1, np.uint8)})
    feeds = {"p": RNG.integers(0, 256, (3, 6, 6, 3)).astype(np.uint8)}
    same_as_source(model, feeds)
    quantised, _ = quantise(model, feeds)
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    (wanted,) = answers(model, feeds)
    with Model(artifact) as board:
        assert np.abs(board.run(feeds["p"]) - wanted).max() < 0.05 * np.ptp(wanted)


@pytest.mark.parametrize("kind", ["float16", "double"])
def test_floats_of_other_sizes(kind):
    """A detector in float16 must stay the same detector when its weights, casts and outputs become float32."""
    to = {"float16": 10, "double": 11}[kind]
    text = f"g ({kind}[N,3,6,6] x) => ({kind}[N,4,6,6] y) {{ {CONV} f = Cast <to=1> (r) y = Cast <to={to}> (f) }}"
    dtype = np.float16 if kind == "float16" else np.float64
    weights = RNG.normal(0, 0.2, (4, 3, 3, 3)).astype(dtype)
    model = read(text, {"w": weights})
    exported = to_model(run_passes(to_graph(model), REWRITES))
    assert {tensor.data_type for tensor in exported.graph.initializer} == {TensorProto.FLOAT}
    if kind == "double":  # onnxruntime has no such Conv
        wanted = answers(
            written(text.replace("double", "float").replace("to=11", "to=1"), {"w": weights.astype(np.float32)}), {"x": X}
        )[0]
    else:
        (wanted,) = answers(model, {"x": X.astype(dtype)})
    np.testing.assert_allclose(answers(exported, {"x": X})[0], wanted, atol=0.02)


LOOP = """y = Loop (trip, yes, r) < body = b (int64 i, bool c, float[?,?,?,?] s) => (bool co, float[?,?,?,?] so) {
    co = Identity (c) so = Add (s, r) }>"""
IF = """m = ReduceMax <keepdims=0> (r) c = Greater (m, k) y = If (c) <
    then_branch = t () => (float[?,?,?,?] p) { p = Mul (r, k) }, else_branch = e () => (float[?,?,?,?] q) { q = Sub (r, k) }>"""
INNER = {
    "loop": (LOOP, {"trip": np.array(3), "yes": np.array(True)}),
    "branches": (IF, {"k": np.float32(0.7)}),
    "sequence": ("n = Neg (r) s = SequenceConstruct (r, n) y = ConcatFromSequence <axis=2> (s)", {}),
    "three dimensions": ("u = Unsqueeze (r, two) y = Conv (u, w3)", {"two": np.array([2]), "w3": (2, 4, 1, 3, 3)}),
}


@pytest.mark.parametrize("name", INNER)
def test_what_only_the_cpu_runs_passes_through(name):
    """Bodies read tensors from outside by name alone: a pass or a cut that overlooks that would remove these tensors."""
    tail, constants = INNER[name]
    model = written(f"g (float[N,3,6,6] x) => (float y) {{ {CONV} {tail} }}", {**WEIGHTS, **constants})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {"x": X[:1]}
    same_as_source(model, feeds)
    quantised, _ = quantise(load_model(model.SerializeToString()), feeds)
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    (wanted,) = answers(model, feeds)
    with Model(artifact) as board:
        assert np.abs(board.run(X[:1]) - wanted).max() < 0.05 * np.ptp(wanted)


def test_functions_are_inlined():
    """Before its functions are inlined, such a model has none of ONNX's operators to read."""
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[N,3,6,6] x) => (float[N,4,6,6] y) { a = own.Layer (x, w) y = own.Layer2 (a) }
        <domain: "own", opset_import: ["" : 17]> Layer (x, w) => (y) { a = Conv <pads=[1,1,1,1]> (x, w) y = Relu (a) }
        <domain: "own", opset_import: ["" : 17]> Layer2 (x) => (y) { y = Add (x, x) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(RNG.normal(size=(4, 3, 3, 3)).astype(np.float32), "w"))
    same_as_source(load_model(model.SerializeToString()), {"x": X})


def test_great_weights_are_neither_copied_nor_written(monkeypatch, tmp_path):
    """ONNX's checker and inference write a model into a string of at most 2 GB, several times: they must see only shapes."""
    model = written(f"g (float[N,3,6,6] x) => (float[N,4,6,6] r) {{ {CONV} }}", {"w": (4, 3, 3, 3)}, opset=7)
    onnx.save_model(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.weights", size_threshold=0)
    wanted = to_graph(load_model(tmp_path / "net.onnx"))
    monkeypatch.setattr(hollow, "GREAT", 8)
    seen = []
    for module, name in ((onnx.checker, "check_model"), (onnx.shape_inference, "infer_shapes")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda given, *rest, real=real, **more: seen.append(given) or real(given, *rest, **more))
    got = to_graph(load_model(tmp_path / "net.onnx"))
    assert len(seen) > 2
    assert all(one.ByteSize() < 108 * 4 for one in seen)
    assert got.nodes == wanted.nodes
    assert all(np.array_equal(got.constants[name], value) for name, value in wanted.constants.items())
