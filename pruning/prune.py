"""Prunes a float network until it takes so many predicted clocks fewer, or loses too much.

The search finds the few best choices of widths. For each, all layers behind the first narrower one are solved anew, and the one
whose answers are nearest to the whole network's is taken. Where a loss is stated, less and less is saved until it is met.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from cnna.pruning.clocks import Clocks
from cnna.pruning.cut import Cut
from cnna.pruning.families import Tell
from cnna.pruning.fit import Fit, solvable, sums_behind
from cnna.pruning.follow import follow
from cnna.pruning.layers import layers_of
from cnna.pruning.search import Memory, Search, Step
from cnna.pruning.seen import HELD_OUT, LARGEST, Feeds, known
from cnna.pruning.values import network
from cnna.spec.config import Config
from cnna.spec.errors import DataError

MOST_PIXELS = 2e12  # multiply-accumulates of all runs while layers are solved: large networks are solved from fewer samples
FEWEST = 24  # samples, whatever the size
WITHIN = 0.0005  # of all clocks: so little short of what is wanted is as good; predictions are not as exact
HALVINGS = 4  # of the clocks to save, where a loss is stated
COARSE = 1.2  # times the clocks that are wanted: less is usual, as layers get narrower by blocks of the array
MOST_SOLVED, FEWEST_SOLVED = 8, 3  # choices of widths that are solved, of which the best is taken
MOST_WORK = 1e12  # multiply-accumulates of the runs in which they are: so large networks have fewer
NO_GROUPS = "it has no layer whose channels may go: those of two-dimensional convolutions and of products by constant matrices may"
Loss = Callable[[ModelProto], float]  # points that a network loses


@dataclass(frozen=True)
class LayerRow:
    """A layer before and after. channels: those that it makes. error: of these, as a share of their power; None: not solved."""

    name: str
    op: str
    inputs: int
    inputs_left: int
    channels: int
    channels_left: int
    clocks: int
    clocks_left: int
    error: float | None


@dataclass(frozen=True)
class GroupRow:
    """Channels that go or stay together. nodes: those that make them. why: what keeps all of them; None: they may go."""

    nodes: tuple[str, ...]
    channels: int
    channels_left: int
    why: str | None


@dataclass(frozen=True, eq=False)
class Pruned:
    """A pruned network. model: None if nothing was removed. met: whether it takes no more clocks than wanted. lost: the points that
    it loses, where a loss was stated. said: why it was not met; None if it was. coarse: why far more was saved; None: it was not.
    """

    model: ModelProto | None
    before: Clocks
    after: Clocks
    steps: tuple[Step, ...]
    layers: tuple[LayerRow, ...]
    groups: tuple[GroupRow, ...]
    met: bool
    lost: float | None
    said: str | None
    coarse: str | None = None

    def figures(self) -> dict[str, Any]:
        """Lists and numbers alone."""
        rows = {key: [asdict(one) for one in getattr(self, key)] for key in ("steps", "layers", "groups")}
        saved = 1 - self.after.total / self.before.total
        clocks = {"clocks": self.before.total, "clocks_left": self.after.total, "saved": saved}
        return {**clocks, "met": self.met, "lost": self.lost, "said": self.said, **rows}


@dataclass(frozen=True)
class Goal:
    """What is wanted. share: of the clocks, to be saved. most: points that may be lost, as `loss` counts them; None: any."""

    config: Config
    share: float
    most: float | None = None
    loss: Loss | None = None


def prepared(model: ModelProto, name: str, feeds: Feeds, tell: Tell) -> Fit:
    """Follows the channels of a model, and sees what its layers make of samples. DataError: there are too few."""
    if len(feeds) <= HELD_OUT:
        few = f"pruning needs more than {HELD_OUT} samples, since every {HELD_OUT}th is held out; there are {len(feeds)}"
        raise DataError(f"{name}: {few}")
    if all(np.array_equal(one[key], feeds[0][key]) for one in feeds for key in one):
        raise DataError(f"{name}: all {len(feeds)} samples are the same one; pruning needs typical ones, which differ")
    found = follow(network(model, name, feeds[0]))
    layers = layers_of(found)
    chosen, sums = solvable(found, layers), sums_behind(found, layers)
    macs = sum(layer.weights.size * layer.pixels(found.network.shapes[layer.node.output[0]]) for layer in layers.values())
    count = int(min(len(feeds), max(FEWEST, MOST_PIXELS / max(macs * len(chosen) / 2, 1))))
    some = evenly(feeds, count)

    def counted(done: int, total: int) -> None:
        tell(done, total, "running the float network")

    seen = known(
        found.network,
        [layer for layer in layers.values() if layer.taps <= LARGEST],
        some,
        {number: one.output for number, one in sums.items()},
        counted,
    )
    return Fit(found, layers, chosen, sums, seen, some, feeds[::HELD_OUT])


def evenly(feeds: Feeds, count: int) -> Feeds:
    """About `count` samples in runs of HELD_OUT, so that those held out stay those held out."""
    runs = -(-len(feeds) // HELD_OUT)
    chosen = sorted({number * runs // max(1, count // HELD_OUT) for number in range(min(runs, max(1, count // HELD_OUT)))})
    return feeds if count >= len(feeds) else [one for run in chosen for one in feeds[run * HELD_OUT : (run + 1) * HELD_OUT]]


def prune(fit: Fit, goal: Goal, memory: Memory, tell: Tell) -> Pruned:
    """Prunes what was prepared. ModelError: the model does not compile for the configuration."""
    search = Search(fit, goal.config, memory, tell)
    before = search.clocks({})
    target = int(before.total * (1 - goal.share + WITHIN))
    tries = _Tries(fit, search, goal, before.total, tell)
    made = tries.best(target)
    if not tries.first.widths:
        kept = sum(not family.order for family in search.families)
        nothing = f"nothing would be saved: no channels whose removal takes fewer clocks at {goal.config.name}"
        if not search.families:
            nothing += f" ({NO_GROUPS})"
        elif kept:
            nothing += f" ({kept} of {len(search.families)} groups of channels must stay, {_first_reason(search)})"
        return _result(fit, search, _Try({}), before, False, nothing)
    reached = search.clocks(tries.first.widths).total <= target
    after = search.clocks(made.widths)
    met = after.total <= target and made.model is not None
    said: str | None = None
    if not met:
        least = f"{1 - after.total / before.total:.1%} fewer clocks"
        limited = reached or made is not tries.first
        why = f"more would lose more than {goal.most:g} points" if limited else "no channels are left whose removal saves more"
        said = f"{goal.share:.0%} fewer clocks cannot be had: {least} can, since {why}"
        if made.model is None:
            said = f"nothing can be saved, since even the least would lose more than {goal.most:g} points (tried: {tries.said})"
    coarse = _coarse(search, made.widths, goal, before.total, target) if met else None
    return replace(_result(fit, search, made, before, met, said), coarse=coarse)


def _coarse(search: Search, widths: dict[str, int], goal: Goal, before: int, target: int) -> str | None:
    """Why far more was saved than wanted; None: it was not, or no step of one family alone is the reason."""
    most = COARSE * goal.share * before
    if before - search.clocks(widths).total <= most or (step := search.last_step(widths, target)) is None:
        return None
    if before - step.after <= most:
        return None
    last = f"the last step alone, from {step.width + 1} channels of '{step.family}' to {step.width}, takes"
    saved = f"{last} {(step.before - step.after) / before:.1%}, and without it {1 - step.before / before:.1%} would be saved"
    stops = "; --max-loss stops before a step that loses too much" if goal.most is None else ""
    return f"{100 * goal.share:.3g}% was asked: {saved}{stops}"


def _first_reason(search: Search) -> str:
    """Why the first group that must stay does."""
    first = next(family for family in search.families if family.why)
    return f"the first, of '{first.name}', since: {first.why}; --report F.html lists all"


@dataclass(frozen=True, eq=False)
class _Try:
    """Widths, and the network of these widths once it is solved. model: None if nothing was removed."""

    widths: dict[str, int]
    model: ModelProto | None = None
    errors: dict[int, float] = field(default_factory=dict)
    lost: float | None = None


class _Tries:
    """Networks of fewer and fewer clocks, with what they lose. whole: the clocks of the whole one. first: that of the fewest."""

    def __init__(self, fit: Fit, search: Search, goal: Goal, whole: int, tell: Tell) -> None:
        self.fit, self.search, self.goal, self.whole, self.tell = fit, search, goal, whole, tell
        self.count = int(min(MOST_SOLVED, max(FEWEST_SOLVED, MOST_WORK / max(fit.work, 1))))
        self.first = _Try({})
        self._lost: list[tuple[float, float]] = []

    @property
    def said(self) -> str:
        """What the networks save and lose."""
        return ", ".join(f"{saved:.1%} of the clocks for {lost:.2f}" for saved, lost in sorted(self._lost))

    def best(self, target: int) -> _Try:
        """The network of few enough clocks or, where it loses too much, that with the fewest clocks whose loss is met."""
        self.first = found = self._made(self.search.several(target, self.count))
        if self._fits(found):
            return found
        good, bad, last = 0.0, self._saved(found.widths), _Try({})
        for _ in range(HALVINGS):
            wanted = (good + bad) / 2
            several = self.search.several(int(self.whole * (1 - wanted)), FEWEST_SOLVED)
            fewer = [widths for widths in several if widths and good < self._saved(widths) < bad]
            if not fewer:
                bad = wanted
                continue
            tried = self._made(fewer)
            if self._fits(tried):
                good, last = self._saved(tried.widths), tried
            else:
                bad = self._saved(tried.widths)
        return last

    def _saved(self, widths: dict[str, int]) -> float:
        return 1 - self.search.clocks(widths).total / self.whole

    def _fits(self, found: _Try) -> bool:
        return self.goal.most is None or found.lost is None or found.lost <= self.goal.most

    def _made(self, several: Sequence[dict[str, int]]) -> _Try:
        """Of some widths, the network whose answers are nearest to the whole network's, once all layers are solved."""
        if not several[0]:
            return _Try({})
        nearest, found = math.inf, _Try({})
        for place, widths in enumerate(several):
            tried, away = _Try(widths), self.search.known(widths)
            if away is None:
                tried = self._solved(widths, place, len(several))
                assert tried.model is not None
                away = self.search.together(widths, tried.model)
            if away < nearest:
                nearest, found = away, tried
        found = found if found.model is not None else self._solved(found.widths, len(several) - 1, len(several))
        assert found.model is not None
        lost = self.goal.loss(found.model) if self.goal.loss else None
        if lost is not None:
            self._lost.append((self._saved(found.widths), lost))
        return replace(found, lost=lost)

    def _solved(self, widths: dict[str, int], place: int, several: int) -> _Try:
        def count(done: int, total: int) -> None:
            self.tell(place * total + done, several * total, "solving layers")

        return _Try(widths, *self.fit.pruned(self.search.removed(widths), count))


def _result(fit: Fit, search: Search, made: _Try, before: Clocks, met: bool, said: str | None) -> Pruned:
    widths, errors = made.widths, made.errors
    after, whole, left = search.clocks(widths), Cut(fit.found, ()), Cut(fit.found, search.removed(widths))
    rows = []
    for number in sorted(fit.found.linear):  # deconvolutions too, which are cut but not solved
        node = fit.found.network.nodes[number]
        (inputs, inputs_left), (outputs, outputs_left) = (
            tuple(search.steps.width(name, cut) for cut in (whole, left)) for name in (node.input[0], node.output[0])
        )
        name, error = fit.found.network.called(number), errors.get(number)
        spent = before.nodes.get(number, 0), after.nodes.get(number, 0)
        rows.append(LayerRow(name, node.op_type, inputs, inputs_left, outputs, outputs_left, *spent, error))
    groups = []
    for family in search.families:
        names = tuple(fit.found.network.called(number) for number in family.nodes)
        groups.append(GroupRow(names, family.channels, widths.get(family.name, family.channels), family.why))
    return Pruned(made.model, before, after, search.as_steps(widths), tuple(rows), tuple(groups), met, made.lost, said)
