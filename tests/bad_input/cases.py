"""A small model, ways to damage it, and the command lines that the tests of bad input share."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIZE, CLASSES, OPSET = 3, 6, 4, 13
Edit = Callable[[onnx.ModelProto], None]


def small_model(channels: int = CHANNELS, size: int = SIZE, kernel: int = 3) -> onnx.ModelProto:
    """Convolution, ReLU, global average, CLASSES logits; weights from a seed."""
    rng = np.random.default_rng(3)
    weights = numpy_helper.from_array(rng.normal(size=(CLASSES, channels, kernel, kernel)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", kernel_shape=[kernel] * 2, pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("GlobalAveragePool", ["b"], ["c"], name="mean"),
        helper.make_node("Flatten", ["c"], ["y"], name="flat"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, size, size])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    return model


def random_images(count: int = 8, channels: int = CHANNELS, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(count, channels, size, size)).astype(np.float32)


def edited(folder: Path, edit: Edit, **sizes: int) -> Path:
    """The model after an edit that makes it wrong."""
    model = small_model(**sizes)
    edit(model)
    path = folder / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    return path


OUTPUTS = {
    "quantize": "quantize m.onnx --calib calib.npy -o {}",
    "convert": "convert m.onnx --calib calib.npy --config tiny -o {}",
    "compile": "compile q.onnx --config tiny -o {}",
    "answers of run": "run m.cnna --device emulator --input calib.npy -o {}",
    "figures of run": "run m.cnna --device emulator --input calib.npy --json {}",
    "figures of doctor": "doctor --json {}",
    "models": "models digits -o {}",
    "page of report": "report m.cnna --html {}",
    "picture of report": "report m.cnna --png {}",
    "waveform": "run m.cnna --input calib.npy --trace {}",
}


def words_of(line: str, good: Path, bad: Path) -> list[object]:
    """The words of a command, with `bad` for {} and good files for good names."""
    return [bad if word == "{}" else good / word if "." in word else word for word in line.split()]
