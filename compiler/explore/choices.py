"""`cnna explore --choices`: searches for choices of plans that the compiler does not compare, with the predictor as judge.

First come ways to plan the whole program, then the tiles of one layer after another, the slowest first. Whatever makes the program
quicker is kept for all that follows. So the result is never slower than what the compiler chooses by itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from cnna.compiler.choose.choices import Choices, ProgramChoices
from cnna.compiler.choose.cuts import cuts
from cnna.compiler.compile import Program, compile_graph
from cnna.compiler.explore.layer import Layers
from cnna.compiler.graph.ir import Graph
from cnna.compiler.lower.lower import graph_macs, lower
from cnna.compiler.placements import Pieces
from cnna.compiler.plan.fold import fold_inputs
from cnna.compiler.plan.forced import ForcedLayer
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Way
from cnna.spec.config import Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import ArtifactError, ModelError

CUTS = 3  # of a batch that are tried
TILES = 3  # of a layer that are tried, the best estimates first
Say = Callable[[int, int, str], object]


@dataclass(frozen=True)
class Searched:
    """What was found. before, after: clocks of all programs together. tries: how many other plans were predicted."""

    choices: Choices
    before: int
    after: int
    tries: int


class _Search:
    """The search for one program."""

    def __init__(self, graph: Graph, config: Config, batch: int, memory: DdrSpeed | None) -> None:
        self._graph, self._config, self._batch, self._memory = graph, config, batch, memory
        self.best = ProgramChoices(macs=graph_macs(graph))
        self.before, self._layers = self._predicted(compile_graph(graph, config, batch))
        self.clocks = self.before

    def candidates(self) -> Iterator[ProgramChoices]:
        """What may be tried, one after another; each builds on the best so far."""
        for way in self._ways():
            yield replace(self.best, way=way)
        known = Layers(self._graph, self._config)
        for name in sorted(self._layers, key=lambda name: -self._layers[name]):
            for forced in self._tiles(known, name):
                yield replace(self.best, layers={**self.best.layers, name: forced})

    def attempt(self, choices: ProgramChoices) -> None:
        """Predicts the program of these choices, and keeps them if it is quicker."""
        try:
            made = compile_graph(self._graph, self._config, self._batch, choices=choices)
            clocks, layers = self._predicted(made)
        except (ModelError, ArtifactError):  # it does not fit, or the predictor doubts it
            return
        if clocks < self.clocks:
            self.best, self.clocks, self._layers = choices, clocks, layers

    def _predicted(self, program: Program) -> tuple[int, Mapping[str, int]]:
        """Clocks of the program, and of each layer."""
        found = program.predicted(self._memory)
        layers = {entry["name"]: clocks for entry, clocks in zip(program.layers, found.layers, strict=True)}
        return found.total()["cycles"], layers

    def _ways(self) -> Iterator[Way]:
        folded, _ = fold_inputs(self._graph, self._config)
        lowered = set_pitches(lower(folded, self._config, self._batch), self._config)
        several = [False, True]
        for cut in cuts(lowered, self._config, CUTS):
            for reordered, banded, apart in product(several, several, several):
                yield Way(cut, reordered=reordered, banded=banded, apart=apart)
            if cut and self._batch > 1:
                yield Way(cut, abreast=2)

    def _tiles(self, known: Layers, name: str) -> Sequence[ForcedLayer]:
        if name not in known.names:
            return ()
        legal = sorted(known.tilings(name), key=lambda choice: (choice.cycles, choice.bytes))
        sizes = dict.fromkeys(ForcedLayer(choice.rows, choice.blocks) for choice in legal if not choice.chosen)
        return list(sizes)[:TILES]


def search(pieces: Pieces, config: Config, batch: int, tries: int, say: Say, memory: DdrSpeed | None = None) -> Searched:
    """Tries so many other plans for the graphs among the pieces, for each program its share of them.

    say: is called with tries done, all, and what is tried. memory: as of `part_of`.
    ModelError: a program does not fit as the compiler plans it.
    """
    graphs = [piece for piece in pieces if isinstance(piece, Graph)]
    found: list[_Search] = []
    done = 0
    for number, graph in enumerate(graphs, 1):
        own = _Search(graph, config, batch, memory)
        found.append(own)
        for choices in own.candidates():
            if done >= tries * number // len(graphs):
                break
            own.attempt(choices)
            done += 1
            say(done, tries, f"trying plans; {sum(each.clocks for each in found):,} clocks are the best")
    chosen = Choices(tuple(own.best for own in found), config.name, batch)
    return Searched(chosen, sum(own.before for own in found), sum(own.clocks for own in found), done)
