"""The least that points take, known before anything is compiled: of the accelerator and, beside it, of its host.

The accelerator's least work is that of `compiler.bound`. The host's work follows from the shapes of the tensors that cross and from
the pieces on the CPU, so it is the same for every plan. Where the host is the busier side, this bound is the speed itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from cnna.compiler.bound import LeastWork, least_works
from cnna.compiler.explore.aim import Least
from cnna.compiler.explore.grid import BANK_WORDS
from cnna.compiler.explore.planned import placed
from cnna.compiler.explore.tasks import Conditions, Network, Source, Wanted, networks
from cnna.compiler.graph.ir import Graph
from cnna.compiler.lower.kernels import Map
from cnna.compiler.lower.layout import ddr_place
from cnna.compiler.placements import Pieces
from cnna.compiler.plan.fold import Fold, fold_inputs
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config
from cnna.spec.detection.heads import DetectorEntry
from cnna.spec.errors import ModelError
from cnna.spec.host_time.detector_time import to_answer
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.manifest import ACCELERATOR


@dataclass(frozen=True)
class Shape:
    """A network of this number on an array, with a batch: for that the least is found."""

    network: int
    config: Config
    batch: int


class Bound(NamedTuple):
    """Of a network. works: of each of its programs. hosts: from picture to answer, for each way to fold inputs that some size of
    feature memory leads to; their accelerator takes no time. Both are empty where nothing is known.
    """

    works: Sequence[LeastWork] = ()
    hosts: Sequence[EndToEnd] = ()


def shape_of(network: int, wanted: Wanted) -> Shape:
    """It is the same for points whose least does not differ."""
    config, board = wanted.config, wanted.config.name.split("-")[0]
    return Shape(network, replace(config, name=board, bank_words=BANK_WORDS[0], uram=False), wanted.batch)


def alike(shape: Shape) -> Shape:
    """Shapes for which this is equal are bounded together: their kernels differ in little."""
    return replace(shape, config=replace(shape.config, name="", pix=16, ring_words=512, clock_mhz=1), batch=1)


def bounded(source: Source, conditions: Conditions, shapes: Sequence[Shape]) -> Sequence[Bound]:
    """What a worker does to bound the points of shapes of one network. source: the networks, or the file of their pickle."""
    try:
        return _bounds(networks(source)[shapes[0].network], conditions, shapes)
    except ModelError:  # one of them does not run; compiling says why
        return [Bound()] if len(shapes) == 1 else [bound for shape in shapes for bound in bounded(source, conditions, [shape])]


def _bounds(network: Network, conditions: Conditions, shapes: Sequence[Shape]) -> Sequence[Bound]:
    found: dict[Shape, Bound] = {}
    cuts: dict[str, tuple[Pieces, list[Shape]]] = {}
    for shape in shapes:
        pieces = network.pieces(shape.config)
        cuts.setdefault(placed(pieces), (pieces, []))[1].append(shape)
    for where, (pieces, own) in cuts.items():
        detector = conditions.detector(own[0].network, where)
        wanted = [(shape.config, shape.batch) for shape in own]
        each = [least_works(piece, wanted, BANK_WORDS) for piece in pieces if isinstance(piece, Graph)]
        for shape, works in zip(own, zip(*each, strict=True), strict=False):
            found[shape] = Bound(works, _hosts(pieces, shape, conditions.native, detector))
    return [found.get(shape, Bound()) for shape in shapes]


def _hosts(pieces: Pieces, shape: Shape, native: bool, detector: DetectorEntry | None) -> Sequence[EndToEnd]:
    """As of `Bound`. More memory only allows more ways: if the smallest and the largest lead to the same, so do all between."""
    found: dict[str, EndToEnd] = {}
    for words in (BANK_WORDS[0], BANK_WORDS[-1], *BANK_WORDS[1:-1]):
        config = replace(shape.config, bank_words=words)
        entries: list[Any] = [_crossing(piece, config) if isinstance(piece, Graph) else piece for piece in pieces]
        own = repr([entry["inputs"] for entry in entries if entry["kind"] == ACCELERATOR])
        if words == BANK_WORDS[-1] and own in found:
            break
        found.setdefault(own, to_answer(detector, entries, 0, config.clock_mhz, shape.batch, native))
    return tuple(found.values())


def _crossing(graph: Graph, config: Config) -> Mapping[str, Any]:
    """Of the entry of a program what the host's work follows from."""
    _, folds = fold_inputs(graph, config)
    inputs = [_port(name, graph.tensors[name].shape, config, folds.get(name)) for name in graph.inputs]
    outputs = [_port(name, graph.tensors[name].shape, config) for name in graph.outputs]
    return {"kind": ACCELERATOR, "inputs": inputs, "outputs": outputs}


def _port(name: str, shape: Sequence[int], config: Config, fold: Fold | None = None) -> Mapping[str, Any]:
    """A port of its own map: one that shares its map with other tensors has more bytes."""
    channels, height, width = fold.shape if fold else shape
    place = ddr_place(Map("", -(-channels // config.ci), height, width, width), "", 0, config)
    sizes = {"image_bytes": place.image_bytes, "block_bytes": place.block_bytes, "row_bytes": place.row_bytes}
    return {"name": name, "shape": list(shape), **sizes, "fold": fold.port() if fold else None}


def least_of(one: Wanted, bounds: Sequence[Bound], conditions: Conditions) -> Least | None:
    """What a point takes at least. bounds: of each network. None: nothing is known."""
    config, memory, shares = one.config, conditions.memory_of(one) or ddr_of(one.config), conditions.shares
    each = [sum(work.clocks(config, memory) for work in bound.works) / (config.clock_mhz * 1e6) for bound in bounds]
    seconds = _mean(shares, each)
    if not seconds:
        return None
    moved = _mean(shares, [sum(work.bytes for work in bound.works) for bound in bounds])
    ends = [_ends(bound.hosts, own) for bound, own in zip(bounds, each, strict=True)]
    answered = ends[0][0]
    if len(ends) > 1:
        image = _mean(shares, [1 / fps for fps, _ in ends])
        answered = 1 / image if image else inf
    bandwidth = one.bandwidth or memory.bytes_per_cycle * config.clock_mhz
    return Least(seconds, one.batch, moved / one.batch, bandwidth, answered, _mean(shares, [late for _, late in ends]))


def host_ends(bounds: Mapping[Shape, Bound], shares: Sequence[float]) -> tuple[float, float]:
    """Images a second at most and seconds of a batch at least, at the slow end, if the accelerator took no time. Infinite and 0
    where a network is not known.
    """
    image, late = 0.0, 0.0
    for number, share in enumerate(shares):
        each = [_ends(bound.hosts, 0.0) for shape, bound in bounds.items() if shape.network == number]
        image += share / max((fps for fps, _ in each), default=inf)
        late += share * min((seconds for _, seconds in each), default=0.0)
    return (1 / image if image else inf), late


def _ends(hosts: Sequence[EndToEnd], seconds: float) -> tuple[float, float]:
    """Images a second at most and seconds at least, both at the slow end. seconds: of the accelerator, at least."""
    fps, late = 0.0, inf
    for host in hosts:
        whole = replace(host, accelerator_seconds=seconds)
        rate, latency = whole.fps(), whole.latency()
        if rate is None or latency is None:
            return inf, 0.0
        fps, late = max(fps, rate.slow), min(late, latency.slow)
    return (fps, late) if hosts else (inf, 0.0)


def _mean(shares: Sequence[float], values: Sequence[float]) -> float:
    """As of `Point`."""
    return sum(share * value for share, value in zip(shares, values, strict=True))
