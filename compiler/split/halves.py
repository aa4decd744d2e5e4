"""The models on both sides of a cut, and the piece between them that quantises what crosses.

edge: from the inputs to the floats that cross. pack: these floats to int8. cloud: what crosses to the outputs. Together they
compute what the whole model computes, bit by bit.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper
from onnx.utils import Extractor

from cnna.compiler.frontend.metadata import hand_on
from cnna.compiler.split.cuts import Crossing, Cut, Cuts
from cnna.spec.errors import CheckError


@dataclass(frozen=True)
class Halves:
    """pack: None where nothing that crosses is quantised."""

    edge: ModelProto
    pack: ModelProto | None
    cloud: ModelProto


def halves_of(cuts: Cuts, cut: Cut) -> Halves:
    """The models of a cut."""
    model = cuts.model
    extractor = Extractor(model)
    inputs, outputs = [one.name for one in model.graph.input], [one.name for one in model.graph.output]
    made = [one for one in cut.crossings if one.name not in inputs]
    edge = extractor.extract_model(inputs, list(dict.fromkeys(one.whole for one in made)))
    cloud = extractor.extract_model([one.name for one in cut.crossings], outputs)
    for half in (edge, cloud):
        hand_on(model, half)
    return Halves(edge, _pack(model, [one for one in made if one.whole != one.name]), cloud)


def _pack(model: ModelProto, crossings: list[Crossing]) -> ModelProto | None:
    """QuantizeLinear of each float, with the constants of the DequantizeLinear that made it."""
    if not crossings:
        return None
    constants = {one.name: one for one in model.graph.initializer}
    producer = {name: node for node in model.graph.node for name in node.output}
    ports = {one.name: one for one in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    nodes, kept = list[NodeProto](), dict[str, Any]()
    for number, one in enumerate(crossings):
        back = producer[one.whole]
        nodes.append(helper.make_node("QuantizeLinear", [one.whole, *back.input[1:]], [one.name], f"pack{number}"))
        nodes[-1].attribute.extend(back.attribute)
        kept |= {name: constants[name] for name in back.input[1:] if name}
    inputs, outputs = [ports[one.whole] for one in crossings], [ports[one.name] for one in crossings]
    graph = helper.make_graph(nodes, "pack", inputs, outputs, list(kept.values()))
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def check_halves(whole: ModelProto, halves: Halves, samples: dict[str, NDArray[Any]]) -> None:
    """CheckError: both halves together differ from the whole model in a bit, node by node."""
    found = dict(samples)
    for half in (halves.edge, halves.pack, halves.cloud):
        if half is not None:
            found |= ran(half, found)
    for name, want in ran(whole, samples).items():
        if not np.array_equal(found[name], want, equal_nan=want.dtype.kind == "f"):
            raise CheckError(f"output {name} of both halves differs from the whole model's; this model cannot be split")


def ran(model: ModelProto, samples: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A model's outputs, without onnxruntime's rewrites."""
    session = session_of(model, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {one.name: samples[one.name] for one in session.get_inputs()}), strict=True))


def session_of(model: ModelProto, level: Any = None) -> Any:
    """One thread of this computer."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if level is not None:
        options.graph_optimization_level = level
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
