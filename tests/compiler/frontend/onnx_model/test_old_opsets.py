"""Models of old opsets mean what the same network means when it is written in today's terms."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

from cnna.compiler.frontend.onnx_import import load_model, source_of
from cnna.compiler.frontend.onnx_model.old_opsets import TARGET, raise_opset
from cnna.compiler.frontend.source_model import opset
from cnna.spec.errors import ModelError

from ...written import answers, images, rewritten, written

SCALES = np.array([1, 1, 2, 2], np.float32)
ROW = np.arange(6, dtype=np.float32) + 1
CHANNELS = np.array([0.5, -2, 1.5, 3], np.float32)
CONSTANTS = {
    "c": CHANNELS,
    "c11": CHANNELS.reshape(4, 1, 1),
    "row": ROW,
    "column": ROW.reshape(6, 1),
    "var": (4,),
    "w": (5, 144),
    "bias": (5,),
    "low": np.float32(-0.5),
    "high": np.float32(0.5),
    "scales": SCALES,
    "half": SCALES / 2 + np.array([0.5, 0.5, -0.5, -0.5], np.float32),
    "pads": np.array([0, 0, 1, 0, 0, 0, 0, 2]),
    "two": np.float32(2),
    "flat": np.array([0, -1]),
    "first": np.array([1, 0]),
    "last": np.array([3, 5]),
    "axes": np.array([1, 2]),
    "axis1": np.array([1]),
    "three": np.array([3]),
    "parts": np.array([1, 3]),
    "axes23": np.array([2, 3]),
}
FORMS = {  # (opset, as it was written then, as it is written at 17)
    "broadcast along channels": (6, "y = Add <broadcast=1, axis=1> (x, c)", "y = Add (x, c11)"),
    "broadcast along rows": (6, "y = Mul <broadcast=1, axis=2> (x, row)", "y = Mul (x, column)"),
    "broadcast from the end": (5, "y = Sub <broadcast=1, consumed_inputs=[0, 0]> (x, row)", "y = Sub (x, row)"),
    "broadcast of what a node made": (
        6,
        "a = Relu (c) b = Abs (x) d = Div <broadcast=1, axis=-3> (b, two) y = Add <broadcast=1, axis=1> (d, a)",
        "a = Relu (c11) b = Abs (x) d = Div (b, two) y = Add (d, a)",
    ),
    "broadcast behind a computed target": (
        6,
        "s = Shape (x) f = Cast <to=1> (s) t = Cast <to=7> (f) r = Reshape (x, t) y = Add <broadcast=1, axis=1> (r, c)",
        "y = Add (x, c11)",
    ),
    "batch norm": (
        6,
        "y = BatchNormalization <is_test=1, epsilon=0.01> (x, c, c, c, var)",
        "y = BatchNormalization <epsilon=0.01> (x, c, c, c, var)",
    ),
    "dropout": (6, "y = Dropout <is_test=1, ratio=0.5> (x)", "y = Identity (x)"),
    "dropout of 10": (10, "y = Dropout <ratio=0.3> (x)", "y = Identity (x)"),
    "slope for each channel": (6, "y = PRelu (x, c)", "y = PRelu (x, c11)"),
    "clip": (6, "y = Clip <min=-0.5, max=0.5> (x)", "y = Clip (x, low, high)"),
    "clip from above": (9, "y = Clip <max=0.5> (x)", 'y = Clip (x, "", high)'),
    "clip without limits": (6, "y = Clip (x)", "y = Identity (x)"),
    "pad": (6, "y = Pad <pads=[0, 0, 1, 0, 0, 0, 0, 2], value=2.0> (x)", "y = Pad (x, pads, two)"),
    "paddings": (1, "y = Pad <paddings=[0, 0, 1, 0, 0, 0, 0, 2]> (x)", "y = Pad (x, pads)"),
    "reflected pad": (10, 'y = Pad <pads=[0, 0, 1, 0, 0, 0, 0, 2], mode="reflect"> (x)', 'y = Pad <mode="reflect"> (x, pads)'),
    "slice": (9, "y = Slice <starts=[1, 0], ends=[3, 5], axes=[1, 2]> (x)", "y = Slice (x, first, last, axes)"),
    "split": (
        2,
        "a, b = Split <axis=1, split=[1, 3]> (x) y = Concat (b, a)",
        "a, b = Split <axis=1> (x, parts) y = Concat <axis=1> (b, a)",
    ),
    "unsqueeze": (11, "a = Unsqueeze <axes=[1]> (x) b = Abs (a) y = Squeeze <axes=[1]> (b)", "y = Abs (x)"),
    "sum over pixels": (11, "y = ReduceSum <axes=[2, 3]> (x)", "y = ReduceSum (x, axes23)"),
    "reshape": (
        4,
        "a = Reshape <shape=[0, -1]> (x) y = Gemm <broadcast=1, transB=1> (a, w, bias)",
        "a = Reshape (x, flat) y = Gemm <transB=1> (a, w, bias)",
    ),
    "softmax over all from axis 1": (6, "y = Softmax (x)", "s = Shape (x) f = Flatten (x) a = Softmax (f) y = Reshape (a, s)"),
    "softmax over the last axis": (12, "y = LogSoftmax <axis=3> (x)", "y = LogSoftmax <axis=-1> (x)"),
    "greatest": (6, "y, i = TopK <k=3, axis=1> (x)", "y, i = TopK <axis=1> (x, three)"),
    "cast": (5, 'a = Cast <to="INT32"> (x) y = Cast <to="FLOAT"> (a)', "a = Cast <to=6> (x) y = Cast <to=1> (a)"),
    "upsample": (
        7,
        "y = Upsample <scales=[1.0, 1.0, 2.0, 2.0]> (x)",
        'y = Resize <coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (x, "", scales)',
    ),
    "upsample by bilinear": (
        1,
        'y = Upsample <mode="bilinear", height_scale=2.0, width_scale=2.0> (x)',
        'y = Resize <mode="linear", coordinate_transformation_mode="asymmetric"> (x, "", scales)',
    ),
    "upsample of 9": (
        9,
        'y = Upsample <mode="linear"> (x, scales)',
        'y = Resize <mode="linear", coordinate_transformation_mode="asymmetric"> (x, "", scales)',
    ),
    "resize of 10": (
        10,
        "y = Resize (x, half)",
        'y = Resize <coordinate_transformation_mode="asymmetric", nearest_mode="ceil"> (x, "", half)',
    ),
}


def model(text, version):
    """A model with one input of four channels and the output y."""
    words = set(re.findall(r"\w+", text))
    used = {name: value for name, value in CONSTANTS.items() if name in words}
    made = written(f"g (float[N,4,6,6] x) => (float[N] y) {{ {text} }}", used, opset=version)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("name", FORMS)
def test_means_what_it_means_today(name):
    """A lost axis, default or limit would give a model that runs and answers something else."""
    version, old, new = FORMS[name]
    raised = model(old, version)
    raise_opset(raised, version, "old.onnx")
    assert opset(raised) == TARGET
    onnx.shape_inference.infer_shapes(raised, check_type=True, strict_mode=True)
    today = model(new, 17)
    for tensor in today.graph.initializer:  # seeded weights: those of one name are the same
        tensor.CopyFrom(next((one for one in raised.graph.initializer if one.name == tensor.name), tensor))
    feeds = images(today)
    np.testing.assert_allclose(answers(raised, feeds)[0], answers(today, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize("version", [6, 7, 9, 11])
def test_a_whole_network(version):
    """Old exporters list weights among the inputs: what becomes constant here would be taken for an input."""
    limits = "<min=0.0, max=6.0>" if version < 11 else ""
    inputs = "(b)" if version < 11 else "(b, low, high)"
    text = f"""g (float[N,3,8,8] x, float[4,3,3,3] w) => (float[N,5] y) {{
        a = Conv (x, w)
        b = BatchNormalization (a, s, s, s, var)
        c = Clip {limits} {inputs}
        d = Reshape (c, shape)
        y = Gemm (d, v)}}"""
    weights = {"w": (4, 3, 3, 3), "s": (4,), "var": (4,), "shape": np.array([0, -1]), "v": (144, 5)}
    weights |= {"low": np.float32(0), "high": np.float32(6)} if version >= 11 else {}
    bias = {"none": np.zeros(5, np.float32)}
    old = written(text.replace("(d, v)", "(d, v, none)"), weights | bias, version)
    if version < 7:
        for node in old.graph.node:
            extra = {"BatchNormalization": "is_test", "Gemm": "broadcast"}.get(node.op_type)
            node.attribute.extend([helper.make_attribute(extra, 1)] if extra else [])
    old.ir_version = 3
    raised = source_of(old).prepared
    assert [value.name for value in raised.graph.input] == ["x"]
    assert rewritten(raised)[1] == ["Conv", "Conv", "Reshape"]


def test_bodies_of_branches_are_raised_too():
    """A branch is a graph inside a node: unconverted, it would hold operators that opset 13 does not know."""
    text = """g (float[N,4,6,6] x) => (float[?,?,?,?] y) {
        c = Constant <value = bool {1}> ()
        y = If (c) <
            then_branch = t () => (float[?,?,?,?] p) { p = Clip <min=-0.5, max=0.5> (x) },
            else_branch = e () => (float[?,?,?,?] q) { q = Slice <starts=[1], ends=[3], axes=[1]> (x) }>}"""
    raised = written(text, opset=9)
    raise_opset(raised, 9, "old.onnx")
    feeds = images(raised)
    np.testing.assert_array_equal(answers(raised, feeds)[0], np.clip(feeds["x"], -0.5, 0.5))


@pytest.mark.parametrize(
    ("version", "text", "reason"),
    [
        (7, "y = BatchNormalization <spatial=0> (x, c, c, c, var)", r"node 'y' \(BatchNormalization\) of opset 7 .*spatial=0"),
        (5, 'y = Cast <to="FLOAT17"> (x)', r"node 'y' \(Cast\) of opset 5 .*'FLOAT17' is unknown"),
        (6, "y = Upsample (x)", r"node 'y' \(Upsample\) of opset 6 .*no scales"),
    ],
)
def test_what_cannot_be_raised(version, text, reason):
    """There must be one line with file, node and remedy, and not a model that means something else."""
    with pytest.raises(ModelError, match=rf"old\.onnx: {reason}.*; export the model with opset 13 or later"):
        raise_opset(model(text, version), version, "old.onnx")


def test_an_operator_that_is_no_more():
    """The experimental operators of opset 1 have no form today. One line must say so before anybody runs the model."""
    old = model("y = Crop <border=[1, 1, 1, 1]> (x)", 1)
    old.graph.output[0].type.tensor_type.shape.dim.add()
    with pytest.raises(ModelError, match="Crop"):
        load_model(old.SerializeToString(), "old.onnx")
