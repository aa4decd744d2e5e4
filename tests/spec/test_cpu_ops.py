"""The CPU's part of a model: with onnxruntime and, as on a board without it, in numpy."""

import sys

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnna.compiler.frontend.pieces.cpu_parts import operators_of
from cnna.spec.cpu_ops import CpuPart, numpy_suffices, only_views, softmax, top_k
from cnna.spec.errors import ArtifactError, ToolError

SIZE = (6, 2, 1)


def part(nodes, outputs, constants=()):
    """A tail of operators on x, float32 [1, *SIZE]."""
    graph = helper.make_graph(
        nodes,
        "tail",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *SIZE])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TAILS = {
    "reshape and softmax": (
        [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Softmax", ["r"], ["y"], axis=-1)],
        {"y": FLOAT},
        {"shape": np.array([1, 12])},
    ),
    "argmax": ([helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)], {"y": INT64}, {}),
    "last argmax": ([helper.make_node("ArgMax", ["x"], ["y"], axis=1, select_last_index=1)], {"y": INT64}, {}),
    "top-k": (
        [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("TopK", ["f", "k"], ["v", "i"])],
        {"v": FLOAT, "i": INT64},
        {"k": np.array([4])},
    ),
    "smallest": (
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1, largest=0)],
        {"v": FLOAT, "i": INT64},
        {"k": np.array([2])},
    ),
    "transpose, concat, sigmoid": (
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
            helper.make_node("Sigmoid", ["t"], ["s"]),
            helper.make_node("Concat", ["t", "s"], ["y"], axis=3),
        ],
        {"y": FLOAT},
        {},
    ),
    "rounded softmax": (
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
            helper.make_node("Softmax", ["d"], ["s"], axis=1),
            helper.make_node("QuantizeLinear", ["s", "fine"], ["y"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["z"]),
        ],
        {"y": TensorProto.UINT8, "z": FLOAT},
        {"scale": np.float32(1.25), "zero": np.int8(126), "fine": np.float32(1 / 256)},  # saturates above 1.25, ties in between
    ),
    "scale for each channel": (
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1),
        ],
        {"y": FLOAT},
        {"scale": np.linspace(0.1, 0.6, 6, dtype=np.float32), "zero": np.arange(6, dtype=np.int8)},
    ),
    "axes of one": (
        [
            helper.make_node("Squeeze", ["x", "last"], ["s"]),
            helper.make_node("Unsqueeze", ["s", "ends"], ["u"]),
            helper.make_node("Squeeze", ["u"], ["y"]),
        ],
        {"u": FLOAT, "y": FLOAT},
        {"last": np.array([-1]), "ends": np.array([0, -1, 2])},
    ),
    "log softmax of zero and rest": (
        [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("LogSoftmax", ["r"], ["y"], axis=1)],
        {"y": FLOAT},
        {"shape": np.array([0, -1, 2])},
    ),
}


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("seed", [1, 5])
def test_numpy_answers_as_onnxruntime(name, seed, monkeypatch):
    """A board without onnxruntime would print other classes."""
    model = part(*TAILS[name])
    outputs = list(TAILS[name][1])
    x = np.random.default_rng(seed).integers(-3, 4, (1, *SIZE)).astype(np.float32)  # with ties
    with_onnxruntime = CpuPart(model.SerializeToString(), operators_of(model), outputs).run({"x": x})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    in_numpy = CpuPart(b"", operators_of(model), outputs).run({"x": x})
    for output in outputs:
        assert in_numpy[output].dtype == with_onnxruntime[output].dtype
        assert np.allclose(in_numpy[output], with_onnxruntime[output], atol=1e-6)


def test_a_session_has_the_threads_that_it_is_given(monkeypatch):
    """Workers of a server would take the processors from each other."""
    found, session = [], onnxruntime.InferenceSession

    def noted(model, options, *more, **named):
        found.append(options.intra_op_num_threads)
        return session(model, options, *more, **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", noted)
    nodes, outputs, constants = TAILS["reshape and softmax"]
    model = part(nodes, outputs, constants)
    for threads, wanted in ((1, 1), (None, 0)):  # 0: onnxruntime's own choice
        CpuPart(model.SerializeToString(), operators_of(model), list(outputs), threads=threads)
        assert found.pop() == wanted


def test_views_need_no_onnxruntime():
    """A call of onnxruntime for a Reshape behind the last layer would take longer than a small network on the accelerator."""
    nodes, outputs, constants = TAILS["reshape and softmax"]
    shape = part(nodes[:1], {"r": FLOAT}, constants)
    x = np.random.default_rng(1).random((1, *SIZE), np.float32)
    assert only_views(operators_of(shape))
    assert np.array_equal(CpuPart(b"not read", operators_of(shape), ["r"]).run({"x": x})["r"], x.reshape(1, 12))
    whole = part(nodes, outputs, constants)
    assert not only_views(operators_of(whole))
    with pytest.raises(ArtifactError):
        CpuPart(b"not ONNX", operators_of(whole), ["y"])


def test_what_numpy_lacks_is_named(monkeypatch):
    """A user without onnxruntime must be told before the run, and not in the middle of it."""
    model = part([helper.make_node("Erf", ["x"], ["y"])], {"y": FLOAT})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ToolError, match="Erf runs on the CPU and needs onnxruntime"):
        CpuPart(b"", operators_of(model), ["y"])


