"""Points that differ in DDR or clock alone share a plan, and each is what it would be by itself."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.explore import Sweep, evaluate, explore
from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.kept import FOLDER, Kept, line_of, parsed, plan_key
from cnna.compiler.explore.planned import planned, read, written
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.explore.tasks import Conditions, Task, Wanted, worked
from cnna.compiler.explore.workers import Here, Workers
from cnna.compiler.placements import Pieces
from cnna.spec.boards import BOARDS, ddr_of
from cnna.spec.config import Config, preset
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.errors import UserError

from ... import networks
from .points import Fixed, Unbound

GRAPH = networks.network(3)
CONFIGS = configurations(Budget(250, 100), BOARDS["ultra96"], clocks=(125, 250))[-12:]
ARRAYS = {plan_key(config, 1, True) for config in CONFIGS}


def swept(configs: Sequence[Config], speeds: Sequence[int | None], folder: Path | None = None) -> Sweep:
    """A sweep of all points."""
    with Workers.local(1) as workers:
        sweep = Sweep([Fixed(GRAPH)], Conditions(), [Kept(folder, "n")], workers, Unbound())
        explore(sweep, configs, 1, speeds)
    return sweep


def alone(point: Point) -> Point:
    """It by itself, with a plan of its own."""
    return replace(evaluate([GRAPH], point.config, point.batch, point.memory), asked=point.asked)


def test_a_plan_serves_every_clock_and_every_ddr() -> None:
    """Each speed of the DDR would cost a compile of minutes, or be predicted as another one."""
    sweep = swept(CONFIGS, (750, 1500, 3000))
    assert len(ARRAYS) == len(CONFIGS) / 2 > 1
    assert (sweep.compiled, sweep.plans) == (6 * len(ARRAYS), len(ARRAYS))
    assert len({point.cycles for point in sweep.points}) > 2
    for point in sweep.points:
        assert repr(point) == repr(alone(point))
        assert point.memory == DdrSpeed(point.bandwidth // point.config.clock_mhz, ddr_of(point.config).latency_cycles)


def test_no_program_depends_on_what_is_left_out() -> None:
    """The points of a plan would be of programs that the compiler never writes for them."""
    for batch in (1, 2):
        slow, own = (compile_graph(GRAPH, config, batch) for config in CONFIGS[-2:])
        assert slow.config.clock_mhz != own.config.clock_mhz
        assert (slow.program, slow.constants) == (own.program, own.constants)
    there, here = (replace(preset("tiny"), name=f"{board}-array", clock_mhz=100) for board in ("zcu102", "kv260"))
    assert compile_graph(GRAPH, there).program == compile_graph(GRAPH, here).program
    assert plan_key(there, 1, True) == plan_key(here, 1, True)


def test_another_command_takes_the_plans_that_are_kept(tmp_path: Path) -> None:
    """A question about a second DDR would take as long as the first. A file that is damaged costs a compile."""
    first = swept(CONFIGS[:4], (None,), tmp_path)
    assert first.plans == 2
    second = swept(CONFIGS[:4], (1500,), tmp_path)
    assert (second.compiled, second.plans) == (4, 0)
    assert list(map(repr, second.points)) == [repr(alone(point)) for point in second.points]
    (file,) = (tmp_path / FOLDER).glob("*.plans")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:-9], *lines[2:], '["half a l']))
    third = swept(CONFIGS[:4], (2000,), tmp_path)
    assert (third.compiled, third.plans) == (4, 1)
    assert list(map(repr, third.points)) == [repr(alone(point)) for point in third.points]
    assert swept(CONFIGS[:4], (3000,), tmp_path).plans == 0


@pytest.mark.parametrize(("kind", "count", "compiled"), [("jsonl", '"cycles": ', 1), ("plans", '"clocks": [[[', 0)])
def test_a_digit_that_flips_in_the_cache_is_not_believed(tmp_path: Path, kind: str, count: str, compiled: int) -> None:
    """A disk's fault that is still JSON would be shown as a prediction."""
    first = swept(CONFIGS[:2], (None,), tmp_path)
    (file,) = (tmp_path / FOLDER).glob(f"*.{kind}")
    before, after = file.read_text().split(count, 1)
    file.write_text(f"{before}{count}{int(after[0]) % 9 + 1}{after[1:]}")
    again = swept(CONFIGS[:2], (None,), tmp_path)
    assert again.compiled == compiled
    assert sorted(map(repr, again.points)) == sorted(map(repr, first.points))
    assert swept(CONFIGS[:2], (1500,), tmp_path).plans == 1 - compiled, "a plan that is damaged is planned again, and kept"
    assert swept(CONFIGS[:2], (3000,), tmp_path).plans == 0


