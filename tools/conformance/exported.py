"""The graphs of tests/exporter_graphs, which tools/exporter_graphs.py wrote, with seeded weights, and inputs for them."""

import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "exporter_graphs"
RECIPE = "normal "


def names() -> list[str]:
    """The name, NETWORK-EXPORTER, of every graph."""
    return sorted(path.stem for path in FOLDER.glob("*.onnx"))


def load(name: str) -> ModelProto:
    """A graph with weights. A name always has the same weights."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    constants = [a.t for node in model.graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
    for tensor in (*model.graph.initializer, *constants):
        if tensor.doc_string.startswith(RECIPE):
            _fill(tensor, name)
    return model


def samples(model: ModelProto, count: int) -> dict[str, Any]:
    """Seeded normal inputs by name, [count, ...], for a model whose batch is 1."""
    rng, weights = np.random.default_rng(len(model.graph.node)), {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name not in weights:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim][1:]
            found[value.name] = rng.normal(size=(count, *shape)).astype(np.float32)
    return found


def macs(model: ModelProto) -> int:
    """Multiply-accumulates of convolutions, matrix products and recurrent layers for the inputs' sizes; padding counts too."""
    sizes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer} | _sizes(model)
    for node in model.graph.node:  # constants that are attributes of nodes
        sizes |= {name: list(a.t.dims) for a in node.attribute if a.name == "value" for name in node.output}
    return sum(_macs_of(node, sizes) for node in model.graph.node)


def _sizes(model: ModelProto) -> dict[str, list[int]]:
    """The shapes of all tensors, found by running the model: ONNX cannot infer those behind onnxruntime's own operators."""
    copy = ModelProto()
    copy.CopyFrom(model)
    answers, made = (
        {value.name for value in model.graph.output},
        [name for node in model.graph.node for name in node.output if name],
    )
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in made if name not in answers)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = samples(model, 1)
    found = dict(zip(made, session.run(made, inputs), strict=True)) | inputs
    return {name: list(array.shape) for name, array in found.items() if isinstance(array, np.ndarray)}


def _macs_of(node: onnx.NodeProto, sizes: dict[str, list[int]]) -> int:
    operands = node.input[::3] if node.op_type.startswith("QLinear") or node.op_type == "QGemm" else node.input
    a, b, c = ([sizes.get(name, []) for name in operands[:3]] + [[], [], []])[:3]
    kind, made = node.op_type.removeprefix("QLinear"), sizes.get(node.output[0], [])
    if kind == "Conv":
        return prod(made) * prod(b[1:])
    if kind == "ConvTranspose":
        return prod(a) * prod(b[1:])
    if kind == "MatMul":
        return prod(made) * a[-1]
    if kind in ("Gemm", "QGemm"):
        return a[0] * prod(b) if a else prod(b)
    return a[0] * (prod(b) + prod(c)) if kind in ("LSTM", "GRU", "RNN") else 0


def _fill(tensor: TensorProto, name: str) -> None:
    """Draws values as the tensor's doc_string says: `normal MEAN DEVIATION LOW HIGH`, rounded if the type is an integer."""
    mean, deviation, low, high = (float(word) for word in tensor.doc_string.split()[1:])
    rng = np.random.default_rng(zlib.crc32(f"{name}/{tensor.name}".encode()))
    values = np.clip(rng.normal(mean, deviation, tuple(tensor.dims)), low, high)
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    whole = np.rint(values) if kind.kind in "iu" else values
    tensor.CopyFrom(numpy_helper.from_array(whole.astype(kind), tensor.name))
