"""Weights for graphs without any: seeded He-normal weights, and batch-norm statistics measured on a picture.

The graphs (the onnx package's light ones, and those of `network`) have a ConstantOfShape node or an initializer of one value
for each weight. Statistics are those of the layer's own input, so that activations keep the range they have in a trained network.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

IR_VERSION = 8  # since IR version 4 initializers need not be graph inputs; 8 came with opset 15
SPREAD = 0.1  # standard deviation of biases, and of batch-norm scales around 1

Float = NDArray[np.float32]


def weight_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """The shape of every float constant of a graph: its initializers, and what ConstantOfShape makes from a constant shape."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    return shapes | _shaped(graph)


def _shaped(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors that ConstantOfShape makes from a constant shape."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    return {
        node.output[0]: tuple(int(size) for size in numpy_helper.to_array(constants[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape" and node.input[0] in constants
    }


def with_weights(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """A copy whose float constants are initializers with fresh values. The consumer of a constant decides how they are drawn.

    Batch-norm statistics are still to be measured (`measure_norms`).
    """
    graph, shapes = model.graph, weight_shapes(model.graph)
    made = _shaped(graph)
    nodes = [node for node in graph.node if node.output[0] not in made]
    used = {name for node in nodes for name in node.input}
    roles = _roles(nodes)
    weights = [numpy_helper.from_array(_fresh(roles[name], shape, rng), name) for name, shape in shapes.items() if name in roles]
    kept = [tensor for tensor in graph.initializer if tensor.name in used and tensor.name not in roles]
    names = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in names]
    answer = helper.make_model(
        helper.make_graph(nodes, graph.name, inputs, list(graph.output), kept + weights),
        opset_imports=list(model.opset_import),
        producer_name=model.producer_name,
    )
    answer.ir_version = IR_VERSION
    return answer


def _roles(nodes: list[onnx.NodeProto]) -> dict[str, str]:
    """What each constant is: "weight", "transposed", "matrix", "scale", "bias", "mean" or "variance".

    A constant behind an Unsqueeze or Reshape has the role that the consumer of the result gives it.
    """
    by_input = {
        "Conv": {1: "weight", 2: "bias"},
        "ConvTranspose": {1: "transposed", 2: "bias"},
        "Gemm": {1: "matrix", 2: "bias"},
        "BatchNormalization": {1: "scale", 2: "bias", 3: "mean", 4: "variance"},
        "Mul": {1: "scale"},
        "Add": {1: "bias"},
    }
    roles = {
        name: by_input[node.op_type][index]
        for node in nodes
        for index, name in enumerate(node.input)
        if index in by_input.get(node.op_type, {})
    }
    for node in nodes:
        if node.op_type in ("Unsqueeze", "Reshape") and node.output[0] in roles:
            roles[node.input[0]] = roles[node.output[0]]
    return roles


def _fresh(role: str, shape: tuple[int, ...], rng: np.random.Generator) -> Float:
    """Fresh values: He-normal weights [out, in, ...] and matrices [..., out, in], scales near 1, biases near 0.

    Transposed weights [in, out, ...] are those of strides as wide as their kernels: each pixel is made of one pixel's channels.
    Batch-norm statistics are still to be measured.
    """
    draw: dict[str, Callable[[], NDArray[np.float64]]] = {
        "weight": lambda: rng.normal(scale=np.sqrt(2 / np.prod(shape[1:])), size=shape),
        "transposed": lambda: rng.normal(scale=np.sqrt(2 / shape[0]), size=shape),
        "matrix": lambda: rng.normal(scale=np.sqrt(2 / shape[-1]), size=shape),
        "scale": lambda: 1 + SPREAD * rng.normal(size=shape),
        "bias": lambda: SPREAD * rng.normal(size=shape),
        "mean": partial(np.zeros, shape),
        "variance": partial(np.ones, shape),
    }
    return np.asarray(draw[role](), np.float32)


def measure_norms(model: onnx.ModelProto, picture: Float) -> None:
    """Sets the mean and variance of every BatchNormalization to those of its input for `picture`, in one run.

    In the graph that runs, each layer normalises by its own input's statistics and outputs them.
    """
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    if not norms:
        return
    import onnxruntime

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.node[:], probe.graph.output[:]
    for node in model.graph.node:
        probe.graph.node.extend(_self_normalising(node) if node.op_type == "BatchNormalization" else [node])
    wanted = [f"{node.output[0]}/{what}" for node in norms for what in ("mean", "variance")]
    probe.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in wanted)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only: onnxruntime would warn that the old statistics are not used, which is intended
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    answers = session.run(wanted, {session.get_inputs()[0].name: picture})
    measured = {name: value.reshape(-1) for name, value in zip(wanted, answers, strict=True)}
    statistics = {
        node.input[index]: measured[f"{node.output[0]}/{what}"] for node in norms for index, what in ((3, "mean"), (4, "variance"))
    }
    for tensor in model.graph.initializer:
        if tensor.name in statistics:
            tensor.CopyFrom(numpy_helper.from_array(statistics[tensor.name], tensor.name))


def _self_normalising(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Nodes (opset 9 to 17) that compute a BatchNormalization with its input's own statistics over images and pixels."""
    x, scale, bias = node.input[:3]
    y = node.output[0]
    mean, variance, centred = f"{y}/mean", f"{y}/variance", f"{y}/centred"
    epsilon = next((attribute.f for attribute in node.attribute if attribute.name == "epsilon"), 1e-5)
    yield helper.make_node("ReduceMean", [x], [mean], axes=[0, 2, 3], keepdims=1)
    yield helper.make_node("Sub", [x, mean], [centred])
    yield helper.make_node("Mul", [centred, centred], [f"{y}/squares"])
    yield helper.make_node("ReduceMean", [f"{y}/squares"], [variance], axes=[0, 2, 3], keepdims=1)
    yield helper.make_node("Constant", [], [f"{y}/epsilon"], value=numpy_helper.from_array(np.array(epsilon, np.float32)))
    yield helper.make_node("Add", [variance, f"{y}/epsilon"], [f"{y}/safe"])
    yield helper.make_node("Sqrt", [f"{y}/safe"], [f"{y}/deviation"])
    yield helper.make_node("Div", [centred, f"{y}/deviation"], [f"{y}/normal"])
    yield helper.make_node("Constant", [], [f"{y}/by_channel"], value=numpy_helper.from_array(np.array([1, -1, 1, 1])))
    for name in (scale, bias):
        yield helper.make_node("Reshape", [name, f"{y}/by_channel"], [f"{y}/{name}"])
    yield helper.make_node("Mul", [f"{y}/normal", f"{y}/{scale}"], [f"{y}/scaled"])
    yield helper.make_node("Add", [f"{y}/scaled", f"{y}/{bias}"], [y])