@pytest.mark.parametrize("kind", ["jsonl", "plans"])
def test_a_cache_that_cannot_be_read_is_one_line(tmp_path: Path, kind: str) -> None:
    """A user would see an internal error, and not which folder to give up."""
    swept(CONFIGS[:1], (None,), tmp_path)
    (file,) = (tmp_path / FOLDER).glob(f"*.{kind}")
    file.unlink()
    file.mkdir()
    with pytest.raises(UserError, match=rf"{file.name}: Is a directory; --cache names another folder"):
        Kept(tmp_path, "n")


def test_a_plan_that_does_not_fit_loses_no_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, minutes of work would be lost with a plan that is long."""

    def full(self: Kept, name: str, plan: object) -> None:
        raise UserError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Kept, "put_plan", full)
        with pytest.raises(UserError, match="no space"):
            swept(CONFIGS[:2], (None,), tmp_path)
    assert len(Kept(tmp_path, "n")) == 2, "both clocks of the first plan"


@pytest.mark.parametrize("damage", [None, 0, -1, 1.5, "1"], ids=repr)
def test_a_prediction_of_no_clocks_is_made_anew(tmp_path: Path, damage: object) -> None:
    """A file that is damaged would end in an internal error, or in images without end a second."""
    (point,) = swept(CONFIGS[:1], (None,), tmp_path).points
    (file,) = (tmp_path / FOLDER).glob("*.jsonl")
    lines = [parsed(line) for line in file.read_bytes().split(b"\n") if line]
    for _, entry in lines:
        entry["cycles"] = damage
    file.write_bytes(b"\n".join(map(line_of, lines)))
    (again,) = swept(CONFIGS[:1], (None,), tmp_path).points
    assert repr(again) == repr(point)


def test_workers_make_no_plan_twice() -> None:
    """The slowest DDR is tried first for all arrays. With few of these, a second worker would plan what the first one plans."""
    with Workers(lambda: ThreadPoolExecutor(2), 4) as workers:
        sweep = Sweep([Fixed(GRAPH)], Conditions(), [Kept(None, "n")], workers, Unbound("bandwidth", target_fps=1))
        explore(sweep, CONFIGS[:4], 1, (750, 1500, 3000))
    assert (sweep.compiled, sweep.plans) == (12, 2)
    assert sorted(map(repr, sweep.points)) == sorted(map(repr, swept(CONFIGS[:4], (750, 1500, 3000)).points))


def test_workers_plan_other_kernels() -> None:
    """Two workers would find the same kernels and tiles, where one that has planned for a ring has what the next ring needs."""
    tasks: list[Task] = []

    class Noted(Here):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            tasks.extend(arg for arg in args if isinstance(arg, Task))
            return super().submit(fn, *args, **kwargs)

    greatest = configurations(Budget(250, 100), BOARDS["ultra96"])[-8:]
    with Workers(Noted, 2) as workers:
        explore(Sweep([Fixed(GRAPH)], Conditions(), [Kept(None, "n")], workers, Unbound()), greatest, 1)
    alike = [one.near == other.near for one, other in pairwise(tasks)]
    together = alike[::2]  # two tasks are under way at a time
    assert len(together) == 4
    assert not any(together)
    assert len({task.near for task in tasks}) < len(tasks)


@pytest.mark.parametrize("memory", [None, PLANNED, DdrSpeed(4, 300)], ids=str)
def test_a_plan_is_read_as_it_was_written(memory: DdrSpeed | None) -> None:
    """What is kept would be predicted as another program."""
    plan = planned([GRAPH], CONFIGS[0], 2, memory)
    assert read(written(plan)) == plan
    assert plan.with_memory(CONFIGS[0], memory) == plan.part


class ByClock:
    """A network that the CPU does in part where the clock is low."""

    def pieces(self, config: Config) -> Pieces:
        """As of `Placements`."""
        return (GRAPH,) if config.clock_mhz > 200 else (GRAPH, networks.network(4))


def test_another_cut_is_another_plan() -> None:
    """At a clock at which more is left to the CPU, the point would be of the pieces of another one."""
    slow, own = CONFIGS[-2:]
    done = worked([ByClock()], Conditions(), Task(0, (Wanted(slow, 1), Wanted(own, 1))))
    assert done.plans == 2
    assert done.found == tuple(planned(ByClock().pieces(config), config, 1).part for config in (slow, own))
    again = worked([ByClock()], Conditions(), Task(0, (Wanted(own, 1), Wanted(slow, 1)), done.plan))
    assert again.plans == 1
    assert again.found == done.found[::-1]
