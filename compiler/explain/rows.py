"""A row for each node of the user's model: where it runs, why, what it costs, and what would bring it to the accelerator.

Of a layer that waits for its weights there, the row says how these may come in half the time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cnna.compiler.explain.four_bits import CODED, remedy
from cnna.compiler.explain.normalisations import normalisations
from cnna.compiler.explain.origins import Origin
from cnna.compiler.frontend.pieces import support
from cnna.compiler.frontend.pieces.crossings import TOO_LITTLE, node_seconds
from cnna.compiler.frontend.pieces.hints import NORM, NORMALISATIONS, STEEP, TooLarge
from cnna.compiler.frontend.pieces.partition import ISLAND, Piece, Reasons
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.float_ops import VIEWS, Onnx, float_macs
from cnna.compiler.graph.ir import AnyNode, Graph
from cnna.compiler.graph.node_names import source_of
from cnna.spec.config import Config
from cnna.spec.cpu_ops import only_views
from cnna.spec.host_time.end_to_end import PIECE_SECONDS, run_seconds
from cnna.spec.manifest import ACCELERATOR, CPU, PieceEntry

REFUSED, CONSTANT = "refused", "constant"  # where a node runs, besides ACCELERATOR and CPU
COMPUTED = "it depends on no input, so it is computed while the model is compiled"
BEGINS = "it begins a normalisation by what is computed, and no engine computes that"
IN_FLOAT = "`cnna quantize` leaves it in float"


@dataclass(frozen=True)
class Row:
    """A node, with the name and the operator that it has in the user's model.

    side: ACCELERATOR, CPU, REFUSED (onnxruntime cannot run it either) or CONSTANT. piece: its number, from 0; None for a constant.
    also: other pieces that have a part of it, because a rewrite made several nodes of it, such as a layer and a change of shape.
    folded: the node that does its work as well, in a rewrite or in its layer. macs: of a batch. clocks: of the accelerator for a
    batch; seconds: there or on the CPU; None if unknown. reason: why it does not run on the accelerator, or else how its weights
    come. rewrite: what would bring it there, or halve its weights. gain_seconds, gain_clocks: what that would save, for a batch.
    """

    name: str
    op: str
    side: str
    piece: int | None
    also: tuple[int, ...]
    reason: str | None
    rewrite: str | None
    folded: str | None
    macs: int
    clocks: int | None
    seconds: float | None
    gain_seconds: float | None
    gain_clocks: int | None


@dataclass(frozen=True)
class Facts:
    """What rows are made from. reasons: why nodes of `whole` run on the CPU. floating: the same for the float graph.

    `floating` is empty if the model came quantised. batch: images in one run of a program. refusals: why onnxruntime cannot run
    nodes. entries: of the pieces, None where a piece cannot be compiled. coded: layers whose weights come as codes of 4 bits.
    native: whether the host has its native library.
    """

    config: Config
    rewritten: Graph
    whole: Graph
    reasons: Reasons
    floating: Reasons
    pieces: Sequence[Piece]
    batch: int
    refusals: Mapping[str, str]
    entries: Sequence[PieceEntry | None]
    coded: frozenset[str]
    native: bool = True


def rows(origins: Sequence[Origin], facts: Facts) -> list[Row]:
    """The rows, in the order of the model."""
    return _Rows(origins, facts).rows()


class _Rows:
    def __init__(self, origins: Sequence[Origin], facts: Facts) -> None:
        self.origins, self.facts = origins, facts
        self.piece_of = {node.output: number for number, piece in enumerate(facts.pieces) for node in piece.graph.nodes}
        self.sources = dict.fromkeys((node.name for node in facts.whole.nodes), "")
        self.clocks = _clocks(facts.entries, self.sources)
        self.layers = _layers(facts.entries, self.sources)
        self.readers = _readers(facts.whole)
        self.owners = {node.name: origin.name for origin in origins for node in origin.made}
        self.coded = {source_of(name, self.sources) or name for name in facts.coded}
        self.norms = normalisations([origin.node for origin in origins])
        self.views = {number for number, entry in enumerate(facts.entries) if _only_views(entry)}  # pieces

    def rows(self) -> list[Row]:
        own = {origin.number: self._own(origin) for origin in self.origins if origin.made}
        return [own.get(origin.number) or self._folded(origin, own) for origin in self.origins]

    def _folded(self, origin: Origin, own: Mapping[int, Row]) -> Row:
        """The row of a node that has no node of its own in the rewritten graph."""
        nothing = (None, None, None)
        if origin.folded is None:
            return Row(origin.name, origin.node.op_type, CONSTANT, None, (), COMPUTED, None, None, 0, *nothing, None)
        home = own[origin.folded]
        side = CPU if home.side == REFUSED else home.side
        return Row(origin.name, origin.node.op_type, side, home.piece, (), None, None, home.name, 0, *nothing, None)

    def _own(self, origin: Origin) -> Row:
        whole, nodes = self.facts.whole, origin.main()
        macs = {node.output: float_macs(node, whole) for node in origin.made}
        refused = [node for node in nodes if node.output in self.facts.refusals]
        cpu = [node for node in nodes if self.facts.reasons[node.output] is not None]
        # a node may have parts on both sides: then its multiplications decide, or else the part that the accelerator cannot run
        main = max(refused or nodes, key=lambda node: (macs[node.output], node in cpu))
        side = REFUSED if refused else CPU if main in cpu else ACCELERATOR
        reason, rewrite, gain = self._weights(main) if side == ACCELERATOR else (*self._why(origin, main), None)
        if side == CPU and (home := self.norms.get(origin.number)) is not None:
            reason, rewrite = self._normalises(origin, home, reason)
        clocks, seconds = self._cost(origin, side)
        if side == CPU and rewrite and rewrite != TooLarge.remedy:
            gain = self._gain(self._made(origin, rewrite), main, rewrite == NORM)
        number = self.piece_of[main.output]
        also = tuple(sorted({self.piece_of[node.output] for node in origin.made} - {number}))
        joined = self._joined(origin, main) if side == ACCELERATOR and clocks is None else None
        return Row(
            *(origin.name, origin.node.op_type, side, number, also, reason, rewrite, joined, self.facts.batch * sum(macs.values())),
            *(clocks, seconds, gain, None if gain is None else round(gain * self.facts.config.clock_mhz * 1e6)),
        )

    def _weights(self, main: AnyNode) -> tuple[str | None, str | None, float | None]:
        """That its weights come as codes; or what would make codes of them, and the seconds that this would save."""
        if main.name in self.coded:
            return CODED, None, None
        if (found := remedy(main, self.facts.whole, self.facts.config, self.facts.batch)) is None:
            return None, None, None
        return None, found[0], found[1] / (self.facts.config.clock_mhz * 1e6)

    def _normalises(self, origin: Origin, home: int, reason: str | None) -> tuple[str | None, str | None]:
        """The reason and the remedy of a part of a normalisation; `home` is the part that stands for all of it."""
        if home != origin.number:
            return f"a part of the normalisation that '{self.origins[home].name}' begins", None
        return (reason if origin.node.op_type in NORMALISATIONS else BEGINS), NORM

    def _made(self, origin: Origin, rewrite: str) -> Sequence[AnyNode]:
        """The nodes that a remedy concerns: those of the origin, or of the whole normalisation that it begins."""
        if rewrite != NORM:
            return origin.made
        group = [other for number, other in enumerate(self.origins) if self.norms.get(number, -1) == origin.number]
        return [node for other in group or [origin] for node in other.made]

    def _why(self, origin: Origin, main: AnyNode) -> tuple[str | None, str | None]:
        """Why it does not run on the accelerator, and the rewrite that would change that."""
        if main.output in self.facts.refusals:
            return self.facts.refusals[main.output], None
        node, graph, reasons = main, self.facts.whole, self.facts.reasons
        work = [node for node in origin.rewritten if not isinstance(node.op, VIEWS)] or origin.rewritten
        if kept := next((node for node in work if self.facts.floating.get(node.output) is not None), None):
            node, graph, reasons = kept, self.facts.rewritten, self.facts.floating
        shapes = {name: graph.tensors[name].shape for name in node.inputs if name in graph.tensors}
        unknown = next((name for name, shape in shapes.items() if not shape or 0 in shape), None)
        if isinstance(node.op, Onnx) and support.may_run(node) and unknown is not None and not support.quantised_at_run(graph):
            if unknown == node.inputs[0] or shapes[unknown]:
                return f"the shape of its input '{unknown}' is not known while the model is compiled", None
            if node.op.kind not in support.OPERANDS:  # a single number's shape looks like no shape
                named = unknown.removesuffix(":whole")
                return f"its operand '{named}' is computed while the model runs, as one number or in an unknown shape", None
        reason = reasons[node.output]
        if self.facts.floating and reason is not None and support.WHOLE in reason:
            return IN_FLOAT, None  # it is no fault of the user's file
        return reason, self._rewrite(node, graph, reasons)

    def _rewrite(self, node: AnyNode, graph: Graph, reasons: Reasons) -> str | None:
        """The rewrite that helps; None if none is known, or if the reason names its own remedy."""
        reason = reasons[node.output]
        if reason in (None, ISLAND, TOO_LITTLE) or reason != support.limit(node, graph):
            return None
        found = support.remedy(node, graph)
        if found == STEEP:  # alone among nodes of the CPU it would stay there with Q and DQ too
            near = [other for other in graph.nodes if node.output in other.inputs or set(outputs_of(other)) & set(node.inputs)]
            return found if any(reasons[other.output] is None for other in near) else None
        return found

    def _cost(self, origin: Origin, side: str) -> tuple[int | None, float | None]:
        """Clocks on the accelerator, None if it does not run there or another node's layer does its work; and seconds."""
        if side != ACCELERATOR:
            return None, sum(self._seconds(node) for node in origin.made)
        own = [self.clocks[node.name] for node in origin.made if node.name in self.clocks]
        return (sum(own), sum(own) / (self.facts.config.clock_mhz * 1e6)) if own else (None, None)

    def _joined(self, origin: Origin, main: AnyNode) -> str | None:
        """The node whose layer does the work of one that has become no layer; None if nothing is left to do, or if it is unknown.

        That layer writes its output, or that of what is joined behind it; else a layer reads what it makes, as it orders it.
        """
        number, waiting, seen = self.piece_of[main.output], [main.output], set[str]()
        while waiting:
            name = waiting.pop(0)
            if (layer := self.layers.get((number, name))) is not None:
                return self._owner(layer, origin)
            for node in self.readers.get(name, ()):
                if self.piece_of[node.output] != number or node.output in seen:
                    continue
                seen.add(node.output)
                if node.name in self.clocks:
                    return self._owner(node.name, origin)
                waiting.append(node.output)
        return None

    def _owner(self, name: str, origin: Origin) -> str | None:
        """The user's node from which a node of the quantised graph was made; None if it is the origin itself."""
        owner = self.owners.get(name, name)
        return None if owner == origin.name else owner

    def _seconds(self, node: AnyNode) -> float:
        """What a node takes on the CPU, for a batch."""
        return self.facts.batch * node_seconds(node, self.facts.whole, self.piece_of[node.output] in self.views)

    def _gain(self, nodes: Sequence[AnyNode], main: AnyNode, views: bool) -> float:
        """Seconds that the accelerator would save of these nodes: those on the CPU, less what the accelerator would need at best.

        If they are alone in a piece between two of the accelerator's, its crossings are saved too. views: so are the views beside
        them, which are there for them alone.
        """
        config, tensors, batch = self.facts.config, self.facts.whole.tensors, self.facts.batch
        macs = sum(float_macs(node, self.facts.whole) for node in nodes)
        there = batch * max(macs / config.macs, prod(tensors[main.output].shape) / (config.pix * config.ci))
        on_cpu = [node for node in nodes if self.facts.reasons[node.output] is not None]
        saved = sum(self._seconds(node) for node in on_cpu) - there / (config.clock_mhz * 1e6)
        number = self.piece_of[main.output]
        part = self.facts.pieces[number].graph
        own = {node.output for node in on_cpu}
        rest = [node for node in part.nodes if node.output not in own]
        alone = all(views and isinstance(node.op, VIEWS) for node in rest)
        if alone and 0 < number < len(self.facts.pieces) - 1:
            others = (n for n, piece in enumerate(self.facts.pieces) if piece.kind == CPU and n not in self.views)
            first = all(other == number for other in others)
            call = 0 if number in self.views else batch * PIECE_SECONDS
            given, taken = ([tensors[name].shape for name in names] for names in (part.outputs, part.inputs))
            saved += sum(map(self._seconds, rest)) + call + run_seconds(given, taken, batch, config.ci, self.facts.native, first)
        return saved


