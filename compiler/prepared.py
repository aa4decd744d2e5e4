"""Graphs that are ready to be planned, and what is known of their plans. Configurations share them that differ in the size of the
weight ring or in the clock alone: kernels are the same, and so are most commands, waits and programs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import Lowered
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.fold import Fold, fold_inputs
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import KnownPlans, streaming
from cnna.spec.config import Config

SHARED = ("name", "ring_words", "clock_mhz")  # what configurations that share kernels may differ in
MOST_COMMANDS = 50_000  # of plans that are kept for later: some 3 kB each

Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph with its inputs folded, as kernels with their pitches. plans: what is known of them, by `streaming`."""

    graph: ir.Graph
    folded: ir.Graph
    folds: Mapping[str, Fold]
    lowered: Lowered
    plans: dict[frozenset[int], KnownPlans] = field(default_factory=dict)

    def known(self, config: Config) -> KnownPlans:
        """What is known of the plans for a configuration."""
        return self.plans.setdefault(streaming(self.lowered, config), KnownPlans())

    @property
    def commands(self) -> int:
        """How many commands are known."""
        return sum(len(made.commands) for known in self.plans.values() for made in known.made)


def prepared(graph: ir.Graph, config: Config, batch: int) -> Prepared:
    """A graph of which nothing is known yet. ModelError: as of `lower`."""
    folded, folds = fold_inputs(graph, config)
    return Prepared(graph, folded, folds, set_pitches(lower(folded, config, batch), config))


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
        key = id(graph), batch, *(value for name, value in vars(config).items() if name not in SHARED)
        own = self._kept.pop(key, None)  # it has the graph, so that no other one gets its `id`
        own = own or prepared(graph, config, batch)
        yield own
        self._kept[key] = own
        left = self._most
        for other, kept in reversed(list(self._kept.items())):
            left -= kept.commands
            if left < 0:
                self._kept.pop(other, None)
