"""Chooses channels to remove: those that save most predicted clocks for the least damage, step by step, until few enough are left.

Candidates are the channels of a family down to the next width at which some layer takes fewer steps of the array. Their damage is
measured: the network without them, with the layers that read them solved anew, answers some samples. Their benefit is the change in
predicted clocks. Both are found with nothing else removed, or as it was when the benefit was last predicted; the network as it
stands is compiled after every step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto

from cnna.pruning.clocks import Clocks, Steps, clocks
from cnna.pruning.coupled import Labels
from cnna.pruning.cut import Cut, cut
from cnna.pruning.fit import Fit, best, put, smaller, with_bias
from cnna.pruning.layers import Layer, input_labels
from cnna.pruning.saliency import order, readers_of
from cnna.pruning.seen import HELD_OUT, LARGEST, Products, runs
from cnna.pruning.values import Array
from cnna.spec.config import Config

WIDTHS = 2  # of a family, that are compared at a time
COMPILED = 3  # candidates of a step whose clocks are predicted, the best by the estimate
LEAST = 0.001  # of all clocks: a step that saves less is none
SMALLEST = 1e-6  # damage below this is rounding
Tell = Callable[[int, int, str], object]


@dataclass(frozen=True)
class Family:
    """Channels that some nodes make. order: their roots, the least one first; why: what keeps all of them, if anything does."""

    name: str
    nodes: tuple[int, ...]
    channels: int
    order: tuple[int, ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Step:
    """A family that became narrower. clocks: of the whole network after it; damage: of this width alone, as a share of power."""

    family: str
    channels: int
    clocks: int
    damage: float


@dataclass
class Memory:
    """What was measured, which a later search of the same model need not measure again: by family and width."""

    damage: dict[str, float] = field(default_factory=dict)
    clocks: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)
    changed: Callable[["Memory"], object] = lambda memory: None


class Search:
    """The search over one network and one configuration."""

    def __init__(self, fit: Fit, config: Config, memory: Memory, tell: Tell) -> None:
        self.fit, self.config, self.memory, self.tell = fit, config, memory, tell
        self.steps = Steps(fit.found, fit.layers, config)
        self.families = [*self._families()]
        self._by_name = {family.name: family for family in self.families}
        self._touched = {family.name: self.steps.touched(family.order) for family in self.families if family.order}
        self._judged = fit.feeds[::HELD_OUT]
        self._answers: list[dict[str, Array]] = []
        self.useless: set[tuple[str, int]] = set()

    def _families(self) -> Sequence[Family]:
        found, made = self.fit.found, []
        layers = [(layer, labels) for layer in self.fit.layers.values() if (labels := input_labels(found, layer)) is not None]
        groups = found.coupled.families()
        for done, (nodes, roots) in enumerate(groups):
            name = found.network.called(nodes[0])
            free = np.array([int(root) for root in roots if found.coupled.why_kept(int(root)) is None], np.int64)
            if why := self._why(roots, free, layers):
                made.append(Family(name, nodes, len(roots), (), why))
                continue
            gone = order(free, readers_of(free, layers, self.fit.known.products))
            made.append(Family(name, nodes, len(roots), tuple(root for root, _ in gone)))
            self.tell(done + 1, len(groups), "ranking channels")
        return made

    def _why(self, roots: Array, free: Array, layers: Sequence[tuple[Layer, Labels]]) -> str | None:
        found = self.fit.found
        if len(free) < 2:
            return found.coupled.why_kept(int(roots[0])) or "it is one channel"
        readers = [layer for layer, labels in layers if np.isin(labels, free).any()]
        for layer in readers:
            if layer.taps > LARGEST:
                many = f"{layer.taps:,} numbers, more than {LARGEST:,}"
                return f"'{found.network.called(layer.number)}' sums {many}, which are not solved"
            rows = input_labels(found, layer)
            counts = [{int((row == root).sum()) for root in free} - {0} for row in rows] if rows is not None else []
            if any(len(count) > 1 for count in counts):
                return f"'{found.network.called(layer.number)}' reads some of its channels more often than others"
        for number in set(found.linear) - set(self.fit.layers):
            node = found.network.nodes[number]
            if any(np.isin(found.coupled.roots(labels), free).any() for labels in found.of(node.input[0]).values()):
                return f"'{found.network.called(number)}' ({node.op_type}) reads them, which is not solved"
        return None if readers else "no layer reads them"

    def removed(self, widths: Mapping[str, int]) -> list[int]:
        """The roots that are gone. widths: how many channels families keep; those left out keep all."""
        families = [(self._by_name[name], width) for name, width in widths.items()]
        return [root for family, width in families for root in family.order[: family.channels - width]]

    def damage(self, name: str, width: int) -> float:
        """Of one family at a width: the error of the outputs as a share of their power."""
        key = f"{name} {width}"
        if key not in self.memory.damage:
            error = self._error(self.narrowed(self.removed({name: width})))
            self.memory.damage[key] = error
            self.memory.changed(self.memory)
        return self.memory.damage[key]

    def narrowed(self, removed: Sequence[int]) -> ModelProto:
        """The model without some channels; the layers that read them are solved from what they see in the float network."""
        fit, changed = self.fit, dict[str, Array]()
        left, nodes = Cut(fit.found, removed), cut(fit.found, removed).graph.node
        for number in fit.chosen:
            layer = fit.layers[number]
            masks = left.masks(layer.node.input[0])
            labels = input_labels(fit.found, layer)
            if labels is None or all(mask.all() for mask in masks.values()):
                continue
            small, stays = smaller(layer, left, nodes[number]), ~np.isin(labels, removed)
            taps = np.repeat(stays, layer.taps // labels.shape[1], axis=1)
            taps = np.concatenate([taps, np.ones((layer.groups, 1), bool)], axis=1)
            made = left.masks(layer.node.output[0])
            outputs = next(iter(made.values()), np.ones(labels.shape[0] * layer.rows.shape[1], bool))
            both = fit.known.products[number], fit.known.held[number]
            fitting, judging = (_part(one, taps, outputs.reshape(layer.groups, -1)) for one in both)
            changed |= put(small, best(with_bias(small), fitting, judging, small.bias is not None))
        return cut(fit.found, removed, changed)

    def _error(self, model: ModelProto) -> float:
        network = self.fit.found.network
        names = network.outputs()
        if not self._answers:
            self._answers = [*runs(network.proto, network.name, names, self._judged)]
        shares = []
        ours = [*runs(model, network.name, names, self._judged)]
        for name in names:
            pairs = [(np.float64(a[name]), np.float64(b[name])) for a, b in zip(self._answers, ours, strict=True)]
            power = sum(float(np.square(a).sum()) for a, _ in pairs)
            shares.append(sum(float(np.square(a - b).sum()) for a, b in pairs) / max(power, 1e-30))
        return float(np.mean(shares))

    def clocks(self, widths: Mapping[str, int]) -> Clocks:
        """The compiler's prediction for the network of these widths."""
        key = " ".join(f"{name} {width}" for name, width in sorted(widths.items()))
        if key not in self.memory.clocks:
            found = clocks(cut(self.fit.found, self.removed(widths)), self.config)
            self.memory.clocks[key] = (found.total, dict(found.nodes))
            self.memory.changed(self.memory)
        total, nodes = self.memory.clocks[key]
        return Clocks(total, {int(number): spent for number, spent in nodes.items()})

    def candidates(self, widths: Mapping[str, int], now: Clocks) -> list[tuple[float, float, str, int]]:
        """What may become narrower next: (about the clocks saved, more damage, family, width), the best first."""
        before, made = Cut(self.fit.found, self.removed(widths)), []
        movable = [family for family in self.families if family.order]
        for done, family in enumerate(movable):
            width = widths.get(family.name, family.channels)
            known = self.damage(family.name, width) if width < family.channels else 0.0
            for narrow in self._natural(family, width, widths, now, before):
                after = Cut(self.fit.found, self.removed({**widths, family.name: narrow}))
                saved = self.steps.saved(now, before, after, self._touched[family.name])
                more = max(self.damage(family.name, narrow) - known, SMALLEST)
                made.append((saved, more, family.name, narrow))
            self.tell(done + 1, len(movable), "measuring candidates")
        return sorted(made, key=lambda one: -one[0] / one[1])

    def _natural(self, family: Family, width: int, widths: Mapping[str, int], now: Clocks, before: Cut) -> list[int]:
        """The next widths at which some layer takes fewer steps."""
        found, last = list[int](), LEAST * now.total
        for narrow in range(width - 1, family.channels - len(family.order) - 1, -1):
            after = Cut(self.fit.found, self.removed({**widths, family.name: narrow}))
            saved = self.steps.saved(now, before, after, self._touched[family.name])
            if saved > last:
                found.append(narrow)
                last = saved
            if len(found) == WIDTHS:
                break
        return [one for one in found if (family.name, one) not in self.useless]

    def run(self, target: int) -> list[Step]:
        """Steps until the clocks are no more than `target`, or nothing would save any."""
        widths, steps, now = dict[str, int](), list[Step](), self.clocks({})
        first = now.total
        while now.total > target:
            taken = self._next(widths, now, target, first)
            if taken is None:
                break
            name, width = taken
            widths[name], now = width, self.clocks({**widths, name: width})
            steps.append(Step(name, width, now.total, self.damage(name, width)))
            self.useless.clear()
            self.tell(first - now.total, max(first - target, 1), "saving clocks")
        return steps

    def _next(self, widths: dict[str, int], now: Clocks, target: int, first: int) -> tuple[str, int] | None:
        """The family and width of the next step."""
        while tried := self.candidates(widths, now)[:COMPILED]:
            real = []
            for _, more, name, width in tried:
                saved = now.total - self.clocks({**widths, name: width}).total
                if saved < LEAST * first:
                    self.useless.add((name, width))
                else:
                    real.append((saved, more, name, width))
            enough = [one for one in real if now.total - one[0] <= target]
            if real:
                _, _, name, width = min(enough, key=lambda one: one[1]) if enough else max(real, key=lambda one: one[0] / one[1])
                return name, width
        return None

    def given_back(self, steps: Sequence[Step], target: int) -> dict[str, int]:
        """The widths after some steps, without those steps that are not needed to stay within `target`, the worst first."""
        history: dict[str, list[int]] = {}
        for step in steps:
            history.setdefault(step.family, [self._by_name[step.family].channels]).append(step.channels)
        widths = {name: each[-1] for name, each in history.items()}
        for name in sorted(widths, key=lambda one: -self.damage(one, widths[one])):
            while len(history[name]) > 1:
                wider = {**widths, name: history[name][-2]}
                if self.clocks(wider).total > target:
                    break
                history[name].pop()
                widths = wider
        return {name: width for name, width in widths.items() if width < self._by_name[name].channels}


def _part(seen: Products, taps: Array, outputs: Array) -> Products:
    """Products of some taps and outputs of each group; every group keeps equally many."""
    inputs = np.stack([one[np.ix_(mask, mask)] for one, mask in zip(seen.inputs, taps, strict=True)])
    wanted = np.stack([one[np.ix_(mask, each)] for one, mask, each in zip(seen.wanted, taps, outputs, strict=True)])
    return Products(inputs, wanted, seen.squares, seen.pixels)  # squares of all outputs: the same for every choice of rows
