"""A search finds what the sweep finds, proposes the same for any number of workers, and goes on where it ended."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnna.compiler.explore import search as module
from cnna.compiler.explore.aim import Aim
from cnna.compiler.explore.explore import Sweep, explore
from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.kept import FOLDER, Kept
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.search import SAMPLERS, Search, Space, missed, search
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.explore.tasks import Conditions, Wanted
from cnna.compiler.explore.workers import Workers
from cnna.spec.config import Config
from cnna.spec.errors import ToolError, UserError

from ... import networks
from .points import Fixed, explored

ALONE = Aim("alone")
CONFIGS = configurations(Budget(120, 100), swept=("banks", "ring"))


def searched(
    folder: Path,
    configs: Sequence[Config],
    most: int,
    aim: Aim = ALONE,
    jobs: int = 1,
    sampler: str = "tpe",
    again: bool = False,
    speeds: Sequence[int | None] = (None,),
) -> list[Point]:
    """What a search finds for a small network, batch 1."""
    opened = Workers.local(1) if jobs == 1 else Workers(lambda: ThreadPoolExecutor(jobs), 2 * jobs)
    with opened as workers:
        sweep = Sweep([Fixed(networks.network(3))], Conditions(), [Kept(folder, "n")], workers, aim)
        return search(sweep, configs, 1, Search(most, sampler, 1, folder, again), speeds)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_search_of_all_points_finds_the_sweeps_answer(tmp_path: Path, sampler: str) -> None:
    """The answer of a search would be another one even where it had seen all."""
    few = CONFIGS[::9]
    points, _ = explored([networks.network(3)], few, 1, ALONE)
    assert ALONE.best(searched(tmp_path, few, 10 * len(few), sampler=sampler)) == ALONE.best(points)


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    """Nobody could repeat an answer on another machine."""
    one, three = (searched(tmp_path / str(jobs), CONFIGS, 24, jobs=jobs) for jobs in (1, 3))
    assert one == three
    assert len(one) == 24


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    """A search that was interrupted would begin anew, or propose the same points again. A line may be broken."""
    first = searched(tmp_path, CONFIGS, 12)
    (journal,) = (tmp_path / FOLDER).glob("*.journal")
    with journal.open("a") as file:
        file.write('\n{"op_code": 4, "wor')
    said = journal.read_text()
    whole = searched(tmp_path, CONFIGS, 30)
    assert set(map(repr, first)) < set(map(repr, whole))
    assert len(whole) == 30
    assert journal.read_text().startswith(said)
    assert searched(tmp_path, CONFIGS, 30) == whole


def test_it_begins_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    """A search with `--again` would be led by what an earlier one was told."""
    first = searched(tmp_path / "a", CONFIGS, 24)
    searched(tmp_path / "b", CONFIGS[:9], 9)
    searched(tmp_path / "b", CONFIGS, 40)
    assert searched(tmp_path / "b", CONFIGS, 24, again=True) == first
    assert len(searched(tmp_path / "b", CONFIGS, 30)) == 30


def test_speeds_of_the_ddr_are_searched_too(tmp_path: Path) -> None:
    """A search would be for one DDR alone, and a user ask once for each."""
    speeds, few = (300, 1200), CONFIGS[::11]
    aim = Aim("alone", axes=("dsp", "bandwidth"))
    assert len(Space(few, (1,), speeds)) == 2 * len(few)
    found = searched(tmp_path, few, 10 * len(few), aim, speeds=speeds)
    assert {point.asked for point in aim.best(found)} == set(speeds)
    with Workers.local(1) as workers:
        sweep = Sweep([Fixed(networks.network(3))], Conditions(), [Kept(None, "n")], workers, aim)
        points, _ = explore(sweep, few, 1, speeds)
    assert aim.best(found) == aim.best(points)


def test_values_that_are_no_point_lead_to_the_nearest() -> None:
    """Most of what is proposed would be lost, since few combinations of arrays and memories fit."""
    space = Space(CONFIGS, (1, 2))
    assert len(space) == 2 * len(CONFIGS)
    for config in CONFIGS[::17]:
        assert space.nearest(space.values_of(Wanted(config, 2))) == Wanted(config, 2)
    one = CONFIGS[-1]
    values = space.values_of(Wanted(one, 1))
    other = next(words for words in space.values["bank_words"] if replace(one, bank_words=words).bank_words != one.bank_words)
    assert space.nearest({**values, "bank_words": other})[0] in CONFIGS


def test_a_point_that_misses_a_target_is_so_marked(tmp_path: Path) -> None:
    """The search would stay among small arrays that are too slow."""
    point = searched(tmp_path, CONFIGS[:1], 1)[0]
    assert missed(point, Aim("dsp", target_fps=2 * point.fps)) == pytest.approx(1)
    assert missed(point, Aim("dsp", target_ms=point.latency.slow * 250)) == pytest.approx(3)
    assert missed(point, Aim("dsp", target_fps=point.fps / 2)) == 0
    found = searched(tmp_path, CONFIGS, 24, Aim("dsp", target_fps=point.fps))
    assert any(missed(one, Aim(target_fps=point.fps)) == 0 for one in found)


def test_what_cannot_be_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user would see a traceback, or wait for nothing."""

    def missing(name: str) -> Any:
        raise ImportError(name)

    with pytest.raises(UserError, match="--sampler best: there is no such one; there are tpe, nsga2, random"):
        searched(tmp_path, CONFIGS, 1, sampler="best")
    with pytest.raises(UserError, match="--search 0: must be at least 1"):
        searched(tmp_path, CONFIGS, 0)
    for seed in (-1, 2**31):
        with Workers.local(1) as workers, pytest.raises(UserError, match=rf"--seed {seed}: must be within 0\.\.2147483647"):
            search(Sweep([], Conditions(), [], workers), CONFIGS, 1, Search(1, "tpe", seed, tmp_path))
    monkeypatch.setattr(module, "import_module", missing)
    with pytest.raises(ToolError, match=r"--search: the package optuna is missing: pip install '.\[explore\]'"):
        searched(tmp_path, CONFIGS, 1)
