"""The manifest of a `.cnna` file (docs/artifact.md): its types, and the check that a file's values have these types.

Each `TypedDict` declares an entry once, for mypy and for `misfit` (`json_kinds`). Boards use this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, TypedDict

from cnna.spec.checks.json_kinds import ANYTHING, COUNT, TEXT, each, is_number, is_whole, kind_of, maybe, plain, record
from cnna.spec.config import OPTIONS, Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.detection.heads import DetectorEntry

SMALLEST, GREATEST = 2.0**-126, 2.0**127  # of scales: float32 holds them, and the quotients by them
MOST_SIZE = 1 << 32  # of an axis: a segment has fewer bytes

ACCELERATOR: Final = "accelerator"  # the kinds of pieces
CPU: Final = "cpu"
PREDICTED_SINCE = 3  # the first schema that stores the predictor's clocks
PIECES = 5  # the first schema in which a model is a list of pieces; before, it was a program between a head and a tail
TRACED = 4  # the first schema in which the compiler traces the batch to each output; before, it was taken for the first axis


def pieces_text(kinds: Sequence[str]) -> str:
    """The numbers of pieces of each kind, for users: `2 pieces on the accelerator, 1 on the CPU`."""
    count, cpu = kinds.count(ACCELERATOR), kinds.count(CPU)
    return f"{count} piece{'s' * (count != 1)} on the accelerator, {cpu} on the CPU"


def _is_span(value: Any) -> bool:
    """When a command begins and ends, then when its engine's head begins and ends work on it."""
    known = isinstance(value, list) and len(value) == 4 and all(map(is_whole, value))
    return known and value[0] <= value[1] and value[2] <= value[3]


_LATER = ("streams", "depth", *OPTIONS)  # parameters that some configurations lack, as of older files: these have the default
_LIST = each(ANYTHING)
_SCALE = plain(lambda value: is_number(value) and SMALLEST <= value <= GREATEST)
_ZERO = plain(lambda value: is_whole(value, -128, 128))
_SIZE = plain(lambda value: is_whole(value, 1, MOST_SIZE))
_POSITIVE = plain(lambda value: is_whole(value, 1))
_CONFIG = record(_LATER, name=TEXT, **{size.name: COUNT for size in fields(Config) if size.name != "name"})
_DDR = record(**dict.fromkeys(DdrSpeed._fields, _POSITIVE))

Size = Annotated[int, _SIZE]
MaybeSize = Annotated[int | None, maybe(_SIZE)]  # None: not fixed
Shape = Annotated[list[int], each(_SIZE, 3)]  # C, H, W


class TensorEntry(TypedDict):
    """An int8 tensor: value = (q - zero) * scale."""

    shape: Shape
    scale: Annotated[float, _SCALE]
    zero: Annotated[int, _ZERO]


class FoldEntry(TypedDict):
    """How pixels of an input become channels; `soundness` checks the numbers. Pairs are (rows, columns)."""

    shape: Annotated[list[int], _LIST]
    step: Annotated[list[int], _LIST]
    span: Annotated[list[int], _LIST]
    before: Annotated[list[int], _LIST]


class _MaybeFolded(TypedDict, total=False):
    fold: FoldEntry | None


class PlaceEntry(_MaybeFolded):
    """Where the bytes of a tensor lie in a segment."""

    name: str
    tensor: str
    segment: str
    offset: int
    image_bytes: int
    block_bytes: int
    row_bytes: int


class Port(PlaceEntry, TensorEntry):
    """A tensor that the host writes or reads."""


class ModelInput(TypedDict):
    """An input that a user gives; the shape is without the batch axis."""

    name: str
    shape: list[MaybeSize]
    dtype: str


class _MaybeTraced(TypedDict, total=False):
    batch_axis: int | None


class ModelOutput(_MaybeTraced):
    """An output that a user gets; the shape is the source model's, with None for unknown sizes."""

    name: str
    shape: list[MaybeSize] | None
    dtype: str


class CpuConstant(TypedDict):
    """A constant that an operator on the CPU reads."""

    dtype: str
    values: Any


class CpuOperator(TypedDict):
    """A node of a piece on the CPU."""

    name: str
    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    constants: dict[str, CpuConstant]


class _MaybePictured(TypedDict, total=False):
    size: list[Size]
    crop: list[Size]
    layout: str
    colour: str


class PreprocessEntry(_MaybePictured):
    """(picture * scale - mean) / std, by channel; missing entries are as in `cnna.spec.samples.preprocess`."""

    scale: float
    mean: list[float]
    std: list[float]


