"""Runs a quantised graph on all samples, stage by stage: each begins with a convolution whose weights may be unknown before.

Between stages the tensors that later ones read are kept for all samples, in int8 where they are quantised.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.pieces.partition import part_of
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.quantise.sessions import Session

CHUNK = 1 << 20  # elements that are real numbers at a time


def cut_at(nodes: Sequence[Node], first: Sequence[str]) -> list[list[Node]]:
    """The nodes in stages: what comes before the first of those with the outputs `first`, then each of them with what follows."""
    stages: list[list[Node]] = [[]]
    for node in nodes:
        if node.output in first:
            stages.append([])
        stages[-1].append(node)
    return stages


class Stages:
    """The tensors of all samples that are known so far. feeds: the model's inputs, sample by sample; quantised ones are rounded."""

    def __init__(self, graph: Graph, feeds: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._graph, self.samples = graph, len(feeds)
        self._known: dict[str, list[np.ndarray]] = {}
        for name in graph.inputs:
            self._known[name] = [self._rounded(name, sample[name]) for sample in feeds]

    def _rounded(self, name: str, x: np.ndarray) -> np.ndarray:
        quant = self._graph.tensors[name].quant
        if quant is None:
            return x
        return np.clip(np.rint(x / np.float32(quant.scale)) + quant.zero, -128, 127).astype(np.int8)

    def real(self, name: str) -> Iterator[np.ndarray]:
        """A quantised tensor as real numbers, [n, ...], some samples at a time."""
        samples, quant = self._known[name], self._graph.tensors[name].quant
        assert quant is not None
        step = max(1, CHUNK // samples[0].size)
        for start in range(0, self.samples, step):
            x = np.concatenate(samples[start : start + step]).astype(np.float32)
            yield (x - np.float32(quant.zero)) * np.float32(quant.scale)

    def run(self, graph: Graph, nodes: Sequence[Node], later: Sequence[Node]) -> None:
        """Runs the nodes, with their constants in `graph`; keeps what the `later` ones read. ModelError: onnxruntime cannot."""
        wanted = {name for node in later for name in node.inputs}
        if nodes and any(name in wanted for node in nodes for name in outputs_of(node)):
            part = part_of(graph, {node.output for node in nodes}, graph.name)
            model, inputs, outputs = _in_int8(part)
            made: dict[str, list[np.ndarray]] = {name: [] for name in outputs}
            session = Session(model.SerializeToString(), graph.name)
            for sample in range(self.samples):
                answers = session.run({inner: self._known[name][sample] for name, inner in inputs.items()})
                for name, inner in outputs.items():
                    made[name].append(answers[inner])
            self._known |= made
        self._known = {name: values for name, values in self._known.items() if name in wanted}


def live_bytes(graph: Graph, stages: Sequence[Sequence[Node]], quantised: Collection[str]) -> int:
    """The most bytes that are kept of one sample between two stages."""
    most = 0
    made: set[str] = {*graph.inputs}
    for number, stage in enumerate(stages):
        made |= {name for node in stage for name in outputs_of(node)}
        read = {name for later in stages[number + 1 :] for node in later for name in node.inputs}
        sizes = [int(np.prod(graph.tensors[name].shape)) * (1 if name in quantised else 4) for name in made & read]
        most = max(most, sum(sizes))
    return most


def _in_int8(part: Graph) -> tuple[ModelProto, dict[str, str], dict[str, str]]:
    """A stage as a model that takes and gives quantised tensors in int8; the names of its inputs and outputs there."""
    model = to_model(part)
    nodes = model.graph.node
    inputs, outputs = {name: name for name in part.inputs}, {name: name for name in part.outputs}
    for value in model.graph.input:
        quantised = next((node for node in nodes if node.op_type == "QuantizeLinear" and node.input[0] == value.name), None)
        if part.tensors[value.name].quant and quantised is not None:
            inputs[value.name] = quantised.output[0]
            nodes.remove(quantised)
            value.name = quantised.output[0]
            value.type.tensor_type.elem_type = TensorProto.INT8
    makers = {name: node for node in nodes for name in node.output}
    for name in part.outputs:
        maker = makers.get(name)
        if part.tensors[name].quant and maker is not None and maker.op_type == "DequantizeLinear":
            outputs[name] = maker.input[0]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(outputs.values()))
    return model, inputs, outputs


def convolutions(body: Graph) -> list[Node]:
    """Those that the accelerator runs, in order."""
    return [node for node in body.nodes if isinstance(node.op, Conv)]
