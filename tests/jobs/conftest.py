"""Models for the jobs: small enough that each is quantised and compiled in a second."""

import numpy as np
import onnx
import onnx.parser
import pytest

from cnna.compiler.quantise.quantise import quantise

HEADER = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'


def model(nodes: str, channels: int = 4) -> onnx.ModelProto:
    """From x [N, 3, 8, 8] to y, with a constant w of a 1x1 convolution to four channels."""
    weights = "float[4,3,1,1] w = {" + ",".join(f"{0.5 - number % 5 / 4}" for number in range(12)) + "}"
    text = f"{HEADER} small (float[N,3,8,8] x) => (float[N,{channels},8,8] y) <{weights}> {{ {nodes} }}"
    return onnx.parser.parse_model(text)


def samples(count: int = 6) -> np.ndarray:
    """Inputs of the models, [count, 3, 8, 8]."""
    return np.random.default_rng(3).normal(0, 2, (count, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="session")
def in_float() -> onnx.ModelProto:
    """A convolution on the accelerator, and a sine that stays on the CPU."""
    return model("[stem] a = Conv (x, w) [act] y = Sin (a)")


@pytest.fixture(scope="session")
def quantised(in_float: onnx.ModelProto) -> onnx.ModelProto:
    """The same in int8."""
    return quantise(in_float, {"x": samples()})[0]
