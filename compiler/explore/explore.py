"""`cnna explore`: the speed of networks on every configuration of a grid that fits a chip.

It compiles the networks for each and predicts their programs as reports do; it simulates nothing. Configurations are compared by
images a second from picture to answer, at the slow end of what is modelled of the host: a quicker accelerator is of no use to a
host that is slower still. DSP slices are exact, and block RAM follows from the shapes of the large memories. LUTs are a fit to
synthesised configurations (`sizes.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import inf

from cnna.compiler.explore.aim import SIZES, Aim
from cnna.compiler.explore.kept import Kept, Refused, key, plan_key
from cnna.compiler.explore.least import Bound, Shape, alike, bounded, host_ends, least_of, shape_of
from cnna.compiler.explore.planned import Pieces, part_of
from cnna.compiler.explore.point import Part, Point
from cnna.compiler.explore.sizes import bram36, dsp48e2, luts, uram288
from cnna.compiler.explore.tasks import Conditions, Done, Source, Task, Wanted, worked
from cnna.compiler.explore.workers import Workers
from cnna.compiler.prepared import Key, kernels_key
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import ModelError

BATCHES = (2, 4)  # tried beside batch 1, on the best configurations
BEST = 4
Say = Callable[[int, int, str], object]
Found = Callable[[Point], object]
Points = Sequence[Point]


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
    compiled: int = 0  # points of which something was predicted, and not kept from before
    plans: int = 0  # that were made for these
    discarded: int = 0  # points that were not predicted, since the bound says that they cannot be in the answer
    points: list[Point] = field(default_factory=list)
    refused: dict[Wanted, str] = field(default_factory=dict)
    _parts: dict[Wanted, dict[int, Part]] = field(default_factory=dict)
    _bounds: dict[Shape, Bound] = field(default_factory=dict)
    _making: dict[tuple[int, str], Key] = field(default_factory=dict)  # by network and `plan_key`, kernels that a worker plans
    _before: Points | None = None  # with what the bound compares; None: all points
    _by_accelerator: bool = False  # whether the bound leaves the host's work out

    def run(self, wanted: Sequence[Wanted], steady: bool = False, by_accelerator: bool = False) -> None:
        """Predicts these points, in this order where one process does it. What the bound shows to be needless is left out: it
        depends on the order and the workers what that is, but not which points are in the answer.

        steady: the bound is compared with the points of earlier runs alone, so that nothing depends on the workers. by_accelerator:
        nothing is left out because its host is slow.
        """
        self._before = tuple(self.points) if steady else None
        self._by_accelerator = by_accelerator
        self.total += len(wanted)
        self.workers.run(bounded, self._unbounded(wanted), self._bound, (self.source, self.conditions))
        self.workers.run(worked, self._tasks(wanted), self._take, (self.source, self.conditions))

    @property
    def host(self) -> tuple[float, float]:
        """As of `host_ends`, of the points so far."""
        return host_ends(self._bounds, self.conditions.shares)

    def _unbounded(self, wanted: Sequence[Wanted]) -> list[tuple[Shape, ...]]:
        """The shapes of which no bound is known, those together that are bounded together."""
        shapes = dict.fromkeys(shape_of(number, one) for one in wanted for number in self._missing(one))
        found: dict[Shape, list[Shape]] = {}
        for shape in shapes:
            if shape not in self._bounds:
                found.setdefault(alike(shape), []).append(shape)
        return list(map(tuple, found.values()))

    def _bound(self, shapes: Sequence[Shape], bounds: Sequence[Bound]) -> None:
        self._bounds |= zip(shapes, bounds, strict=True)

    def _key(self, one: Wanted) -> str:
        return key(one.config, one.batch, self.conditions.memory_of(one), self.conditions.native)

    def _plan_key(self, one: Wanted) -> str:
        return plan_key(one.config, one.batch, self.conditions.native)

    def _missing(self, one: Wanted) -> list[int]:
        """Of which networks nothing is known of a point."""
        name = self._key(one)
        return [number for number, kept in enumerate(self.kept) if kept.get(name) is None]

    def _needless(self, one: Wanted) -> bool:
        """Whether the least that a point takes shows that it is not in the answer."""
        bounds = [self._bounds.get(shape_of(number, one), Bound()) for number in range(len(self.kept))]
        least = least_of(one, bounds, self.conditions)
        if least is not None and self._by_accelerator:
            least = least._replace(answered=inf, latency=0.0)
        return least is not None and self.aim.needless(one.config, least, self._rivals(one))

    def _rivals(self, one: Wanted) -> Points:
        """With which points a point is compared. Each DDR has an answer of its own, unless the slowest one is wanted."""
        points = self.points if self._before is None else self._before
        if self.aim.objective == "bandwidth":
            return points
        return [point for point in points if point.asked == one.bandwidth]

    def _tasks(self, wanted: Sequence[Wanted]) -> Iterator[Task | None]:
        """What is not known yet, and takes what is known on the way. Points that follow each other and have one plan are a task. So
        that no plan is made twice, a task waits while a worker makes its plan; None says that all that are left do so. One whose
        kernels a worker plans for another size of memory lets others go first, since that worker has what both need.
        """
        groups = [(name, list(group)) for name, group in groupby(wanted, self._plan_key)]
        while groups:
            free = [number for number, (name, _) in enumerate(groups) if not self._made_now(name)]
            planned = {*self._making.values()}
            apart = (number for number in free if kernels_key(*groups[number][1][0][:2]) not in planned)
            number = next(apart, free[0] if free else None)
            if number is None:
                yield None
            else:
                yield from self._tasks_of(*groups.pop(number))

    def _made_now(self, name: str) -> bool:
        """Whether a worker makes a plan of that name."""
        return any((number, name) in self._making for number in range(len(self.kept)))

    def _tasks_of(self, name: str, group: Sequence[Wanted]) -> Iterator[Task]:
        """A task of these points for each network of which something is missing. name: of their plan."""
        left = {one: missing for one in group if (missing := self._needed(one))}
        for number, kept in enumerate(self.kept):
            own = tuple(one for one, missing in left.items() if number in missing)
            if own:
                plan = kept.plan(name)
                if plan is None:
                    self._making[number, name] = kernels_key(own[0].config, own[0].batch)
                yield Task(number, own, plan)

    def _needed(self, one: Wanted) -> list[int]:
        """Of which networks something must be predicted for a point: of none if it is known or needless."""
        missing = self._missing(one)
        if missing and self._needless(one):
            self.discarded += 1
            self._tell(one, "not needed")
            return []
        for number, kept in enumerate(self.kept):
            known = kept.get(self._key(one))
            if known is not None:
                self._add(number, one, known)
        self.compiled += bool(missing)
        return missing

    def _take(self, task: Task, done: Done) -> None:
        kept, name = self.kept[task.network], self._plan_key(task.wanted[0])
        self._making.pop((task.network, name), None)
        self.plans += done.plans
        for one, result in zip(task.wanted, done.found, strict=True):
            kept.put(self._key(one), result)
            self._add(task.network, one, result)
        if done.plan is not None:  # last: where the disk is full, the predictions may still fit
            kept.put_plan(name, done.plan)

    def _add(self, number: int, one: Wanted, result: Part | Refused) -> None:
        """Makes a point, once all of its parts are there."""
        if isinstance(result, Refused):
            self.refused.setdefault(one, result.message)
        else:
            parts = self._parts.setdefault(one, {})
            parts[number] = result
            if len(parts) == len(self.kept):
                self.points.append(point_of(one, [parts[n] for n in sorted(parts)], self.conditions))
                self.found(self.points[-1])  # first: who prints it need not say as well that the command is at work
        self._tell(one, "compiled")

    def _tell(self, one: Wanted, done: str) -> None:
        images = f", batch {one.batch}" if one.batch > 1 else ""
        images += f", {one.bandwidth:,} MB/s" if one.bandwidth else ""
        self.say(len(self.points) + len(self.refused) + self.discarded, self.total, f"{done}: {one.config.name}{images}")


def explore(
    sweep: Sweep, configs: Sequence[Config], batch: int | None, speeds: Sequence[int | None] = (None,)
) -> tuple[list[Point], int]:
    """The predictions of all configurations, the smallest first, and how many configurations cannot run the networks.

    batch: None tries 1 everywhere, then BATCHES on the best; or BATCHES everywhere, if only some points are good enough. speeds: of
    the DDR, in million bytes a second, the slowest first; None is that of the conditions. What is best does not depend on the
    number of workers. ModelError: no configuration can run the networks; the message is that of the greatest one.
    """
    own = SIZES.get(sweep.aim.objective, dsp48e2)
    ordered = sorted(configs, key=lambda config: (own(config), dsp48e2(config), bram36(config), luts(config)))
    everywhere = (1, *BATCHES) if sweep.aim.given else (1,)
    alone = sweep.aim.objective == "latency"  # no batch answers sooner than one image
    first = _in_order(ordered, (batch,) if batch else (1,) if alone else everywhere, speeds, sweep.aim)
    more_follow = not batch and not alone and not sweep.aim.given  # and may be of accelerators that wait for their host
    sweep.run(first, by_accelerator=more_follow)
    if not sweep.points and sweep.refused and not sweep.discarded:
        raise ModelError(next(sweep.refused[one] for one in reversed(first) if one in sweep.refused))
    missing = len({one.config for one in sweep.refused} - {point.config for point in sweep.points})
    if more_follow:
        best = {speed: _for_batches([point for point in sweep.points if point.asked == speed], sweep.aim) for speed in speeds}
        more = [config for config in ordered if any(config in own for own in best.values())]
        sweep.run([Wanted(*one) for one in product(more, BATCHES, speeds) if one[0] in best[one[2]]])
    place = {config: number for number, config in enumerate(ordered)}
    return sorted(sweep.points, key=lambda point: (point.asked or 0, point.batch, place[point.config])), missing


def _in_order(configs: Sequence[Config], batches: Sequence[int], speeds: Sequence[int | None], aim: Aim) -> list[Wanted]:
    """All points. Those that share a plan follow each other, unless all others must come before the next speed."""
    if aim.objective == "bandwidth":
        return [Wanted(config, images, speed) for speed, config, images in product(speeds, configs, batches)]
    alike = [list(group) for _, group in groupby(configs, lambda config: plan_key(config, 1, True))]
    return [Wanted(config, images, speed) for own in alike for images, config, speed in product(batches, own, speeds)]


def _for_batches(points: Sequence[Point], aim: Aim) -> list[Config]:
    """The quickest to the answer, and the quickest accelerators: behind a slow host, those may lead in larger batches alone.

    Both are of points that no other one beats. Where the accelerator's own speed is the objective, it alone decides: a point that
    the bound left out for it may be one of the quickest to the answer.
    """
    speeds = ("alone",) if aim.objective == "alone" else ("fps", "alone")
    return list(dict.fromkeys(point.config for name in speeds for point in replace(aim, objective=name).best(points)[:BEST]))


def evaluate(pieces: Pieces, config: Config, batch: int, memory: DdrSpeed | None = None, native: bool = True) -> Point:
    """The point of one network. Arguments and errors: as of `part_of`."""
    return point_of(Wanted(config, batch), [part_of(pieces, config, batch, memory, native)], Conditions(memory, native))


def point_of(one: Wanted, parts: Sequence[Part], conditions: Conditions) -> Point:
    """A point, of what each network takes."""
    config = one.config
    sizes = dsp48e2(config), bram36(config), uram288(config), luts(config)
    memory = conditions.memory_of(one) or ddr_of(config)
    return Point(config, one.batch, *sizes, tuple(parts), conditions.shares, memory, one.bandwidth)