def test_softmax_does_not_overflow():
    """exp of a large logit is infinite."""
    assert softmax(np.array([[1e4, 0.0]])).tolist() == [[1.0, 0.0]]


def test_what_is_quick_needs_no_onnxruntime(monkeypatch):
    """A call of onnxruntime for a softmax of a thousand scores takes a board longer than all else that it does for a picture."""
    nodes, outputs, constants = TAILS["reshape and softmax"]
    model = part(nodes, outputs, constants)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # whoever imports it fails
    made = CpuPart(model.SerializeToString(), operators_of(model), list(outputs), quick={"Softmax": softmax})
    x = np.random.default_rng(5).normal(size=(1, *SIZE)).astype(np.float32)
    monkeypatch.undo()
    (name,) = outputs
    wanted = CpuPart(model.SerializeToString(), operators_of(model), list(outputs)).run({"x": x})[name]
    np.testing.assert_allclose(made.run({"x": x})[name], wanted, rtol=1e-5, atol=1e-7)


def test_top_k_prefers_the_lower_index():
    """Equal scores would give different orders in different places."""
    values, index = top_k(np.array([[1.0, 3.0, 3.0, 2.0]]), 3)
    assert values.tolist() == [[3.0, 3.0, 2.0]]
    assert index.tolist() == [[1, 2, 3]]


STRANGERS = {
    "another domain's": helper.make_node("Softmax", ["x"], ["y"], domain="com.example"),
    "another attribute": helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], block_size=2),
    "another type": helper.make_node("QuantizeLinear", ["x", "scale", "short"], ["y"]),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_numpy_does_not_take_what_it_does_not_know(name: str) -> None:
    """A board without onnxruntime would compute something else, or end in a traceback; told so, it asks for onnxruntime."""
    short = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    constants = {"scale": np.float32(0.1), "zero": np.int8(0), "short": np.zeros((), short)}
    plain = part([helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])], {"y": TensorProto.INT8}, constants)
    assert numpy_suffices(operators_of(plain), {"x"})
    assert not numpy_suffices(operators_of(part([STRANGERS[name]], {"y": FLOAT}, constants)), {"x"})


X4, OPEN = (1, 4, 6, 6), np.iinfo(np.int64).max
VIEWS_BETWEEN = {  # what stands between two roundings: operator, constants, attributes
    "nothing": ("Identity", {}, {}),
    "Reshape": ("Reshape", {"shape": np.array([1, 4, 36])}, {}),
    "Transpose": ("Transpose", {}, {"perm": [0, 2, 3, 1]}),
    "Flatten": ("Flatten", {}, {}),
    "Squeeze": ("Squeeze", {"axes": np.array([0])}, {}),
    "Unsqueeze": ("Unsqueeze", {"axes": np.array([1])}, {}),
    "Split": ("Split", {"parts": np.array([4])}, {"axis": 1}),
    "Slice": ("Slice", {"starts": np.array([1]), "ends": np.array([OPEN]), "axes": np.array([2])}, {}),
    "Concat": ("Concat", {"more": np.zeros(X4, np.float32)}, {"axis": 2}),
    "Gather": ("Gather", {"index": np.array([2, 0])}, {"axis": 1}),
    "Expand": ("Expand", {"shape": np.array([2, 1, 1, 1])}, {}),
    "Pad": ("Pad", {"widths": np.array([0, 0, 1, 1, 0, 0, 1, 1])}, {}),
    "DepthToSpace": ("DepthToSpace", {}, {"blocksize": 2}),
    "MaxPool": ("MaxPool", {}, {"kernel_shape": [2, 2]}),
    "Resize": ("Resize", {"": None, "scales": np.array([1, 1, 2, 2], np.float32)}, {"nearest_mode": "floor"}),
}


