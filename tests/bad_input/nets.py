"""Small networks from which mutants are made: float, QDQ and QLinear, each with the operators of its kind."""

import numpy as np
import onnx
from onnx import numpy_helper, parser

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.errors import about_model

FLOAT = """<ir_version: 8, opset_import: ["" : 13]> net (float[N,3,8,8] x) => (float[N,5] y, float[N,8,4,4] t) {
    c1 = Conv <pads=[1,1,1,1], kernel_shape=[3,3]> (x, w1, b1)
    n1 = BatchNormalization <epsilon=0.001> (c1, gain, offset, mean, variance)
    l1 = Clip (n1, low, high)
    p1 = MaxPool <kernel_shape=[2,2], strides=[2,2]> (l1)
    d1 = Conv <pads=[1,1,1,1], kernel_shape=[3,3], group=8> (p1, w2, b2)
    r1 = Relu (d1)
    e1 = Conv (r1, w3)
    t = Add (e1, p1)
    z1 = Pad <mode="constant"> (t, pads)
    a1 = AveragePool <kernel_shape=[3,3], strides=[1,1]> (z1)
    m1 = Mul (a1, factor)
    j1 = Concat <axis=1> (m1, t)
    g1 = GlobalAveragePool (j1)
    v1 = Reshape (g1, target)
    f1 = Gemm <alpha=1.0, beta=1.0, transB=1> (v1, w4, b4)
    y = Softmax <axis=1> (f1)}"""
FLOAT_WEIGHTS = {
    "w1": (8, 3, 3, 3), "b1": (8,), "gain": (8,), "offset": (8,), "mean": (8,), "variance": (8,), "low": 0.0, "high": 6.0,
    "w2": (8, 1, 3, 3), "b2": (8,), "w3": (8, 8, 1, 1), "pads": [0, 0, 1, 1, 0, 0, 1, 1], "factor": (1, 8, 1, 1),
    "target": [0, 16], "w4": (5, 16), "b4": (5,),
}  # fmt: skip
QLINEAR = """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]> net (float[N,3,8,8] x) => (float[N,5] y) {
    q0 = QuantizeLinear (x, s0, z0)
    q1 = QLinearConv <pads=[1,1,1,1], kernel_shape=[3,3]> (q0, s0, z0, w1, sw1, zw1, s1, z1, b1)
    q2 = MaxPool <kernel_shape=[2,2], strides=[2,2]> (q1)
    q3 = QLinearConv (q2, s1, z1, w2, sw2, zw2, s3, z3)
    q4 = com.microsoft.QLinearAdd (q3, s3, z3, q2, s1, z1, s4, z4)
    q5 = com.microsoft.QLinearGlobalAveragePool <channels_last=0> (q4, s4, z4, s5, z5)
    q6 = Flatten <axis=1> (q5)
    q7 = QLinearMatMul (q6, s5, z5, w3, sw3, zw3, s7, z7)
    y = DequantizeLinear (q7, s7, z7)}"""


def float_net() -> onnx.ModelProto:
    """A network with every operator that runs, a Softmax for the CPU, and two outputs."""
    rng = np.random.default_rng(5)
    model = parser.parse_model(FLOAT)
    for name, given in FLOAT_WEIGHTS.items():
        if isinstance(given, tuple):
            value = rng.normal(size=given) * (0.3 if len(given) > 1 else 0.5)
            value = np.abs(value) + 0.5 if name in ("variance", "gain", "factor") else value
            array = value.astype(np.float32)
        else:
            array = np.array(given, np.int64 if isinstance(given, list) else np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def qlinear_net() -> onnx.ModelProto:
    """QLinear operators, also of com.microsoft; scales per tensor and per channel, zero points of both types."""
    rng = np.random.default_rng(6)
    model = parser.parse_model(QLINEAR)
    values: dict[str, np.ndarray] = {
        "w1": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "sw1": rng.uniform(0.002, 0.004, 8).astype(np.float32),
        "zw1": np.zeros(8, np.int8),
        "b1": rng.integers(-2000, 2000, 8).astype(np.int32),
        "w2": rng.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8),
        "sw2": np.array(0.004, np.float32),
        "zw2": np.array(0, np.int8),
        "w3": rng.integers(-127, 128, (8, 5)).astype(np.int8),
        "sw3": np.array(0.004, np.float32),
        "zw3": np.array(0, np.int8),
    }
    for number, scale, zero in ((0, 0.03, 128), (1, 0.03, 120), (3, 0.05, 130), (4, 0.06, 125), (5, 0.02, 128), (7, 0.05, 128)):
        values |= {f"s{number}": np.array(scale, np.float32), f"z{number}": np.array(zero, np.uint8)}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return model


def samples(count: int = 3) -> np.ndarray:
    """Samples for the input `x` of each of them."""
    return np.random.default_rng(7).normal(size=(count, 3, 8, 8)).astype(np.float32)


def qdq_net() -> onnx.ModelProto:
    """The float network as `cnna quantize` writes it."""
    return quantise(float_net(), {"x": samples()})[0]


NETS = {"float": float_net, "qdq": qdq_net, "qlinear": qlinear_net}


def answer(kind: str, model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The emulator's answer to the samples; a float model is quantised with them."""
    with about_model("bad.onnx"):
        read = load_model(model.SerializeToString(), "bad.onnx")
        weights = {tensor.name for tensor in read.graph.initializer}
        feeds = {}
        for value in read.graph.input:
            sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]]
            if value.name not in weights:
                feeds[value.name] = np.random.default_rng(7).normal(size=(3, *sizes)).astype(np.float32)
        if kind == "float":
            read = load_model(quantise(read, feeds)[0].SerializeToString(), "bad.onnx")
        artifact = compile_model(read, preset("tiny"))
    with Model(artifact, device="emulator") as model_on_emulator:
        return model_on_emulator.run(feeds)
