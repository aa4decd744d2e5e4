"""A search of a space that is past a full sweep: Optuna proposes points, and the sweep's workers predict them.

Optuna is asked for a round of points, all of them are predicted, and then it is told of all. So what it proposes does not depend on
the number of workers. Its trials are kept beside the predictions: the same command with a larger number goes on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cnna.compiler.explore.aim import Aim
from cnna.compiler.explore.explore import BATCHES, Sweep
from cnna.compiler.explore.kept import FOLDER, compiler_digest
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.tasks import Wanted
from cnna.spec.config import Config
from cnna.spec.errors import ModelError, ToolError, UserError
from cnna.spec.exploring import SAMPLERS, SPEEDS
from cnna.spec.extras import install
from cnna.spec.files import make_folder

ROUND = 16  # points of a round, and of a generation of NSGA-II
IN_VAIN = 20  # rounds without a point that is new, after which there is none left to find
NAMES = ("pix", "ci", "co", "ports", "regions", "bank_words", "ring_words", "vector_ring_words", "clock_mhz")
MOST_SEED = 2**31 - 1  # the number of the trials so far is added, and NumPy takes 32 bits
MISSED, TAKEN = "missed", "taken"  # a trial's constraint, and its attribute with the point that was taken
Key = tuple[int, ...]
BATCH, BANDWIDTH = "batch", "bandwidth"


@dataclass(frozen=True)
class Search:
    """A search instead of a sweep: so many points at most, by this one of SAMPLERS. folder: of the cache. again: begins anew,
    whatever earlier commands were told.
    """

    most: int
    sampler: str
    seed: int
    folder: Path
    again: bool = False


class Space:
    """The points that a search chooses from: each a value for every name, a batch, and a DDR if there are several speeds of it. Not
    every combination is one.
    """

    def __init__(self, configs: Sequence[Config], batches: Sequence[int], speeds: Sequence[int | None] = (None,)) -> None:
        self.batches, self._speed = tuple(batches), speeds[0]
        self._configs: dict[Key, Config] = {}
        for config in configs:
            self._configs.setdefault(tuple(getattr(config, name) for name in NAMES), config)
        values = zip(*self._configs, strict=True)
        self.values: dict[str, tuple[int, ...]] = dict(zip(NAMES, (tuple(sorted(set(own))) for own in values), strict=True))
        self.values[BATCH] = self.batches
        if len(speeds) > 1:
            self.values[BANDWIDTH] = tuple(speed for speed in speeds if speed is not None)
        self._places = np.array([self._place(config) for config in self._configs])

    def __len__(self) -> int:
        return len(self._configs) * len(self.batches) * len(self.values.get(BANDWIDTH, (0,)))

    def nearest(self, params: Mapping[str, int]) -> Wanted:
        """The point with these values, or the one that is the fewest steps of values away, if they are not legal or do not fit."""
        own = tuple(params[name] for name in NAMES)
        if own not in self._configs:
            away = np.abs(self._places - np.array(self._place(own))).sum(1)
            own = list(self._configs)[int(away.argmin())]
        return Wanted(self._configs[own], params[BATCH], params.get(BANDWIDTH, self._speed))

    def _place(self, own: Key) -> list[int]:
        """Values as their numbers in the order of size."""
        return [self.values[name].index(value) for name, value in zip(NAMES, own, strict=True)]

    def values_of(self, wanted: Wanted) -> dict[str, int]:
        """The values by which `nearest` finds a point."""
        more = {BANDWIDTH: wanted.bandwidth} if BANDWIDTH in self.values and wanted.bandwidth is not None else {}
        return {**{name: getattr(wanted.config, name) for name in NAMES}, BATCH: wanted.batch, **more}


def batches_of(aim: Aim, batch: int | None) -> tuple[int, ...]:
    """The batches of a search. No batch answers sooner than one image."""
    return (batch,) if batch else (1,) if aim.objective == "latency" else (1, *BATCHES)


def search(
    sweep: Sweep, configs: Sequence[Config], batch: int | None, how: Search, speeds: Sequence[int | None] = (None,)
) -> list[Point]:
    """Predicts up to `how.most` points, those of earlier calls included, and returns all. speeds: as of `explore`.

    UserError: there is no such sampler or seed, or less than one point is wanted. ToolError: Optuna is missing. ModelError: no
    point that was proposed can run the networks.
    """
    if how.sampler not in SAMPLERS:
        raise UserError(f"--sampler {how.sampler}: there is no such one; there are {', '.join(SAMPLERS)}")
    if how.most < 1:
        raise UserError(f"--search {how.most}: must be at least 1")
    if not 0 <= how.seed <= MOST_SEED:
        raise UserError(f"--seed {how.seed}: must be within 0..{MOST_SEED}")
    space = Space(configs, batches_of(sweep.aim, batch), speeds)
    study, vain = _Study(sweep, space, how), 0
    while study.predicted < min(how.most, len(space)) and vain < IN_VAIN:
        before = len(study.told)
        study.round(how.most - study.predicted)
        vain = 0 if len(study.told) > before else vain + 1
    if not sweep.points and sweep.refused:
        raise ModelError(next(iter(sweep.refused.values())))
    place = {config: number for number, config in enumerate(configs)}
    return sorted(sweep.points, key=lambda point: (point.asked or 0, point.batch, place[point.config]))


class _Journal:
    """A file of Optuna's journal. Its own kind waits for the disk after each line, and a point has ten.

    What a command that was killed wrote in part is passed over.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._logs, self._read = path, list[dict[str, Any]](), 0

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """As of Optuna's."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole = file.read()
            whole = whole[: whole.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.splitlines():
                try:
                    self._logs.append(json.loads(line))
                except ValueError:
                    continue
        return self._logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """As of Optuna's. UserError: the file cannot be written."""
        try:
            with self._path.open("a") as file:  # one write, so that lines of two commands do not mix
                file.write("".join(f"\n{json.dumps(log)}" for log in logs) + "\n")
        except OSError as error:
            raise UserError(f"{self._path}: {error.strerror}; --cache names another folder") from None