def _only_views(entry: PieceEntry | None) -> bool:
    return entry is not None and entry["kind"] == CPU and entry["numpy"] and only_views(entry["operators"])


def _layers(entries: Sequence[PieceEntry | None], sources: Mapping[str, str]) -> dict[tuple[int, str], str]:
    """The node of the quantised graph whose layer writes a tensor, by the piece's number and the tensor's name."""
    return {
        (number, layer["output"]): source_of(layer["name"], sources) or layer["name"]
        for number, entry in enumerate(entries)
        if entry is not None and entry["kind"] == ACCELERATOR
        for layer in entry["layers"]
        if "output" in layer
    }


def _readers(graph: Graph) -> dict[str, list[AnyNode]]:
    found: dict[str, list[AnyNode]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            found.setdefault(name, []).append(node)
    return found


def _clocks(entries: Sequence[PieceEntry | None], sources: Mapping[str, str]) -> dict[str, int]:
    """The predicted clocks of each node of the quantised graph, by name, from the layers that it has become.

    sources: has the names of those nodes.
    """
    found: dict[str, int] = {}
    for entry in entries:
        if entry is not None and entry["kind"] == ACCELERATOR:
            for layer in entry["layers"]:
                name = source_of(layer["name"], sources) or layer["name"]
                found[name] = found.get(name, 0) + layer["predicted_cycles"]
    return found
