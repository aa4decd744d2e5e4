"""Turns a model that came quantised (QDQ or QLinear, ours or onnxruntime's) into pieces: int8 graphs, and ONNX models for the
CPU.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from onnx import ModelProto

from cnna.compiler.frontend.batch.batch_axis import batch_axes
from cnna.compiler.frontend.integer import to_integer
from cnna.compiler.frontend.model_ports import stored_axes
from cnna.compiler.frontend.onnx_import import source_of, to_graph
from cnna.compiler.frontend.pieces import support
from cnna.compiler.frontend.pieces.cpu_limits import cpu_limit
from cnna.compiler.frontend.pieces.cpu_parts import cpu_models
from cnna.compiler.frontend.pieces.partition import Piece, Reasons, cut, placed
from cnna.compiler.frontend.source_model import Readable
from cnna.compiler.graph.float_ops import Onnx, float_macs
from cnna.compiler.graph.ir import Graph
from cnna.compiler.graph.node_names import place
from cnna.compiler.graph.validate import validate_integer
from cnna.compiler.passes.pipeline import INTEGER, PLAIN, QUANTISATION, REWRITES, Dump, run_passes
from cnna.spec.errors import ModelError
from cnna.spec.manifest import ACCELERATOR

Decide = Callable[[Graph, Reasons], Reasons]  # decides what runs on the CPU, given the graph and why nodes of it must


@dataclass(frozen=True)
class ImportedPiece:
    """A piece of the model: `integer`, an int8 graph for the accelerator, or `cpu`, an ONNX model.

    nodes: those of the float graph, by output. macs: of one image, for a piece on the CPU.
    """

    source: Piece
    integer: Graph | None = None
    cpu: ModelProto | None = None

    @property
    def nodes(self) -> list[str]:
        """The piece's nodes in the float graph, by output."""
        return [node.output for node in self.source.graph.nodes]

    @property
    def float_macs(self) -> int:
        """Multiply-accumulates of the float nodes, for one image."""
        return sum(float_macs(node, self.source.graph) for node in self.source.graph.nodes)


@dataclass(frozen=True)
class QuantisedModel:
    """What runs where.

    `whole` is the float graph that was cut, and `reasons` say why nodes of it run on the CPU. `axes` has the batch's axis in each
    output of the model, None if it has none. `shapes` are the outputs' shapes for a batch of one, with 0 for unknown sizes.
    """

    whole: Graph
    reasons: Reasons
    pieces: tuple[ImportedPiece, ...]
    axes: dict[str, int | None]
    shapes: dict[str, tuple[int, ...]]

    @property
    def programs(self) -> list[Graph]:
        """The int8 graphs, in the order of their pieces."""
        return [piece.integer for piece in self.pieces if piece.integer is not None]


def import_quantised(
    model: Readable,
    dump: Dump | None = None,
    sources: Mapping[str, str] | None = None,
    placed_as: Collection[str] | None = None,
    decide: Decide | None = None,
) -> QuantisedModel:
    """Rewrites, cuts and converts. `dump` gets the graph after each pass. `sources`: those of the model that this one was made
    from, whose nodes errors then name. placed_as: the nodes for the accelerator, by output, where that is known. decide: may move
    more nodes to the CPU.

    ModelError: nothing quantised in it that could run on the accelerator, or a sum or scale that its arithmetic cannot hold.
    """
    read = source_of(model)
    source = to_graph(read)
    unchanged = run_passes(replace(source, sources=sources or source.sources), PLAIN, dump)
    graph = run_passes(unchanged, (*REWRITES[len(PLAIN) :], *QUANTISATION), dump)
    reasons = placement(graph) if placed_as is None else _given(graph, placed_as)
    if decide:
        reasons = decide(graph, reasons)
    for node in graph.nodes:
        if reasons[node.output] is not None and (limit := cpu_limit(node, graph)):
            raise ModelError(f"{place(node, graph)}: {limit}")
    parts = cut(graph, reasons)
    if dump:
        for part in parts:
            dump(f"piece {part.graph.name}", part.graph)
    cpu = cpu_models(parts, graph)
    pieces = []
    for part, made in zip(parts, cpu, strict=True):
        pieces.append(ImportedPiece(part, to_int8(part.graph, dump) if part.kind == ACCELERATOR else None, made))
    shapes = {name: unchanged.tensors[name].shape for name in unchanged.outputs}
    axes = output_axes(unchanged) | stored_axes(read.proto, shapes)
    return QuantisedModel(graph, reasons, tuple(pieces), axes, shapes)


def output_axes(graph: Graph) -> dict[str, int | None]:
    """The batch's axis in each output of a graph behind `PLAIN`; None: it has none. What the trace loses, the model may declare."""
    axes = batch_axes(graph)
    return {name: graph.joins.get(name) if axes.get(name) is None else axes[name] for name in graph.outputs}


def _given(graph: Graph, placed_as: Collection[str]) -> Reasons:
    """The reasons of a known placement."""
    return {node.output: None if node.output in placed_as else "" for node in graph.nodes}


def placement(graph: Graph) -> Reasons:
    """Why nodes of a quantised and rewritten graph run on the CPU. ModelError: it is not quantised, though some of it could run."""
    reasons = placed(graph, support.quantised_limit)
    if None not in reasons.values() and not any(tensor.quant for tensor in graph.tensors.values()):
        rounds = any(isinstance(node.op, Onnx) and node.op.kind in ("QuantizeLinear", "DequantizeLinear") for node in graph.nodes)
        rounds = rounds or support.foreign_quantisation(graph) is not None
        if not rounds and None in placed(graph, support.limit).values():
            raise ModelError(f"{graph.name}: the model is not quantised; run `cnna quantize` on it first")
    return reasons


def to_int8(part: Graph, dump: Dump | None = None) -> Graph:
    """The int8 graph of a piece for the accelerator. ModelError: as `to_integer`."""
    body = to_integer(part)
    if dump:
        dump("to_integer", body)
    body = run_passes(body, INTEGER, dump)
    validate_integer(body)
    return body
