"""`cnna explore`: the speed of networks on every configuration of a grid that fits a chip.

It compiles the networks for each and predicts their programs as reports do; it simulates nothing. Configurations are compared by
images a second from picture to answer, at the slow end of what is modelled of the host: a quicker accelerator is of no use to a
host that is slower still. DSP slices are exact, and block RAM follows from the shapes of the large memories. LUTs are a fit to
synthesised configurations (`sizes.py`).
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Protocol, TypeAlias

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.kept import Kept, Refused, key
from cnna.compiler.explore.point import Part, Point, pareto
from cnna.compiler.explore.sizes import bram36, dsp48e2, luts, uram288
from cnna.compiler.explore.workers import Workers
from cnna.compiler.graph.ir import Graph
from cnna.compiler.placements import Pieces
from cnna.spec.config import Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import ModelError
from cnna.spec.host_time.end_to_end import end_to_end
from cnna.spec.manifest import ACCELERATOR, PieceEntry

BATCHES = (2, 4)  # tried beside batch 1, on the best configurations
BEST = 4
Say = Callable[[int, int, str], object]
Source: TypeAlias = "Path | Sequence[Network]"
Found = Callable[[Point], object]


class Network(Protocol):
    """A network for any configuration. It goes to other processes as a pickle."""

    def pieces(self, config: Config) -> Pieces:
        """As of `Placements`."""


@dataclass(frozen=True)
class Task:
    """One network on one configuration. network: its number."""

    network: int
    config: Config
    batch: int


@dataclass(frozen=True)
class Conditions:
    """What all predictions have in common. memory: None is the DDR of the configuration's board. native: whether the host has its
    native library. shares: of the images, by network.
    """

    memory: DdrSpeed | None = None
    native: bool = True
    shares: tuple[float, ...] = (1.0,)


def nobody(*args: object) -> None:
    """Whom nobody listens to."""


@dataclass(eq=False)
class Sweep:
    """Predicts points with workers, and keeps what they find.

    source: the networks, or for other processes the file of their pickle. say: is called with points done, all points, and what
    was done. found: with each new point.
    """

    source: Source
    conditions: Conditions
    kept: Sequence[Kept]
    workers: Workers
    say: Say = nobody
    found: Found = nobody
    total: int = 0
    compiled: int = 0  # points of which something was compiled, and not kept from before
    points: list[Point] = field(default_factory=list)
    refused: dict[Config, str] = field(default_factory=dict)
    _parts: dict[tuple[Config, int], dict[int, Part]] = field(default_factory=dict)

    def run(self, wanted: Sequence[tuple[Config, int]]) -> None:
        """Predicts these configurations with these batches, in this order where one process does it."""
        self.total += len(wanted)
        self.workers.run(partial(worked, self.source, self.conditions), self._tasks(wanted), self._take)

    def _tasks(self, wanted: Sequence[tuple[Config, int]]) -> Iterator[Task]:
        """What is not known yet, and takes what is known on the way."""
        for config, batch in wanted:
            missing = []
            for number, kept in enumerate(self.kept):
                known = kept.get(key(config, batch, self.conditions.memory, self.conditions.native))
                if known is None:
                    missing.append(Task(number, config, batch))
                else:
                    self._add(Task(number, config, batch), known)
            self.compiled += bool(missing)
            yield from missing

    def _take(self, task: Task, result: Part | Refused) -> None:
        self.kept[task.network].put(key(task.config, task.batch, self.conditions.memory, self.conditions.native), result)
        self._add(task, result)

    def _add(self, task: Task, result: Part | Refused) -> None:
        """Makes a point, once all of its parts are there."""
        if isinstance(result, Refused):
            self.refused.setdefault(task.config, result.message)
        else:
            parts = self._parts.setdefault((task.config, task.batch), {})
            parts[task.network] = result
            if len(parts) == len(self.kept):
                self.points.append(point_of(task.config, task.batch, [parts[n] for n in sorted(parts)], self.conditions.shares))
                self.found(self.points[-1])
        batch = f", batch {task.batch}" if task.batch > 1 else ""
        self.say(len(self.points) + len(self.refused), self.total, f"compiled for {task.config.name}{batch}")


def explore(sweep: Sweep, configs: Sequence[Config], batch: int | None) -> tuple[list[Point], int]:
    """The predictions of all configurations, the smallest first, and how many configurations cannot run the networks.

    batch: None tries 1 everywhere, then BATCHES on the best. The result does not depend on the number of workers. ModelError: no
    configuration can run the networks; the message is that of the greatest one.
    """
    ordered = sorted(configs, key=lambda config: (dsp48e2(config), bram36(config), luts(config)))
    sweep.total += 0 if batch else BEST * len(BATCHES)
    sweep.run([(config, batch or 1) for config in ordered])
    if not sweep.points and sweep.refused:
        raise ModelError(next(sweep.refused[config] for config in reversed(ordered) if config in sweep.refused))
    missing = len(sweep.refused)
    if not batch:
        sweep.total -= BEST * len(BATCHES)
        sweep.run(list(product(_for_batches(sweep.points), BATCHES)))
    place = {config: number for number, config in enumerate(ordered)}
    return sorted(sweep.points, key=lambda point: (point.batch, place[point.config])), missing


def _for_batches(points: Sequence[Point]) -> list[Config]:
    """The quickest to the answer, and the quickest accelerators: behind a slow host, those may lead in larger batches alone.

    Both are of points that no other one beats.
    """
    found = [point.config for point in pareto(points)[:BEST]]
    return list(dict.fromkeys([*found, *(point.config for point in pareto(points, lambda point: point.alone)[:BEST])]))


def worked(source: Source, conditions: Conditions, task: Task) -> Part | Refused:
    """What a worker does. source: as of `Sweep`."""
    network = (_networks(source) if isinstance(source, Path) else source)[task.network]
    try:
        return part_of(network.pieces(task.config), task.config, task.batch, conditions.memory, conditions.native)
    except ModelError as error:
        return Refused(str(error))


@lru_cache(maxsize=1)
def _networks(source: Path) -> Sequence[Network]:
    """They are read once in each process."""
    with source.open("rb") as file:
        found: Sequence[Network] = pickle.load(file)
    return found


def evaluate(
    pieces: Sequence[Graph | PieceEntry], config: Config, batch: int, memory: DdrSpeed | None = None, native: bool = True
) -> Point:
    """The point of one network. Arguments and errors: as of `part_of`."""
    return point_of(config, batch, [part_of(pieces, config, batch, memory, native)])


def point_of(config: Config, batch: int, parts: Sequence[Part], shares: tuple[float, ...] = (1.0,)) -> Point:
    """A point, of what each network takes."""
    return Point(config, batch, dsp48e2(config), bram36(config), uram288(config), luts(config), tuple(parts), shares)


def part_of(
    pieces: Sequence[Graph | PieceEntry], config: Config, batch: int, memory: DdrSpeed | None = None, native: bool = True
) -> Part:
    """Compiles and predicts. pieces: of a model, in their order. ModelError: one of them does not fit.

    memory: None is the DDR of the configuration's board. native: whether the host has its native library.
    """
    entries: list[PieceEntry] = []
    for piece in pieces:
        entries.append(compile_graph(piece, config, batch).entry(memory=memory) if isinstance(piece, Graph) else piece)
    programs = [entry for entry in entries if entry["kind"] == ACCELERATOR]
    moved = sum(layer["ddr_read_bytes"] + layer["ddr_write_bytes"] for program in programs for layer in program["layers"])
    cycles = sum(program["predicted"]["cycles"] for program in programs)
    whole = end_to_end(entries, cycles, config.clock_mhz, batch, native)
    return Part(cycles, moved, sum(program["macs"] for program in programs), whole)
