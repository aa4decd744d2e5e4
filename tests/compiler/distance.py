"""Measures how far a layer of the int8 graph is from onnxruntime's, fed with the same int8 values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnxruntime as ort
from onnx import ModelProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph import ir
from cnna.sim.reference import reference


@dataclass(frozen=True)
class Distance:
    """The distance of one layer: greatest difference, share of equal elements, and unequal elements that lie on no rounding tie."""

    node: ir.Node
    greatest: int
    equal: float
    off_tie: int


class Samples(CalibrationDataReader):
    """Calibration samples one by one, as onnxruntime wants them."""

    def __init__(self, feeds: Mapping[str, np.ndarray]) -> None:
        count = len(next(iter(feeds.values())))
        self._rest = iter([{name: value[i : i + 1] for name, value in feeds.items()} for i in range(count)])

    def get_next(self):
        return next(self._rest, None)


def quantised_by_onnxruntime(
    model: ModelProto,
    feeds: Mapping[str, np.ndarray],
    folder,
    form: QuantFormat = QuantFormat.QDQ,
    activation: QuantType = QuantType.QInt8,
    weight: QuantType = QuantType.QInt8,
    **options,
) -> ModelProto:
    """The model that `quantize_static` makes of a float model."""
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(model, source)
    quantize_static(source, target, Samples(feeds), form, activation_type=activation, weight_type=weight, **options)
    return onnx.load(target)


def integer_graph(model: ModelProto) -> ir.Graph:
    """The int8 graph before residual adds and copies go into convolutions, so that it still has onnxruntime's layers one by one."""
    graphs: dict[str, ir.Graph] = {}
    import_quantised(model, graphs.__setitem__)
    return graphs["to_integer"]


def onnxruntime_int8(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every int8 activation as onnxruntime has it, optimisation off; by the name of the real tensor it stands for."""
    copy = ModelProto()
    copy.CopyFrom(model)
    names = {}
    for node in copy.graph.node:
        if node.op_type == "QuantizeLinear":
            names[node.input[0]] = node.output[0]
        elif node.op_type.startswith("Q"):
            names[f"{node.output[0]}:real"] = node.output[0]
    shown = {value.name for value in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names.values() if name not in shown)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = session.run(list(names.values()), dict(feeds))
    shift = {np.dtype(np.uint8): 128, np.dtype(np.int8): 0}
    return {
        name: (value.astype(np.int16) - shift[value.dtype]).astype(np.int8)
        for name, value in zip(names, values, strict=True)
        if value.dtype in shift
    }


def distances(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> list[Distance]:
    """The distance of each layer that onnxruntime has too; both are fed with onnxruntime's int8 values."""
    graph, theirs = integer_graph(model), onnxruntime_int8(model, feeds)
    values = {}
    for name in graph.inputs:
        quant = graph.tensors[name].quant
        assert quant is not None
        real = feeds[name] if name in feeds else next(iter(feeds.values())).reshape(-1, *graph.tensors[name].shape)  # a head's view
        values[name] = np.clip(np.rint(real / np.float32(quant.scale)) + quant.zero, -128, 127).astype(np.int8)
    found = []
    for node in graph.nodes:
        one = replace(graph, inputs=tuple(dict.fromkeys(node.inputs)), outputs=(node.output,), nodes=(node,))
        ours = reference.run(one, {name: values[name] for name in node.inputs})[node.output]
        values[node.output] = ours
        name = node.output.removesuffix(":4d")
        if name in theirs:
            values[node.output] = theirs[name].reshape(ours.shape)
            difference = np.abs(ours.astype(np.int16) - values[node.output])
            unequal = difference > 0
            off_tie = int((unequal & ~_on_tie(one, node, values)).sum()) if unequal.any() else 0
            found.append(Distance(node, int(difference.max()), float(1 - unequal.mean()), off_tie))
    return found


def _on_tie(graph: ir.Graph, node: ir.Node, values: Mapping[str, np.ndarray]) -> np.ndarray | bool:
    """Whether the exact value lies half way between two int8 values, to float32's precision; for sums only."""
    op, x = node.op, values[node.inputs[0]]
    _, rows, columns = graph.tensors[node.output].shape
    out = (rows, columns)
    quant = graph.tensors[node.inputs[0]].quant
    if isinstance(op, ir.Conv | ir.Depthwise):
        assert quant is not None
        groups = op.groups if isinstance(op, ir.Conv) else x.shape[1]
        acc = reference.accumulate(x, graph.constants[op.weights], op.window, groups, out, quant.zero)
        ratio = graph.constants[op.mult] * 2.0 ** -graph.constants[op.shift].astype(float)
        exact = (acc + graph.constants[op.bias][:, None, None]) * ratio[:, None, None]
    elif isinstance(op, ir.AveragePool):
        ones = np.ones((x.shape[1], 1, *op.window.kernel), np.int8)
        acc = reference.accumulate(x, ones, op.window, x.shape[1], out, op.zero_in)
        taps = np.prod(op.window.kernel)
        exact = (acc - op.zero_in * taps) * op.ratio / ir.taps_inside(op.window, (x.shape[2], x.shape[3]), out, op.include_pad)
    else:
        return False
    return np.abs(exact - np.floor(exact) - 0.5) < 1e-4
