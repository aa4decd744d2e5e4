"""Graphs that are ready to be planned, and what is known of their plans. Configurations share them.

Kernels depend neither on the clock nor on the size of a memory, unless inputs are folded in another way for it. What tiles take
does not depend on feature memory either. Places, commands, waits and programs do, but hardly on the weight ring.
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
from cnna.compiler.plan.plan import KnownPlans, streaming
from cnna.spec.config import Config

SHARED = ("name", "bank_words", "uram", "ring_words", "clock_mhz")  # what configurations that share kernels may differ in
MOST_COMMANDS = 50_000  # of plans that are kept for later: some 3 kB each

Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph with its inputs folded, as kernels with their pitches.

    tilings: of plans, by `streaming`. plans: what else is known of them, by the words of a bank too.
    """

    graph: ir.Graph
    folded: ir.Graph
    folds: Mapping[str, Fold]
    lowered: Lowered
    tilings: dict[frozenset[int], KnownTilings] = field(default_factory=dict)
    plans: dict[tuple[frozenset[int], int], KnownPlans] = field(default_factory=dict)

    def known(self, config: Config) -> KnownPlans:
        """What is known of the plans for a configuration."""
        own = streaming(self.lowered, config)
        tilings = self.tilings.setdefault(own, {})
        return self.plans.setdefault((own, config.bank_words), KnownPlans(tilings=tilings))

    @property
    def commands(self) -> int:
        """How many commands are known."""
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

    def __init__(self, most: int = MOST_COMMANDS) -> None:
        """most: commands of all that are kept."""
        self._most, self._kept = most, dict[Key, Prepared]()

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
            left = self._most
            for other, kept in reversed(list(self._kept.items())):
                left -= kept.commands
                if left < 0:
                    self._kept.pop(other, None)