def number_of(kind, value):
    """One number of a type that numpy may not know: a zero point."""
    return np.array(value, helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(kind)))


def rounding(source, output, scale, zero):
    """Q and DQ, and their constants."""
    names = [f"{output}:scale", f"{output}:zero"]
    nodes = [
        helper.make_node("QuantizeLinear", [source, *names], [f"{output}:q"]),
        helper.make_node("DequantizeLinear", [f"{output}:q", *names], [output]),
    ]
    return nodes, dict(zip(names, (np.float32(scale), zero), strict=True))


def unoptimised(model, feeds):
    """onnxruntime's answers without any of its rewrites."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def checked_part(nodes, constants, outputs=("y",), opset=17):
    """Holds a part on x, X4, equal to the same nodes without any rewrite of onnxruntime."""
    value, results = helper.make_tensor_value_info("x", FLOAT, X4), [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name]
    graph = helper.make_graph(nodes, "part", [value], results, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset == 17 else 10)
    x = np.random.default_rng(3).normal(0, 1.5, X4).astype(np.float32)
    found = CpuPart(model.SerializeToString(), operators_of(model), [*outputs], numpy=False).run({"x": x})
    for name, wanted in zip(outputs, unoptimised(model, {"x": x}), strict=True):
        assert np.array_equal(found[name], wanted)
        assert len(np.unique(found[name])) > 2


@pytest.mark.parametrize("scales", [(0.03, 0.2), (0.2, 0.03)])
@pytest.mark.parametrize("view", VIEWS_BETWEEN)
def test_two_roundings_in_a_row_stay_two(view, scales):
    """onnxruntime would make one of them, with limits and a scale that the model does not have: most elements are other ones."""
    kind, constants, how = VIEWS_BETWEEN[view]
    first, some = rounding("x", "a", scales[0], np.int8(5))
    again, more = rounding("a", "b", scales[0], np.int8(5))  # beside the moved elements, as the compiler writes a kept scale
    third, last = rounding("v", "y", scales[1], np.int8(-7))
    nodes = [*first, *again, helper.make_node(kind, ["b", *constants], ["v"], **how), *third]
    checked_part(nodes, {**some, **more, **last, **constants})
    direct, between = rounding("a", "w", scales[1], np.int8(-7))
    moved = helper.make_node(kind, ["w", *constants], ["y"], **how)
    checked_part([*first, *direct, moved], {**some, **between, **constants})


@pytest.mark.parametrize("beside", ["Cos", "Identity", "output"])
@pytest.mark.parametrize("view", VIEWS_BETWEEN)
def test_a_rounding_behind_a_view_stays_behind_it(view, beside):
    """onnxruntime would round before the view too, and whatever else reads that tensor would read it rounded."""
    kind, constants, how = VIEWS_BETWEEN[view]
    last, more = rounding("v", "z", 0.2, np.int8(-7))
    made, shown = ("y", []) if beside == "output" else ("t", [helper.make_node(beside, ["t"], ["y"])])
    nodes = [helper.make_node("Sin", ["x"], [made]), helper.make_node(kind, [made, *constants], ["v"], **how), *last, *shown]
    checked_part(nodes, {**more, **constants}, ("y", "z"))


def test_a_max_pool_sees_the_values_of_the_pad_before_it():
    """onnxruntime would make the Pad the pool's own padding, which never wins, where the Pad's zeros beat negative numbers."""
    widths = {"widths": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    pad, pool = helper.make_node("Pad", ["n", "widths"], ["p"]), helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2])
    checked_part([helper.make_node("Sub", ["x", "far"], ["n"]), pad, pool], {**widths, "far": np.float32(9)})


@pytest.mark.parametrize(
    "zero", [("INT4", 0), ("INT4", -5), ("INT4", 3), ("UINT4", 3), ("INT8", 3), ("UINT16", 300), ("FLOAT8E4M3FN", 0)]
)
@pytest.mark.parametrize("kind", ["Relu", "Clip"])
def test_a_limit_before_short_numbers_stays(kind, zero):
    """onnxruntime would drop a Relu before integers of 4 bits, whose numbers below zero then show, and fail at a Clip."""
    limits = {"low": np.float32(-0.2), "high": np.float32(0.3)} if kind == "Clip" else {}
    nodes, constants = rounding("v", "y", 0.05, number_of(*zero))
    checked_part(
        [helper.make_node("Sin", ["x"], ["s"]), helper.make_node(kind, ["s", *limits], ["v"]), *nodes],
        {**limits, **constants},
        opset=21,
    )
