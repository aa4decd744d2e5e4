"""A quantised model cut into pieces for one configuration after another, as `compile` cuts it for each.

Where the way to the accelerator costs more than it gains depends on the configuration, but few configurations differ in it. So each
way to cut the model is converted once.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from onnx import ModelProto

from cnna.compiler.compile import cpu_piece, written_tensors
from cnna.compiler.frontend.model_ports import model_inputs
from cnna.compiler.frontend.onnx_import import source_of
from cnna.compiler.frontend.pieces.crossings import cheaper
from cnna.compiler.frontend.quantised_import import QuantisedModel, import_quantised
from cnna.compiler.frontend.source_model import Readable
from cnna.compiler.graph.ir import Graph
from cnna.compiler.prepared import prepared
from cnna.spec.config import Config
from cnna.spec.manifest import ACCELERATOR, ModelInput, PieceEntry

Pieces = tuple[Graph | PieceEntry, ...]  # an int8 graph for the accelerator, or the entry of a piece on the CPU


class Outline(NamedTuple):
    """What is known of a compiled model before its programs are planned, as far as `compiler.heads.find` asks for it.

    last: the ONNX file of the last piece, if that runs on the CPU.
    """

    pieces: Sequence[PieceEntry]
    last: bytes | None
    outputs: Sequence[str]
    inputs: Sequence[ModelInput]


class _Cut(NamedTuple):
    """last: as of `Outline`."""

    pieces: Pieces
    last: bytes | None


class Placements:
    """The pieces of a model for any configuration."""

    def __init__(self, model: Readable) -> None:
        """ModelError: as of `import_quantised`."""
        self._source = source_of(model)
        self._first = import_quantised(self._source)
        self._known: dict[frozenset[str], _Cut] = {}

    @property
    def name(self) -> str:
        """The model's."""
        return self._first.whole.name

    @property
    def proto(self) -> ModelProto:
        """The quantised model."""
        return self._source.proto

    @property
    def digest(self) -> str:
        """Of the model, from which all pieces follow."""
        return sha256(self._source.proto.SerializeToString(deterministic=True)).hexdigest()

    @property
    def programs(self) -> list[Graph]:
        """The int8 graphs of all that the accelerator can run, in the order of their pieces."""
        return self._first.programs

    def pieces(self, config: Config) -> Pieces:
        """The pieces, in their order. ModelError: onnxruntime cannot run one that is left to the CPU."""
        return self._cut(config).pieces

    def outline(self, config: Config) -> Outline:
        """What is known for a configuration without a plan. ModelError: as of `pieces`, or a piece does not run there."""
        found, proto = self._cut(config), self._source.proto
        entries = [_outlined(piece, config) if isinstance(piece, Graph) else piece for piece in found.pieces]
        return Outline(entries, found.last, [value.name for value in proto.graph.output], model_inputs(self._source))

    def _cut(self, config: Config) -> _Cut:
        reasons = cheaper(config)(self._first.whole, self._first.reasons)
        there = frozenset(output for output, reason in reasons.items() if reason is None)
        if there not in self._known:
            same = reasons == self._first.reasons
            self._known[there] = _pieces(self._first if same else import_quantised(self._source, placed_as=there))
        return self._known[there]


def _pieces(found: QuantisedModel) -> _Cut:
    made, last = list[Graph | PieceEntry](), None
    for piece in found.pieces:
        entry, files = (piece.integer, ()) if piece.integer is not None else cpu_piece(piece)
        made.append(entry)
        last = files[0] if files else None
    return _Cut(tuple(made), last)


def _outlined(graph: Graph, config: Config) -> PieceEntry:
    """Of the entry of a program what no plan changes. ModelError: as of `prepared`."""
    entry: Any = {
        "kind": ACCELERATOR,
        "inputs": [_port(graph, name) for name in graph.inputs],
        "outputs": [_port(graph, name) for name in graph.outputs],
        "layers": [{"op": type(node.op).__name__, "inputs": list(node.inputs), "output": node.output} for node in graph.nodes],
        "tensors": written_tensors(graph, prepared(graph, config, 1).lowered),
    }
    made: PieceEntry = entry
    return made


def _port(graph: Graph, name: str) -> dict[str, Any]:
    tensor = graph.tensors[name]
    assert tensor.quant is not None, f"'{name}' has no quantisation"
    return {"name": name, "tensor": name, "shape": list(tensor.shape), "scale": tensor.quant.scale, "zero": tensor.quant.zero}
