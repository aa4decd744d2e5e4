"""Finds the nodes that onnxruntime cannot run, in a CPU piece that it refuses as a whole."""

from collections.abc import Collection
from dataclasses import replace

from onnx import ModelProto

from cnna.compiler.frontend.pieces.cpu_limits import cpu_limit
from cnna.compiler.frontend.pieces.cpu_parts import cpu_models, operators_of, try_part
from cnna.compiler.frontend.pieces.partition import Piece, part_of
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.graph.node_names import place
from cnna.spec.cpu_ops import CpuPart
from cnna.spec.errors import ArtifactError, ModelError, reason_of
from cnna.spec.manifest import CPU

REASON_LENGTH = 200
SOURCE = " Status Message: /onnxruntime_src"


def refused(piece: Piece) -> dict[str, str]:
    """Why the CPU cannot run nodes, by their outputs; empty if it can run the whole piece.

    These are the nodes whose answers would differ from ONNX's. If there are none, they are the nodes that onnxruntime refuses even
    alone. If there are none of those either, it is the first node that fails together with those before it.
    """
    if limits := {node.output: limit for node in piece.graph.nodes if (limit := cpu_limit(node, piece.graph))}:
        return limits
    outputs = [node.output for node in piece.graph.nodes]
    if _trial(piece.graph, outputs) is None:
        return {}
    found = {output: reason for output in outputs if (reason := _session(piece.graph, output))}
    if found:
        return found
    least, most = 1, len(outputs)
    while least < most:
        middle = (least + most) // 2
        if _trial(piece.graph, outputs[:middle]) is None:
            least = middle + 1
        else:
            most = middle
    return {outputs[least - 1]: _trial(piece.graph, outputs[:least]) or ""}


def check_cpu(piece: Piece) -> None:
    """ModelError: the CPU cannot run a node of the piece; the line names the first one, and what to do."""
    found = refused(piece)
    for node in piece.graph.nodes:
        if reason := found.get(node.output):
            raise ModelError(refusal(node, piece.graph, reason))


def refusal(node: Node, graph: Graph, reason: str) -> str:
    """The line about a node that the CPU cannot run, with what to do."""
    remedy = "" if cpu_limit(node, graph) else "; replace it, or cut the model there and run two"
    return f"{place(node, graph)}: {reason}{remedy}"


def _trial(graph: Graph, outputs: Collection[str]) -> str | None:
    """Why these nodes of a piece do not run on one sample; None if they do."""
    model = _part(graph, outputs)
    try:
        try_part(model, operators_of(model))
    except ModelError as error:
        return _said(str(error).partition("): ")[2])
    return None


def _part(graph: Graph, outputs: Collection[str]) -> ModelProto:
    """The model of these nodes of a piece, which others give all that it reads but the model's own integers."""
    whole = tuple(name for name in graph.inputs if name in graph.types)
    (model,) = cpu_models([Piece(CPU, part_of(graph, outputs, graph.name))], replace(graph, inputs=whole))
    assert model is not None
    return model


def _session(graph: Graph, output: str) -> str | None:
    """Why onnxruntime refuses a node; None if it does not."""
    model = _part(graph, [output])
    try:
        CpuPart(model.SerializeToString(), operators_of(model), [value.name for value in model.graph.output])
    except ArtifactError as error:
        reason = reason_of(error.__context__) if isinstance(error.__context__, Exception) else str(error)
        return _said(reason)
    return None


def _said(reason: str) -> str:
    """onnxruntime's message, without the places in its own source."""
    return f"onnxruntime cannot run it: {reason.split(SOURCE)[0][:REASON_LENGTH]}"
