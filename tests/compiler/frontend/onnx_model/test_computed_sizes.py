"""Models that compute sizes from their input's: with `--shape` they become what an export with fixed sizes is, node for node."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, to_graph
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph
from cnna.compiler.graph.node_names import kind_of
from cnna.compiler.passes.pipeline import REWRITES, run_passes
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ...written import answers, images, written

OPEN = "float[n,3,height,width]"
WEIGHTS: dict[str, Sequence[int] | np.ndarray | np.generic] = {"w": (8, 3, 3, 3), "u": (8, 8, 1, 1), "v": (4, 16, 1, 1)}
HALVES = """
    r0 = Shape <start=2, end=3> (a) c0 = Shape <start=3, end=4> (a) batch = Shape <end=2> (a)
    r = Div (r0, two) c = Div (c0, two)"""
DEEPLAB = """
    a0 = Conv <strides=[2,2], pads=[1,1,1,1]> (x, w) a = Relu (a0)
    m = GlobalAveragePool (a) p = Conv (m, u)
    size0 = Shape (a) size = Slice (size0, two, four)
    kept = Slice (size0, zero, two) up = Concat <axis=0> (kept, size)
    q = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (p, , , up)
    j = Concat <axis=1> (a, q) k = Conv (j, v)
    xr = Shape <start=2, end=3> (x) xc = Shape <start=3, end=4> (x) front = Shape <end=2> (k)
    whole = Concat <axis=0> (front, xr, xc)
    y = Resize <mode="linear", coordinate_transformation_mode="half_pixel"> (k, , , whole)"""
SHUFFLE = """
    a0 = Conv <strides=[2,2], pads=[1,1,1,1]> (x, w) a = Relu (a0)
    s = Shape (a) n0 = Gather <axis=0> (s, i0) c0 = Gather <axis=0> (s, i1)
    h0 = Gather <axis=0> (s, i2) w0 = Gather <axis=0> (s, i3)
    n = Unsqueeze (n0, zero) ch = Unsqueeze (c0, zero) h = Unsqueeze (h0, zero) wd = Unsqueeze (w0, zero)
    half = Div (ch, two) apart = Concat <axis=0> (n, two, half, h, wd) back = Concat <axis=0> (n, ch, h, wd)
    b = Reshape (a, apart) t = Transpose <perm=[0,2,1,3,4]> (b) d = Reshape (t, back)
    y = Conv (d, u)"""
FLOATS = """
    a0 = Conv <pads=[1,1,1,1]> (x, w) a = Relu (a0)
    s0 = Shape (a) s = Cast <to=1> (s0) big = Mul (s, factors) f = Floor (big) to = Cast <to=7> (f)
    y = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (a, , , to)"""
GRID = """
    a0 = Conv <pads=[1,1,1,1]> (x, w) a = Relu (a0)
    s = Shape <start=3> (a) last = Squeeze (s, zero) steps = Range (i0, last, i1) column = Cast <to=1> (steps)
    like = Shape <end=1> (a) ones = ConstantOfShape <value=one> (like) one1 = Cast <to=1> (ones)
    k = Mul (column, one1) y = Add (a, k)"""
NUMBERS: dict[str, np.ndarray | np.generic] = {
    **{f"i{number}": np.int64(number) for number in range(4)},
    "zero": np.array([0]),
    "two": np.array([2]),
    "four": np.array([4]),
    "factors": np.array([1, 1, 2, 2.01], np.float32),
}


def model_of(body: str, kind: str = OPEN) -> ModelProto:
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    model = written(f"g ({kind} x) => (float[n,c,oh,ow] y) {{ {body.replace('<value=one>', '')} }}", WEIGHTS | NUMBERS, 18)
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            node.attribute.append(helper.make_attribute("value", one))
    return model


def rewritten(model: ModelProto, sizes: Sequence[int] | None) -> Graph:
    """After every rewrite."""
    shapes = {} if sizes is None else {"x": tuple(sizes)}
    return run_passes(to_graph(load_model(model.SerializeToString(), "net.onnx", shapes)), REWRITES)


def described(graph: Graph) -> list[tuple[object, ...]]:
    """Its nodes in order: operators, inputs, shapes."""
    return [(node.name, str(node.op), node.inputs, graph.tensors[node.output].shape) for node in graph.nodes]


@pytest.mark.parametrize("body", [DEEPLAB, SHUFFLE, FLOATS, GRID])
def test_an_open_model_becomes_the_fixed_one(body: str) -> None:
    """Sizes would be computed on the CPU, maps would count as empty, and networks be refused that run. onnxruntime answers both."""
    opened, fixed = model_of(body), model_of(body, "float[n,3,12,20]")
    graph = rewritten(opened, (1, 3, 12, 20))
    assert described(graph) == described(rewritten(fixed, None))
    assert not {"Shape", "Gather", "Div", "Cast", "Range", "Reshape"} & {
        kind_of(node) for node in graph.nodes if isinstance(node.op, Onnx)
    }
    assert all(min(graph.tensors[node.output].shape) > 0 for node in graph.nodes)
    feeds = images(fixed, count=1)
    for got, expected in zip(answers(to_model(graph), feeds), answers(opened, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_what_a_model_says_of_other_sizes_is_dropped() -> None:
    """Some exporters keep the sizes that they traced: they would contradict those that the user gives."""
    model = model_of(DEEPLAB)
    values = {"a": [1, 8, 32, 32], "k": [1, 4, 32, 32], "whole": [4]}
    for name, sizes in values.items():
        kind = TensorProto.INT64 if name == "whole" else TensorProto.FLOAT
        model.graph.value_info.append(helper.make_tensor_value_info(name, kind, sizes))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 64, 64]))
    read = load_model(model.SerializeToString(), "net.onnx", {"x": (1, 3, 12, 20)})
    assert [dim.dim_value for dim in read.graph.output[0].type.tensor_type.shape.dim] == [1, 4, 12, 20]
    assert described(run_passes(to_graph(read), REWRITES)) == described(rewritten(model_of(DEEPLAB), (1, 3, 12, 20)))
    samples = images(model_of(DEEPLAB, "float[n,3,12,20]"), 2)
    quantised, _ = quantise(read, samples)
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    assert artifact.manifest["model_outputs"][0]["shape"] == [1, 4, 12, 20]


@pytest.mark.parametrize("sizes", [(12, 12), (14, 18), (10, 16)])
@pytest.mark.parametrize("pool", ["MaxPool <kernel_shape=[2,2]", "AveragePool <count_include_pad=1, kernel_shape=[3,2]"])
def test_pools_behind_computed_sizes(pool: str, sizes: tuple[int, int]) -> None:
    """Which windows of a pool with ceil_mode count depends on its map, which ONNX's inference does not follow through a Div."""
    body = f"""a = Relu (x) {HALVES} to = Concat <axis=0> (batch, r, c)
        b = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (a, , , to)
        y = {pool}, strides=[2,2], pads=[1,1,1,1], ceil_mode=1> (b)"""
    opened = model_of(body)
    graph = rewritten(opened, (1, 3, *sizes))
    feeds = images(model_of(body, f"float[n,3,{sizes[0]},{sizes[1]}]"), 1)
    (expected,) = answers(opened, feeds)
    assert graph.tensors["y"].shape == expected.shape
    np.testing.assert_allclose(answers(to_model(graph), feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_kernel_above_a_computed_map_is_named() -> None:
    """The line would be about something behind it, or about a map of no size."""
    body = f"""a = Relu (x) {HALVES} to = Concat <axis=0> (batch, r, c)
        b = Resize <mode="nearest"> (a, , , to) b1 = Relu (b)
        y = Conv (b1, w)"""
    with pytest.raises(ModelError, match=r"^net.onnx: .*\(Conv\): its kernel is larger than its padded input"):
        rewritten(model_of(body), (1, 3, 4, 12))
    assert rewritten(model_of(body), (1, 3, 6, 12)).tensors["y"].shape == (1, 8, 1, 4)


def squeezing() -> ModelProto:
    """A squeeze of rows, if there is one row alone, as PyTorch's older exporter writes it."""
    model = written(
        f"""g ({OPEN} x) => (float[n,c,r,s] y) {{
        a = Relu (x) s = Shape (a) h = Gather <axis=0> (s, i2) one = Equal (h, i1) }}""",
        NUMBERS,
        18,
    )
    axes = numpy_helper.from_array(np.array([2]), "axes")
    squeezed = helper.make_graph(
        [helper.make_node("Squeeze", ["a", "axes"], ["a2"], "squeeze"), helper.make_node("Unsqueeze", ["a2", "axes"], ["z"])],
        "then",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [axes],
    )
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    plain = helper.make_graph([helper.make_node("Neg", ["a"], ["z"])], "else", [], [z])
    branches = {"then_branch": squeezed, "else_branch": plain}
    model.graph.node.append(helper.make_node("If", ["one"], ["b"], "choice", **branches))
    model.graph.node.append(helper.make_node("Tanh", ["b"], ["y"]))
    return model


@pytest.mark.parametrize("rows", [1, 4])
def test_the_branch_that_is_taken_takes_the_ifs_place(rows: int) -> None:
    """The If and all behind it would go to the CPU, with shapes that nobody knows."""
    model = squeezing()
    graph = to_graph(load_model(model.SerializeToString(), "net.onnx", {"x": (1, 3, rows, 5)}))
    kinds = [kind_of(node) for node in graph.nodes]
    assert "If" not in kinds
    assert ("Neg" in kinds) == (rows > 1)
    assert all(node.name.startswith("choice:") for node in graph.nodes if kind_of(node) in ("Squeeze", "Unsqueeze", "Neg"))
    feeds = {"x": np.random.default_rng(1).normal(0, 1, (1, 3, rows, 5)).astype(np.float32)}
    np.testing.assert_allclose(answers(to_model(graph), feeds)[0], answers(model, feeds)[0], rtol=1e-6)