class _MaybeRead(TypedDict, total=False):
    inputs: list[str]  # the tensors that it reads; older files lack it


class LayerWork(_MaybeRead):
    """What a node of the graph does. macs and bytes: of a batch."""

    name: str
    op: str
    engine: str
    output: str
    macs: int
    node_names: list[str]
    ddr_read_bytes: int
    ddr_write_bytes: int


class LayerEntry(LayerWork):
    """A node of the graph, and the clocks that it takes."""

    predicted_cycles: int


class _MaybeTimed(TypedDict, total=False):
    predicted: Annotated[list[int], plain(_is_span)]  # older files lack it


class _MaybeStepped(_MaybeTimed, total=False):
    step: Annotated[list[int], each(_POSITIVE, 2)]  # rows, columns from a pixel to the next; 1 without it


class CommandEntry(_MaybeStepped):
    """A command of the program. origin: image, block, row and column of the first pixel that it writes."""

    engine: str
    layer: int
    tensor: str | None
    origin: Annotated[list[int], each(COUNT, 4)]


class Predicted(TypedDict):
    """Clocks of a batch, and the DDR for which they hold."""

    cycles: int
    ddr: Annotated[dict[str, int], _DDR]


class Member(TypedDict):
    """A file of the archive."""

    bytes: int
    sha256: str


class CommonEntries(TypedDict):
    """The entries that a model has as a whole and in each of its programs. isa: major and minor version of the register map."""

    isa: Annotated[list[int], each(COUNT, 2)]
    config: Annotated[dict[str, Any], _CONFIG]
    name: str
    batch: Annotated[int, _POSITIVE]


class _MaybePredicted(TypedDict, total=False):
    predicted: Predicted  # older files have the compiler's estimate of each layer alone
    activation_bytes: Annotated[dict[str, int], ANYTHING]
    nodes: list[str]  # the tensors that its nodes make in the float graph; older files lack it


class ProgramEntry(_MaybePredicted):
    """A piece that runs on the accelerator, and what the compiler knows of its program. macs: of one image."""

    kind: Annotated[Literal["accelerator"], plain(lambda value: value == ACCELERATOR)]
    program_writes: int
    segments: dict[str, int]
    inputs: list[Port]
    outputs: list[Port]
    macs: int
    layers: list[LayerEntry]
    tensors: dict[str, TensorEntry]
    commands: list[CommandEntry]


class ProgramManifest(CommonEntries, ProgramEntry):
    """A program by itself: the piece's entry, and the entries that it shares with its model."""


class CpuEntry(TypedDict):
    """A piece that runs on the CPU. numpy: whether it runs without onnxruntime. macs, seconds (predicted): of one image."""

    kind: Annotated[Literal["cpu"], plain(lambda value: value == CPU)]
    operators: list[CpuOperator]
    numpy: Annotated[bool, plain(lambda value: type(value) is bool)]
    macs: int
    seconds: float


PieceEntry = ProgramEntry | CpuEntry


def _piece(value: Any) -> str | None:
    kinds = {ACCELERATOR: _PROGRAM, CPU: _CPU_PIECE}
    found = value.get("kind") if isinstance(value, dict) else None
    return kinds[found](value) if isinstance(found, str) and found in kinds else ""


class _MaybeThere(TypedDict, total=False):
    format: Annotated[str, ANYTHING]  # `artifact` writes these two and checks them first
    schema: Annotated[int, ANYTHING]
    detector: DetectorEntry  # only where it was asked for and found


class ModelEntries(CommonEntries, _MaybeThere):
    """What the compiler knows of a model as a whole. macs: of one image, on the accelerator; cpu_macs: on the CPU."""

    version: str
    model_inputs: list[ModelInput]
    model_outputs: list[ModelOutput]
    preprocess: PreprocessEntry | None
    macs: int
    cpu_macs: int


class Manifest(ModelEntries):
    """A model and its pieces."""

    pieces: Annotated[list[PieceEntry], each(_piece)]


class StoredManifest(Manifest):
    """The manifest in a file."""

    members: dict[str, Member]


def misfit(manifest: Mapping[str, Any]) -> str | None:
    """The first entry of a stored manifest that is missing or of another kind, as `layers[2].macs`; None if all are sound."""
    found = _STORED(dict(manifest))
    return found if found is None else found.removeprefix(".")


_PROGRAM, _CPU_PIECE = kind_of(ProgramEntry), kind_of(CpuEntry)
_STORED = kind_of(StoredManifest)
