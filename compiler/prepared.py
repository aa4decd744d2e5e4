"""Graphs that are ready to be planned, and what is known of their plans. Configurations share them.

Kernels depend neither on the clock nor on the size of a memory, unless inputs are folded in another way for it. What tiles take
does not depend on feature memory either. Places, commands, waits and programs do, but hardly on the weight ring. What loads and
stores meet in feature memory, clock by clock, does not depend on that ring: programs that differ little meet much the same.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import Lowered
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.find_tiling import KnownTilings
from cnna.compiler.plan.fold import Fold, fold_inputs
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import KnownPlans, MadeCommands, streaming
from cnna.compiler.predict.known_stretches import KnownStretches
from cnna.spec.config import Config
from cnna.spec.ddr import PLANNED, DdrSpeed

SHARED = ("name", "bank_words", "uram", "ring_words", "clock_mhz")  # what configurations that share kernels may differ in
MOST_COMMANDS = 50_000  # of plans that are kept for later: some 3 kB each
MOST_STRETCHES = 6_000  # of predictions that are kept for later: some 4 kB each

Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph with its inputs folded, as kernels with their pitches.

    tilings: of plans. commands: of plans, by the words of a bank. plans: what else is known of them, by `streaming` too. simulated:
    of predictions, by the words of a bank and the DDR, the last used last.
    """

    graph: ir.Graph
    folded: ir.Graph
    folds: Mapping[str, Fold]
    lowered: Lowered
    tilings: KnownTilings = field(default_factory=dict)
    commands: dict[int, MadeCommands] = field(default_factory=dict)
    plans: dict[tuple[frozenset[int], int], KnownPlans] = field(default_factory=dict)
    simulated: dict[tuple[int, DdrSpeed], KnownStretches] = field(default_factory=dict)

    def known(self, config: Config) -> KnownPlans:
        """What is known of the plans for a configuration."""
        own, words = streaming(self.lowered, config), config.bank_words
        commands = self.commands.setdefault(words, MadeCommands())
        return self.plans.setdefault((own, words), KnownPlans(tilings=self.tilings, commands=commands))

    def stretches(self, config: Config, memory: DdrSpeed = PLANNED) -> KnownStretches:
        """What predictions for a configuration and a DDR have simulated. Of what SHARED has, the words of a bank alone matter."""
        key = config.bank_words, memory
        self.simulated[key] = found = self.simulated.pop(key, None) or KnownStretches()
        return found

    def forget(self, most: int) -> int:
        """Keeps `most` stretches at most, those of the last predictions. Returns how many more there could be."""
        for key, known in reversed(list(self.simulated.items())):
            most -= known.kept
            if most < 0:
                del self.simulated[key]
        return most

    @property
    def planned(self) -> int:
        """How many commands of plans are known."""
        return sum(len(made.commands) for known in self.plans.values() for made in known.made)


def prepared(graph: ir.Graph, config: Config, batch: int) -> Prepared:
    """A graph of which nothing is known yet. ModelError: as of `lower`."""
    return _prepared(graph, *fold_inputs(graph, config), config, batch)


def _prepared(graph: ir.Graph, folded: ir.Graph, folds: Mapping[str, Fold], config: Config, batch: int) -> Prepared:
    return Prepared(graph, folded, folds, set_pitches(lower(folded, config, batch), config))


def kernels_key(config: Config, batch: int) -> Key:
    """Of configurations for which this is equal, a graph's kernels are, unless its inputs are folded in another way."""
    return batch, *(value for name, value in vars(config).items() if name not in SHARED)


class KeptPlans:
    """The graphs that a process has prepared last, with what is known of their plans."""

    def __init__(self, most: int = MOST_COMMANDS, stretches: int = MOST_STRETCHES) -> None:
        """most, stretches: commands and stretches of all that are kept."""
        self._most, self._stretches, self._kept = most, stretches, dict[Key, Prepared]()

    @contextmanager
    def of(self, graph: ir.Graph, config: Config, batch: int) -> Iterator[Prepared]:
        """A graph for a configuration and a batch. Nobody else gets it meanwhile; another thread prepares its own.

        ModelError: as of `lower`.
        """
        folded, folds = fold_inputs(graph, config)
        key = id(graph), frozenset(folds.items()), *kernels_key(config, batch)
        own = self._kept.pop(key, None)  # it has the graph, so that no other one gets its `id`
        own = own or _prepared(graph, folded, folds, config, batch)
        try:
            yield own
        finally:  # a configuration that does not fit takes nothing from the next one
            self._kept[key] = own
            left, stretches = self._most, self._stretches
            for other, kept in reversed(list(self._kept.items())):
                left, stretches = left - kept.planned, kept.forget(stretches)
                if left < 0:
                    self._kept.pop(other, None)
