"""`cnna explore`: the speed of networks on every configuration of a grid that fits a chip.

It compiles the networks for each and predicts their programs as reports do; it simulates nothing. Configurations are compared by
images a second from picture to answer, at the slow end of what is modelled of the host: a quicker accelerator is of no use to a
host that is slower still. DSP slices are exact, and block RAM follows from the shapes of the large memories. LUTs are a fit to
synthesised configurations (`sizes.py`).
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Protocol, TypeAlias

from cnna.compiler.accesses import accesses
from cnna.compiler.bound import LeastWork, least_work
from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.aim import SIZES, Aim, Least
from cnna.compiler.explore.grid import BANK_WORDS, RING_WORDS
from cnna.compiler.explore.kept import Kept, Refused, key
from cnna.compiler.explore.point import Part, Point
from cnna.compiler.explore.sizes import bram36, dsp48e2, luts, uram288
from cnna.compiler.explore.workers import Workers
from cnna.compiler.graph.ir import Graph
from cnna.compiler.placements import Pieces
from cnna.spec.boards import ddr_of
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
    native library. shares: of the images, by network. bandwidth: of the DDR instead, in million bytes a second.
    """

    memory: DdrSpeed | None = None
    native: bool = True
    shares: tuple[float, ...] = (1.0,)
    bandwidth: int | None = None

    def memory_of(self, config: Config) -> DdrSpeed | None:
        """The DDR of a configuration; None: its board's."""
        if self.bandwidth is None:
            return self.memory
        return (self.memory or ddr_of(config))._replace(bytes_per_cycle=self.bandwidth // config.clock_mhz)


Bound: TypeAlias = Sequence[LeastWork]  # of each program of a network; none: it is not known


def shape_of(task: Task) -> Task:
    """The task for which the least work is found: it is the same for configurations that differ in nothing else."""
    board = task.config.name.split("-")[0]
    return replace(task, config=replace(task.config, name=board, bank_words=BANK_WORDS[0], ring_words=RING_WORDS[0], uram=False))


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
    aim: Aim = field(default_factory=Aim)
    say: Say = nobody
    found: Found = nobody
    total: int = 0
    compiled: int = 0  # points of which something was compiled, and not kept from before
    discarded: int = 0  # points that were not compiled, since the bound says that they cannot be in the answer
    points: list[Point] = field(default_factory=list)
    refused: dict[tuple[Config, int], str] = field(default_factory=dict)
    _parts: dict[tuple[Config, int], dict[int, Part]] = field(default_factory=dict)
    _bounds: dict[Task, Bound] = field(default_factory=dict)
    _before: Sequence[Point] | None = None  # with what the bound compares; None: all points

    def run(self, wanted: Sequence[tuple[Config, int]], steady: bool = False) -> None:
        """Predicts these configurations with these batches, in this order where one process does it. What the bound shows to be
        needless is left out: it depends on the order and the workers what that is, but not which points are in the answer.

        steady: the bound is compared with the points of earlier runs alone, so that nothing depends on the workers.
        """
        self._before = tuple(self.points) if steady else None
        self.total += len(wanted)
        unknown = [task for config, batch in wanted for task in self._missing(config, batch)]
        shapes = list(dict.fromkeys(map(shape_of, unknown)))
        self.workers.run(bounded, shapes, self._bounds.__setitem__, (self.source,))
        self.workers.run(worked, self._tasks(wanted), self._take, (self.source, self.conditions))

    def _key(self, config: Config, batch: int) -> str:
        return key(config, batch, self.conditions.memory_of(config), self.conditions.native)

    def _missing(self, config: Config, batch: int) -> list[Task]:
        """What is not known of a point."""
        name = self._key(config, batch)
        return [Task(number, config, batch) for number, kept in enumerate(self.kept) if kept.get(name) is None]

    def _needless(self, config: Config, batch: int) -> bool:
        """Whether the least that a point takes shows that it is not in the answer."""
        memory = self.conditions.memory_of(config) or ddr_of(config)
        works = [self._bounds.get(shape_of(Task(number, config, batch)), ()) for number in range(len(self.kept))]
        least = [sum(work.clocks(config, memory) for work in each) for each in works]
        shares = self.conditions.shares
        clocks = sum(share * each for share, each in zip(shares, least, strict=True))
        moved = sum(share * sum(work.bytes for work in each) for share, each in zip(shares, works, strict=True))
        points = self.points if self._before is None else self._before
        bandwidth = self.conditions.bandwidth or memory.bytes_per_cycle * config.clock_mhz
        bound = Least(clocks / (config.clock_mhz * 1e6), batch, moved / batch, bandwidth)
        return clocks > 0 and self.aim.needless(config, bound, points)

    def _tasks(self, wanted: Sequence[tuple[Config, int]]) -> Iterator[Task]:
        """What is not known yet, and takes what is known on the way."""
        for config, batch in wanted:
            missing = self._missing(config, batch)
            if missing and self._needless(config, batch):
                self.discarded += 1
                self._tell(config, batch, "not needed")
                continue
            for number, kept in enumerate(self.kept):
                known = kept.get(self._key(config, batch))
                if known is not None:
                    self._add(Task(number, config, batch), known)
            self.compiled += bool(missing)
            yield from missing

    def _take(self, task: Task, result: Part | Refused) -> None:
        self.kept[task.network].put(self._key(task.config, task.batch), result)
        self._add(task, result)

    def _add(self, task: Task, result: Part | Refused) -> None:
        """Makes a point, once all of its parts are there."""
        if isinstance(result, Refused):
            self.refused.setdefault((task.config, task.batch), result.message)
        else:
            parts = self._parts.setdefault((task.config, task.batch), {})
            parts[task.network] = result
            if len(parts) == len(self.kept):
                self.points.append(point_of(task.config, task.batch, [parts[n] for n in sorted(parts)], self.conditions))
                self._tell(task.config, task.batch, "compiled")
                self.found(self.points[-1])
                return
        self._tell(task.config, task.batch, "compiled")

    def _tell(self, config: Config, batch: int, done: str) -> None:
        images = f", batch {batch}" if batch > 1 else ""
        self.say(len(self.points) + len(self.refused) + self.discarded, self.total, f"{done}: {config.name}{images}")


def explore(sweep: Sweep, configs: Sequence[Config], batch: int | None) -> tuple[list[Point], int]:
    """The predictions of all configurations, the smallest first, and how many configurations cannot run the networks.

    batch: None tries 1 everywhere, then BATCHES on the best; or BATCHES everywhere, if only some points are good enough. What is
    best does not depend on the number of workers. ModelError: no configuration can run the networks; the message is that of the
    greatest one.
    """
    own = SIZES.get(sweep.aim.objective, dsp48e2)
    ordered = sorted(configs, key=lambda config: (own(config), dsp48e2(config), bram36(config), luts(config)))
    everywhere = (1, *BATCHES) if sweep.aim.given else (1,)
    alone = sweep.aim.objective == "latency"  # no batch answers sooner than one image
    first = [(config, images) for config in ordered for images in ((batch,) if batch else (1,) if alone else everywhere)]
    sweep.run(first)
    if not sweep.points and sweep.refused and not sweep.discarded:
        raise ModelError(next(sweep.refused[one] for one in reversed(first) if one in sweep.refused))
    missing = len({config for config, _ in sweep.refused} - {point.config for point in sweep.points})
    if not batch and not alone and not sweep.aim.given:
        sweep.run(list(product(_for_batches(sweep.points, sweep.aim), BATCHES)))
    place = {config: number for number, config in enumerate(ordered)}
    return sorted(sweep.points, key=lambda point: (point.batch, place[point.config])), missing


def _for_batches(points: Sequence[Point], aim: Aim) -> list[Config]:
    """The quickest to the answer, and the quickest accelerators: behind a slow host, those may lead in larger batches alone.

    Both are of points that no other one beats. Where the accelerator's own speed is the objective, it alone decides: a point that
    the bound left out for it may be one of the quickest to the answer.
    """
    speeds = ("alone",) if aim.objective == "alone" else ("fps", "alone")
    return list(dict.fromkeys(point.config for name in speeds for point in replace(aim, objective=name).best(points)[:BEST]))


def bounded(source: Source, task: Task) -> Bound:
    """What a worker does to bound the points of a shape. source: as of `Sweep`."""
    network = (_networks(source) if isinstance(source, Path) else source)[task.network]
    try:
        graphs = [piece for piece in network.pieces(task.config) if isinstance(piece, Graph)]
        return [least_work(graph, task.config, task.batch, BANK_WORDS) for graph in graphs]
    except ModelError:  # compiling says why
        return []


def worked(source: Source, conditions: Conditions, task: Task) -> Part | Refused:
    """What a worker does. source: as of `Sweep`."""
    network = (_networks(source) if isinstance(source, Path) else source)[task.network]
    try:
        return part_of(network.pieces(task.config), task.config, task.batch, conditions.memory_of(task.config), conditions.native)
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
    return point_of(config, batch, [part_of(pieces, config, batch, memory, native)], Conditions(memory, native))


def point_of(config: Config, batch: int, parts: Sequence[Part], conditions: Conditions) -> Point:
    """A point, of what each network takes."""
    sizes = dsp48e2(config), bram36(config), uram288(config), luts(config)
    memory = conditions.memory_of(config) or ddr_of(config)
    return Point(config, batch, *sizes, tuple(parts), conditions.shares, memory, conditions.bandwidth)


def part_of(
    pieces: Sequence[Graph | PieceEntry], config: Config, batch: int, memory: DdrSpeed | None = None, native: bool = True
) -> Part:
    """Compiles and predicts. pieces: of a model, in their order. ModelError: one of them does not fit.

    memory: None is the DDR of the configuration's board. native: whether the host has its native library.
    """
    entries: list[PieceEntry] = []
    touched = 0
    for piece in pieces:
        if isinstance(piece, Graph):
            made = compile_graph(piece, config, batch)
            entries.append(made.entry(memory=memory))
            touched += accesses(made.program, config, sum(work["ddr_read_bytes"] + work["ddr_write_bytes"] for work in made.layers))
        else:
            entries.append(piece)
    programs = [entry for entry in entries if entry["kind"] == ACCELERATOR]
    moved = sum(layer["ddr_read_bytes"] + layer["ddr_write_bytes"] for program in programs for layer in program["layers"])
    cycles = sum(program["predicted"]["cycles"] for program in programs)
    whole = end_to_end(entries, cycles, config.clock_mhz, batch, native)
    return Part(cycles, moved, sum(program["macs"] for program in programs), whole, touched)