class _Study:
    """Optuna's study of a sweep. told: what each point is worth; predicted: points of which the network was predicted."""

    def __init__(self, sweep: Sweep, space: Space, how: Search) -> None:
        self.sweep, self.space = sweep, space
        self.told: dict[Wanted, tuple[float, ...] | None] = {}
        self.predicted = 0
        self._optuna = _optuna()
        self._study = self._opened(how)
        self._distributions = {
            name: self._optuna.distributions.CategoricalDistribution(values) for name, values in space.values.items()
        }
        self._take_kept()

    def _opened(self, how: Search) -> Any:
        """The study, with the trials of earlier commands."""
        aim, conditions = self.sweep.aim, self.sweep.conditions
        asked = (how.seed, how.sampler, aim, conditions, sorted(self.space.values.items()), len(self.space), compiler_digest())
        own = (*(kept.name for kept in self.sweep.kept), repr(asked))
        file = how.folder / FOLDER / f"{sha256(repr(own).encode()).hexdigest()[:32]}.journal"
        make_folder(file.parent)
        if how.again:
            _forget(file)
        storage = self._optuna.storages.JournalStorage(_Journal(file))
        directions = ["maximize", *("minimize" for _ in costs(aim))]
        found = self._optuna.create_study(storage=storage, study_name="explore", directions=directions, load_if_exists=True)
        samplers = self._optuna.samplers
        fresh = how.seed + len(found.trials)  # a state that was used already would propose the same points again
        if how.sampler == "nsga2":
            found.sampler = samplers.NSGAIISampler(seed=fresh, population_size=ROUND)
        elif how.sampler == "tpe":
            found.sampler = samplers.TPESampler(seed=fresh, multivariate=True, n_startup_trials=2 * ROUND)
        else:
            found.sampler = samplers.RandomSampler(seed=fresh)
        return found

    def _take_kept(self) -> None:
        """Predicts, or takes from what is kept, what earlier commands told of; what they left under way is done first."""
        states = self._optuna.trial.TrialState
        for trial in self._study.get_trials(states=(states.RUNNING,)):
            self._study.tell(trial.number, state=states.FAIL)
        trials = self._study.get_trials(states=(states.COMPLETE,))
        done = list(dict.fromkeys(self.space.nearest(trial.user_attrs[TAKEN]) for trial in trials))
        self.sweep.run(done)
        known = _known(self.sweep)
        for wanted in done:
            self._remember(wanted, known.get(wanted))

    def _remember(self, wanted: Wanted, point: Point | None) -> None:
        self.told[wanted] = None if point is None else worth(point, self.sweep.aim)
        self.predicted += point is not None or wanted in self.sweep.refused

    def round(self, most: int) -> None:
        """Asks for a round, predicts what is new of it, and tells of all. most: new points."""
        asked = [(trial, self.space.nearest(trial.params)) for trial in self._asked()]
        new = list(dict.fromkeys(wanted for _, wanted in asked if wanted not in self.told))[:most]
        self.sweep.run(new, steady=True)
        known = _known(self.sweep)
        for wanted in new:
            self._remember(wanted, known.get(wanted))
        for trial, wanted in asked:
            values = self.told.get(wanted)
            if values is None:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            else:
                trial.set_user_attr(TAKEN, self.space.values_of(wanted))
                trial.set_constraint(MISSED, missed(known[wanted], self.sweep.aim))
                self._study.tell(trial, values)

    def _asked(self) -> Iterator[Any]:
        for _ in range(ROUND):
            yield self._study.ask(self._distributions)


def _known(sweep: Sweep) -> dict[Wanted, Point]:
    return {Wanted(point.config, point.batch, point.asked): point for point in sweep.points}


def _forget(file: Path) -> None:
    """UserError: the file cannot be removed."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; --cache names another folder") from None


def costs(aim: Aim) -> tuple[str, ...]:
    """What a search makes small, beside what it makes quick."""
    own = () if aim.objective in SPEEDS else (aim.objective,)
    return tuple(dict.fromkeys((*own, *aim.axes)))


def worth(point: Point, aim: Aim) -> tuple[float, ...]:
    """What Optuna is told of a point: its speed, and what it costs."""
    return aim.speed(point), *(float(aim.cost(point, name)) for name in costs(aim))


def missed(point: Point, aim: Aim) -> float:
    """By which share a point misses the targets; 0: it reaches them."""
    slow = 0.0 if aim.target_fps is None else aim.target_fps / point.fps - 1
    late = 0.0 if aim.target_ms is None else point.latency.slow * 1e3 / aim.target_ms - 1
    moved = 0.0 if aim.ddr_traffic is None else point.bytes / point.batch / (aim.ddr_traffic * 1e6) - 1
    return max(0.0, slow, late, moved)


def _optuna() -> Any:
    try:
        found = import_module("optuna")
    except ImportError:
        raise ToolError(f"--search: the package optuna is missing: {install('explore')}") from None
    found.logging.set_verbosity(found.logging.ERROR)
    return found
