"""Finds how many of the worst layers must stay in float so that a quantised network loses no more than its user allows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cnna.compiler.frontend.source_model import SourceModel
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Graph
from cnna.compiler.quantise.calibrate import Progress
from cnna.compiler.quantise.examine import Examiner
from cnna.compiler.quantise.noise import Layer, Noise
from cnna.compiler.quantise.quantise import Report
from cnna.spec.errors import ModelError

STEPS = 16  # layers that are chosen one by one
AGAIN, NEAR = 4, 2  # layers that are measured again for each choice, and neighbours on each side


@dataclass(frozen=True, eq=False)
class Quantised:
    """One network of a search: the layers kept in float, the model, what was done, and its loss in points."""

    kept: tuple[Layer, ...]
    model: SourceModel
    report: Report
    loss: float


@dataclass(frozen=True, eq=False)
class Found:
    """The network with the fewest layers in float whose loss is within the limit; if there is none, the one with the least loss.

    of: what the points are of. layers: all that multiply. losses: of each network that was tried, by its number of layers in float.
    costs: as of `Examiner.costs`; empty where the limit is met in int8 throughout.
    """

    best: Quantised
    of: str
    met: bool
    layers: int
    losses: Mapping[int, float]
    costs: Mapping[str, float]


def search(
    examiner: Examiner,
    limit: float,
    first: tuple[SourceModel, Report],
    noise: Mapping[str, Noise],
    progress: Progress | None = None,
) -> Found:
    """The network for a limit in points. first: int8 throughout, with its `noise`. ModelError: no output can be compared.

    Layers are kept in float in the order of `_Order`: 1, 2, 4 and so on of them, until the limit is met, then fewer again by
    bisection. At least one layer that multiplies stays in int8, since without any there would be nothing to accelerate.
    """
    tries = _Tries(examiner, limit, first)
    met, missed = (0, 0) if tries.meet(()) else (None, 0)
    layers, costs = examiner.ranked(noise), dict[str, float]()
    most = len(layers) - 1
    if met is None and most > 0:
        costs = examiner.costs(noise)
        bound = min(most, STEPS) * (AGAIN + 2 * NEAR) + 2 * most.bit_length() + 1
        tries.progress = progress and partial(_count, progress, bound)
        order = _Order(examiner, examiner.ranked(noise, costs), costs, tries.tick)
        while met is None and missed < most:
            count = min(max(1, 2 * missed), most)
            met, missed = (count, missed) if tries.meet(order.first(count)) else (None, count)
        while met is not None and met - missed > 1:
            middle = (met + missed) // 2
            met, missed = (middle, missed) if tries.meet(order.first(middle)) else (met, middle)
        if progress:
            progress(tries.networks, tries.networks)  # ends the line
    assert tries.best is not None
    return Found(tries.best, tries.of, met is not None, len(layers), tries.losses, costs)


def _count(progress: Progress, bound: int, done: int) -> None:
    progress(min(done, bound - 1), bound)


@dataclass
class _Tries:
    """Networks with some layers in float; only the best is kept. networks: how many were run."""

    examiner: Examiner
    limit: float
    first: tuple[SourceModel, Report]
    best: Quantised | None = None
    progress: Callable[[int], None] | None = None
    networks: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    of: str = ""  # what the points are of

    def meet(self, kept: Sequence[Layer]) -> bool:
        """Whether the loss is within the limit with these layers in float."""
        given, judge = self.examiner.given, self.examiner.judge
        model, report = given.source(nodes_of(kept)) if kept else self.first
        loss = judge.loss(judge.results(model.proto))
        if loss is None:
            shapes = ", ".join(f"{name} {list(given.graph.tensors[name].shape)}" for name in given.graph.outputs)
            raise ModelError(f"{given.graph.name}: --search compares outputs with float, and none can be compared: {shapes}")
        self.of = loss.of
        self.losses[len(kept)] = loss.points
        one = Quantised(tuple(kept), model, report, loss.points)
        if self.best is None or self._rank(one) < self._rank(self.best):
            self.best = one
        self.tick()
        return loss.points <= self.limit

    def _rank(self, one: Quantised) -> tuple[float, int]:
        """The least is best: within the limit the fewest layers in float, beyond it the least loss."""
        return max(one.loss, self.limit), len(one.kept)

    def tick(self) -> None:
        """Counts a network."""
        self.networks += 1
        if self.progress:
            self.progress(self.networks)


class _Order:
    """The layers in the order in which they are kept in float: each time the one with which the outputs have least noise.

    Measured are the AGAIN layers that brought most when they were measured last, and the neighbours of the layer before: a tensor
    between two layers in float is not rounded, so neighbours bring more together. After STEPS layers the rest follow by what they
    brought last. tick: called after each network.
    """

    def __init__(self, examiner: Examiner, ranked: Sequence[Layer], costs: Mapping[str, float], tick: Callable[[], None]) -> None:
        self._examiner, self._tick = examiner, tick
        self._near = neighbours(examiner.given.graph, ranked)
        self._chosen: list[Layer] = []
        self._left = list(ranked)
        self._gains = {name: max(cost, 0.0) for name, cost in costs.items()}  # in shares of the noise in int8 throughout
        self._whole, self._now = examiner.judge.noise(examiner.given.trial(())), 1.0

    def first(self, count: int) -> list[Layer]:
        """The first so many layers."""
        while len(self._chosen) < min(count, STEPS):
            self._choose()
        return [*self._chosen, *self._left][:count]

    def _choose(self) -> None:
        near = self._near[self._chosen[-1].name] if self._chosen else []
        asked = [layer for number, layer in enumerate(self._left) if number < AGAIN or layer.name in near]
        after = {layer.name: self._noise(layer) for layer in asked}
        best = min(asked, key=lambda layer: after[layer.name])
        self._gains |= {name: self._now - noise for name, noise in after.items()}
        self._now = after[best.name]
        self._chosen.append(best)
        self._left.remove(best)
        self._left.sort(key=lambda layer: -self._gains.get(layer.name, 0.0))

    def _noise(self, layer: Layer) -> float:
        """The share of the outputs' noise that is left if this layer is kept in float too."""
        noise = self._examiner.judge.noise(self._examiner.given.trial(nodes_of([*self._chosen, layer])))
        self._tick()
        return noise / self._whole if self._whole else 0.0


def nodes_of(layers: Sequence[Layer]) -> list[str]:
    """The nodes of the rewritten graph that these layers have become, by output."""
    return [node for layer in layers for node in layer.nodes]


def neighbours(graph: Graph, layers: Sequence[Layer]) -> dict[str, list[str]]:
    """For each layer the NEAR latest ones that it reads from, and as many that read from it, with no other layer between."""
    makers = {node: layer.name for layer in layers for node in layer.nodes}
    before: dict[str, list[str]] = {layer.name: [] for layer in layers}
    behind: dict[str, list[str]] = {layer.name: [] for layer in layers}
    sources: dict[str, list[str]] = {}
    for node in graph.nodes:
        read = list(dict.fromkeys(name for tensor in node.inputs for name in sources.get(tensor, ())))[-NEAR:]
        own = makers.get(node.output)
        if own is not None:
            for name in read:
                if name != own:
                    before[own].append(name)
                    behind[name].append(own)
            read = [own]
        sources |= dict.fromkeys(outputs_of(node), read)
    return {name: [*dict.fromkeys([*before[name][-NEAR:], *behind[name][:NEAR]])] for name in before}
