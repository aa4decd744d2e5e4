"""Explains a model: where each of its nodes will run, why, what would bring it to the accelerator, and how quick the whole will be.

It uses the functions that `cnna compile` will use: placement, pieces, programs, predictions. For that, a float model is quantised
with assumed ranges.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cnna.compiler.compile import check_batch, cpu_piece, program_piece
from cnna.compiler.explain.assumed_ranges import quantised
from cnna.compiler.explain.origins import origins
from cnna.compiler.explain.rows import REFUSED, Facts, Row, rows
from cnna.compiler.frontend.model_ports import model_inputs
from cnna.compiler.frontend.onnx_import import source_of, to_graph
from cnna.compiler.frontend.pieces import support
from cnna.compiler.frontend.pieces.cpu_parts import cpu_models
from cnna.compiler.frontend.pieces.crossings import cheaper
from cnna.compiler.frontend.pieces.partition import Piece, Reasons, cut, placed
from cnna.compiler.frontend.pieces.refusals import refusal, refused
from cnna.compiler.frontend.quantised_import import ImportedPiece, placement, to_int8
from cnna.compiler.frontend.source_model import Readable, SourceModel
from cnna.compiler.graph.ir import Graph
from cnna.compiler.heads.find import AUTO, Missed, find
from cnna.compiler.passes.pipeline import QUANTISATION, REWRITES, run_passes
from cnna.compiler.quantise.quantise import is_quantised
from cnna.compiler.report.report import coded_in
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config
from cnna.spec.detection.heads import Heads
from cnna.spec.errors import ModelError
from cnna.spec.host_time.detector_time import gain
from cnna.spec.host_time.end_to_end import EndToEnd, end_to_end
from cnna.spec.host_time.piece_times import PieceTime, piece_times
from cnna.spec.manifest import ACCELERATOR, CPU, PieceEntry

Say = Callable[[str], object]
DECODES = "it makes boxes; with --detector the host does so on integers"


@dataclass(frozen=True)
class Explanation:
    """What will happen to a model.

    assumed: whether ranges were assumed, because the model is not quantised. pieces: in the order in which they run.
    operators: of each piece, those that the CPU runs. macs, cpu_macs: of one image, on the accelerator and on the CPU. speed: None
    if the model cannot be compiled; `problems` then says why, and there are no `times` of pieces. certain: whether a problem stays
    whatever the ranges are, such as a layer that is too large for the configuration. detector: what is known of a detector's heads;
    None: nobody asked, and it does not look like one.
    """

    name: str
    config: Config
    batch: int
    assumed: bool
    pieces: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]
    rows: tuple[Row, ...]
    macs: int
    cpu_macs: int
    cycles: int | None
    speed: EndToEnd | None
    problems: tuple[str, ...]
    times: tuple[PieceTime, ...] = ()
    certain: bool = False
    detector: str | None = None

    @property
    def mac_share(self) -> float:
        """The accelerator's share of the multiply-accumulates."""
        return self.macs / max(self.macs + self.cpu_macs, 1)

    @property
    def refused(self) -> bool:
        """Whether `compile` refuses the model, whatever its ranges are: a problem may be one of ranges that are assumed."""
        return bool(self.problems) and (self.certain or not self.assumed or any(row.side == REFUSED for row in self.rows))

    def figures(self) -> dict[str, Any]:
        """The figures for `--json`."""
        return {
            "name": self.name,
            "config": self.config.name,
            "clock_mhz": self.config.clock_mhz,
            "ddr": ddr_of(self.config).entry(),
            "batch": self.batch,
            "assumed_ranges": self.assumed,
            "pieces": list(self.pieces),
            "macs": self.macs,
            "cpu_macs": self.cpu_macs,
            "mac_share": self.mac_share,
            "predicted_cycles": self.cycles,
            "predicted_end_to_end": self.speed and self.speed.figures(),
            "piece_times": [{**asdict(time), "seconds": time.seconds} for time in self.times],
            "problems": list(self.problems),
            "detector": self.detector,
            "nodes": [asdict(row) for row in self.rows],
        }


@dataclass(frozen=True)
class _Partitioned:
    """A model as it will be compiled. Graphs and reasons are those of `Facts`. assumed: as of `Explanation`."""

    assumed: bool
    rewritten: Graph
    whole: Graph
    reasons: Reasons
    floating: Reasons
    problems: tuple[str, ...] = ()


def explain(
    model: Readable, config: Config, say: Say | None = None, batch: int = 1, native: bool = True, detector: str | None = None
) -> Explanation:
    """Explains a model that was read. say: called with the name of each step. batch: images in one run of a program.
    native: whether the host has its native library, for what is modelled of it. detector: which detector's heads to look for.

    ModelError: the model cannot become a graph at all, so there are no nodes to explain; or the batch is not one.
    """
    source = source_of(model)
    check_batch(batch, source.proto.graph.name)
    say = say or (lambda step: None)
    say("read")
    rewritten = run_passes(to_graph(source), REWRITES)
    say("place")
    found = _placed(rewritten, detector is not None)
    reasons = cheaper(config)(found.whole, found.reasons)
    pieces = cut(found.whole, reasons)
    say("try what runs on the CPU")
    refusals = {output: why for piece in pieces if piece.kind == CPU for output, why in refused(piece).items()}
    entries, coded, problems, certain = _compiled(pieces, found.whole, config, batch, say, refusals)
    facts = Facts(*(config, found.rewritten, found.whole, reasons, found.floating, pieces, batch, refusals, entries, coded, native))
    whole = [entry for entry in entries if entry is not None]
    can = len(whole) == len(entries) and not found.problems
    clocks = sum(entry["predicted"]["cycles"] for entry in whole if entry["kind"] == ACCELERATOR)
    heads = _heads(source, pieces, found.whole, whole, detector) if can else None
    return Explanation(
        found.whole.name,
        config,
        batch,
        found.assumed,
        tuple(piece.kind for piece in pieces),
        tuple(_cpu_operators(entry) for entry in entries),
        tuple(_decoded(rows(origins(source.proto, found.rewritten, found.whole, reasons), facts), heads, len(pieces) - 1)),
        _macs(pieces, ACCELERATOR),
        _macs(pieces, CPU),
        clocks if can else None,
        end_to_end(whole, clocks, config.clock_mhz, batch, native) if can else None,
        (*found.problems, *problems),
        piece_times(whole, config, batch, native=native) if can else (),
        certain,
        None if heads is None else _in_words(heads, whole, (clocks, config.clock_mhz, batch)),
    )


