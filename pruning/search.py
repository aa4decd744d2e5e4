"""Chooses channels to remove: the widths of families that leave few enough predicted clocks for the least damage.

Damage is measured: the network without some channels of one family, with the layers that read them solved anew, answers the samples
that are held out, and `pruning.distance` compares. It is measured only of widths that may be chosen; that of others is expected
from the surgeon's sums. Clocks are estimated from the steps of the array; what is chosen is compiled, the estimate learns from it,
and the choice is made again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import ModelProto

from cnna.pruning.clocks import Clocks, Estimate, Steps, clocks
from cnna.pruning.cut import Cut, cut
from cnna.pruning.distance import distance
from cnna.pruning.families import Family, Tell, families_of
from cnna.pruning.fit import Fit, best, put, smaller, with_bias
from cnna.pruning.layers import input_labels
from cnna.pruning.seen import Products, runs
from cnna.pruning.values import Array
from cnna.pruning.widths import Choices, cheapest
from cnna.spec.config import Config
from cnna.spec.errors import DataError

COMPILED = 12  # choices of widths, at most, of a target
WORTH = 0.9  # of the damage: what does less than this much less is not compiled, once there is something with few enough clocks
MOST_WIDTHS = 8  # of a family
LEAST = 0.001  # of all clocks: a width that saves less than this more than the wider one is none
ALL = "all "  # begins the name of what was measured of all families together
HOPELESS = 1e30  # the damage where answers are no numbers
SMALLEST = 1e-6  # damage below this is rounding


@dataclass(frozen=True)
class Step:
    """A family that became narrower. saved: about the clocks that it alone saves; damage: of this width alone, as a distance."""

    family: str
    channels: int
    saved: float
    damage: float


@dataclass(frozen=True)
class LastStep:
    """The step from a channel more to `width`. before, after: all clocks."""

    family: str
    width: int
    before: int
    after: int


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
        self.families = families_of(fit, tell)
        self._by_name = {family.name: family for family in self.families}
        self.estimate = Estimate(self.steps, {one.name: (one.order, one.channels) for one in self.families if one.order})
        self._answers: list[dict[str, Array]] = []
        self._asked: dict[str, set[int]] = {family.name: set() for family in self.families}  # not what memory has from before

    def removed(self, widths: Mapping[str, int]) -> list[int]:
        """The roots that are gone. widths: how many channels families keep; those left out keep all."""
        families = [(self._by_name[name], width) for name, width in widths.items()]
        return [root for family, width in families for root in family.order[: family.channels - width]]

    def damage(self, name: str, width: int) -> float:
        """Of one family at a width: how far the answers are from those of the whole network."""
        key = f"{name} {width}"
        self._asked[name].add(width)
        if key not in self.memory.damage:
            self.memory.damage[key] = self._error(self.narrowed(self.removed({name: width})))
            self.memory.changed(self.memory)
        return max(self.memory.damage[key], SMALLEST)

    def expected(self, name: str, width: int) -> float:
        """The damage, or if it is not measured yet, what the surgeon's sums and the nearest width that is measured let expect."""
        family, measured = self._by_name[name], self._asked[name]
        if width in measured or not measured:
            return self.damage(name, width)
        near = min(sorted(measured), key=lambda one: abs(one - width))
        here, there = (max(family.errors[family.channels - one - 1], 1e-12) for one in (width, near))
        return max(self.damage(name, near) * here / there, SMALLEST)

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

    def known(self, widths: Mapping[str, int]) -> float | None:
        """The damage of all widths, where memory has it."""
        return self.memory.damage.get(f"{ALL}{_key(widths)}")

    def together(self, widths: Mapping[str, int], model: ModelProto) -> float:
        """The damage of all widths, in a model that was solved anew."""
        key = f"{ALL}{_key(widths)}"
        if key not in self.memory.damage:
            self.memory.damage[key] = self._error(model)
            self.memory.changed(self.memory)
        return self.memory.damage[key]

    def _error(self, model: ModelProto) -> float:
        network = self.fit.found.network
        names, judged = network.outputs(), self.fit.held
        if not self._answers:
            self._answers = [*runs(network.proto, network.name, names, judged)]
            if not all(np.isfinite(one[name]).all() for one in self._answers for name in names):
                raise DataError(f"{network.name}: it answers some samples with NaN or infinity, so nothing can be compared with it")
        ours = [*runs(model, network.name, names, judged)]
        both = ([np.stack([np.float64(one[name]) for one in each]) for each in (self._answers, ours)] for name in names)
        away = float(np.mean([distance(theirs, made) for theirs, made in both]))
        return away if np.isfinite(away) else HOPELESS

    def clocks(self, widths: Mapping[str, int]) -> Clocks:
        """The compiler's prediction for the network of these widths."""
        key = _key(widths)
        if key not in self.memory.clocks:
            found = clocks(cut(self.fit.found, self.removed(widths)), self.config)
            self.memory.clocks[key] = (found.total, dict(found.nodes))
            self.memory.changed(self.memory)
        total, nodes = self.memory.clocks[key]
        made = Clocks(total, {int(number): spent for number, spent in nodes.items()})
        self.estimate.learn(widths, made)
        return made

    def _natural(self, family: Family) -> list[int]:
        """All channels, and the widths at which some layer takes fewer steps."""
        found, last = [family.channels], self.estimate({})
        least = LEAST * last
        for width in range(family.channels - 1, family.channels - len(family.order) - 1, -1):
            now = self.estimate({family.name: width})
            if now < last - least:
                found.append(width)
                last = now
        every = -(-(len(found) - 1) // MOST_WIDTHS) or 1
        return [found[0], *found[1::every]]

    def run(self, target: int) -> dict[str, int]:
        """The widths with no more than `target` clocks; those with the fewest clocks, if no widths have so few."""
        return self._chosen(self._choices(), target)

    def several(self, target: int, count: int) -> list[dict[str, int]]:
        """The widths of `run` and, where these have no more than `target` clocks, the next best ones, at most `count` in all.

        The others leave one family of the best wider; as many as are wanted are compiled. Where one of them is better than the
        best, those around it are found too.
        """
        choices = self._choices()
        found = [self._chosen(choices, target)]
        around: dict[str, int] | None = None
        while found[0] != around and self.clocks(found[0]).total <= target:
            around = found[0]
            near = [replace(choices, widths=_wider(choices, *one)) for one in around.items()]
            near.sort(key=lambda fewer: choices.total(self._cheapest(fewer, target)))
            for done, fewer in enumerate(near[:count]):
                widths = self._chosen(fewer, target)
                if widths not in found and self.clocks(widths).total <= target:
                    found.append(widths)
                self.tell(done + 1, min(count, len(near)), "choosing widths")
            found = sorted(found, key=choices.total)[:count]
        return found

    def _choices(self) -> Choices:
        self.clocks({})
        natural = {family.name: self._natural(family) for family in self.families if family.order}
        choices = Choices({name: each for name, each in natural.items() if len(each) > 1}, self.estimate, self.expected)
        for done, (name, each) in enumerate(choices.widths.items()):
            self.damage(name, each[1])
            self.tell(done + 1, len(choices.widths), "measuring damage")
        return choices

    def _chosen(self, choices: Choices, target: int) -> dict[str, int]:
        found, enough = [dict[str, int]()], list[dict[str, int]]()
        for done in range(COMPILED):
            widths = self._cheapest(choices, target)
            worth = not enough or choices.total(widths) < WORTH * min(map(choices.total, enough))
            if widths in found or not worth:
                break
            found.append(widths)
            if self.clocks(widths).total <= target:
                enough.append(widths)
            self.tell(done + 1, COMPILED, "compiling what was chosen")
        return min(enough, key=choices.total) if enough else self._least(choices, min(found, key=self.estimate))

    def _least(self, choices: Choices, narrow: dict[str, int]) -> dict[str, int]:
        """As few clocks as narrow widths have, without what is narrower in vain."""
        whole = self.clocks(narrow).total
        widths = self._cheapest(choices, whole)
        return widths if self.clocks(widths).total <= whole else narrow

    def _cheapest(self, choices: Choices, target: float) -> dict[str, int]:
        """What costs least, with no damage in it that was not measured."""
        while True:
            widths = cheapest(choices, target)
            missing = [(name, width) for name, width in widths.items() if width not in self._asked[name]]
            for name, width in missing:
                self.damage(name, width)
            if not missing:
                return widths

    def last_step(self, widths: Mapping[str, int], target: int) -> LastStep | None:
        """The step of one family, from all its channels down, that leaves no more than `target` clocks where the others stay so.

        Of several families it is one that saves little. None: there is none, since each alone can be as wide as it was.
        """
        for name in sorted(widths, key=lambda one: self.estimate({**widths, one: self._by_name[one].channels})):
            few, many = widths[name], self._by_name[name].channels
            if self.clocks({**widths, name: many}).total <= target:
                continue
            while many - few > 1:
                middle = (few + many) // 2
                if self.clocks({**widths, name: middle}).total <= target:
                    few = middle
                else:
                    many = middle
            return LastStep(name, few, *(self.clocks({**widths, name: one}).total for one in (many, few)))
        return None

    def as_steps(self, widths: Mapping[str, int]) -> tuple[Step, ...]:
        """What was done, that with the most clocks for its damage first."""
        whole = self.estimate({})
        steps = [
            Step(name, width, whole - self.estimate({name: width}), self.damage(name, width)) for name, width in widths.items()
        ]
        return tuple(sorted(steps, key=lambda one: -one.saved / one.damage))


def _wider(choices: Choices, name: str, width: int) -> dict[str, Sequence[int]]:
    """The choices in which a family is wider."""
    return {**choices.widths, name: [one for one in choices.widths[name] if one > width]}


def _key(widths: Mapping[str, int]) -> str:
    return " ".join(f"{name} {width}" for name, width in sorted(widths.items()))


def _part(seen: Products, taps: Array, outputs: Array) -> Products:
    """Products of some taps and outputs of each group; every group keeps equally many."""
    inputs = np.stack([one[np.ix_(mask, mask)] for one, mask in zip(seen.inputs, taps, strict=True)])
    wanted = np.stack([one[np.ix_(mask, each)] for one, mask, each in zip(seen.wanted, taps, outputs, strict=True)])
    return Products(inputs, wanted, seen.squares, seen.pixels)  # squares of all outputs: the same for every choice of rows
