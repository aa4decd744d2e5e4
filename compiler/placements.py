"""A quantised model cut into pieces for one configuration after another, as `compile` cuts it for each.

Where the way to the accelerator costs more than it gains depends on the configuration, but few configurations differ in it. So each
way to cut the model is converted once.
"""

from hashlib import sha256

from onnx import ModelProto

from cnna.compiler.compile import cpu_piece
from cnna.compiler.frontend.onnx_import import source_of
from cnna.compiler.frontend.pieces.crossings import cheaper
from cnna.compiler.frontend.quantised_import import QuantisedModel, import_quantised
from cnna.compiler.frontend.source_model import Readable
from cnna.compiler.graph.ir import Graph
from cnna.spec.config import Config
from cnna.spec.manifest import PieceEntry

Pieces = tuple[Graph | PieceEntry, ...]  # an int8 graph for the accelerator, or the entry of a piece on the CPU


class Placements:
    """The pieces of a model for any configuration."""

    def __init__(self, model: Readable) -> None:
        """ModelError: as of `import_quantised`."""
        self._source = source_of(model)
        self._first = import_quantised(self._source)
        self._known: dict[frozenset[str], Pieces] = {}

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
        reasons = cheaper(config)(self._first.whole, self._first.reasons)
        there = frozenset(output for output, reason in reasons.items() if reason is None)
        if there not in self._known:
            same = reasons == self._first.reasons
            self._known[there] = _pieces(self._first if same else import_quantised(self._source, placed_as=there))
        return self._known[there]


def _pieces(found: QuantisedModel) -> Pieces:
    made: list[Graph | PieceEntry] = []
    for piece in found.pieces:
        made.append(cpu_piece(piece)[0] if piece.integer is None else piece.integer)
    return tuple(made)