def _heads(
    source: SourceModel, pieces: Sequence[Piece], graph: Graph, entries: Sequence[PieceEntry], wanted: str | None
) -> Heads | Missed | None:
    """A compiled detector's heads. wanted: None if nobody asks; then None says that the model does not look like a detector."""
    last = cpu_models(pieces, graph)[-1]
    outputs = [value.name for value in source.proto.graph.output]
    found = find(entries, last and last.SerializeToString(), outputs, model_inputs(source), wanted or AUTO)
    return None if wanted is None and isinstance(found, Missed) and not found.likely else found


def _in_words(heads: Heads | Missed, entries: Sequence[PieceEntry], run: tuple[int, int, int]) -> str:
    """Which heads a detector has, or which structure was expected, and where it broke off. run: clocks, MHz, batch."""
    if isinstance(heads, Missed):
        return str(heads)
    quicker = gain(heads.entry, entries, *run)
    return f"detector {heads.said()}; decode on integers (--detector): {quicker}, natively, at the slow end"


def _decoded(found: Sequence[Row], heads: Heads | Missed | None, last: int) -> list[Row]:
    """The rows; those of a detector's decode have no hints, since other shapes would bring less than not to run them at all."""
    if heads is None or (isinstance(heads, Missed) and not heads.likely):
        return [*found]
    return [_unhinted(row) if row.side == CPU and row.piece == last else row for row in found]


def _unhinted(row: Row) -> Row:
    return replace(row, reason=DECODES, rewrite=None, gain_seconds=None, gain_clocks=None)


def _cpu_operators(entry: PieceEntry | None) -> tuple[str, ...]:
    return tuple(node["op"] for node in entry["operators"]) if entry is not None and entry["kind"] == CPU else ()


def _macs(pieces: Sequence[Piece], kind: str) -> int:
    return sum(ImportedPiece(piece).float_macs for piece in pieces if piece.kind == kind)


def _placed(rewritten: Graph, detector: bool) -> _Partitioned:
    """Finds where nodes could run. A model that `compile` refuses as it is, is placed as far as its operators allow."""
    if is_quantised(rewritten) or support.foreign_quantisation(rewritten):
        whole = run_passes(rewritten, QUANTISATION)
        try:
            return _Partitioned(False, rewritten, whole, placement(whole), {})
        except ModelError as error:
            return _Partitioned(False, rewritten, whole, placed(whole, support.quantised_limit), {}, (str(error),))
    made, stays_float = quantised(rewritten, detector)
    source = replace(to_graph(made), sources=rewritten.sources)
    whole = run_passes(source, (*REWRITES, *QUANTISATION))
    return _Partitioned(True, rewritten, whole, placement(whole), stays_float)


def _compiled(
    pieces: Sequence[Piece],
    whole: Graph,
    config: Config,
    batch: int,
    say: Say,
    refusals: Mapping[str, str],
) -> tuple[list[PieceEntry | None], frozenset[str], list[str], bool]:
    """The entries of all pieces, None for those that cannot be compiled; layers whose weights come as codes; why pieces cannot, and
    whether this stays so with any ranges.
    """
    entries: list[PieceEntry | None] = []
    coded: set[str] = set()
    problems, certain = [], False
    for number, (piece, cpu) in enumerate(zip(pieces, cpu_models(pieces, whole), strict=True), 1):
        say(f"compile piece {number} of {len(pieces)}")
        if own := [node for node in piece.graph.nodes if node.output in refusals]:
            entries.append(None)
            problems += [refusal(node, whole, refusals[node.output]) for node in own]
            continue
        integer = None
        try:
            integer = to_int8(piece.graph) if cpu is None else None
            entry, own_coded = _entry(ImportedPiece(piece, integer, cpu), config, batch)
            entries.append(entry)
            coded |= own_coded
        except ModelError as error:
            entries.append(None)
            problems.append(str(error))
            certain |= cpu is not None or integer is not None
    return entries, frozenset(coded), problems, certain


def _entry(piece: ImportedPiece, config: Config, batch: int) -> tuple[PieceEntry, set[str]]:
    """A piece's entry, and its layers whose weights come as codes. ModelError: it cannot be compiled."""
    if piece.cpu is not None:
        return cpu_piece(piece)[0], set()
    entry, (program, _) = program_piece(piece, config, batch)
    assert entry["kind"] == ACCELERATOR
    return entry, {*coded_in(entry, program)}
