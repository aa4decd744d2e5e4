"""Work that is shared by processes: none is lost when one of them is killed, and all is done once."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from cnna.compiler.explore.workers import Processes, Workers
from cnna.spec.errors import ToolError
from cnna.spec.garbage import SELDOM


def doubled(folder: Path, number: int) -> int:
    """Work whose process is killed in the middle of number 3, the first time."""
    mark = folder / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def deadly(number: int) -> int:
    """Work that no process survives."""
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def threshold(number: int) -> int:
    """New objects after which a search for garbage begins in the process that does the work."""
    return gc.get_threshold()[0]


class Kind(NamedTuple):
    """Work for a process that has done its like. mark: the file for which it waits."""

    near: str
    mark: Path


def done_by(kind: Kind) -> int:
    """The process that does the work."""
    while not kind.mark.exists():
        time.sleep(0.01)
    return os.getpid()


def test_a_process_gets_what_is_like_its_last_work(tmp_path: Path) -> None:
    """It has kept kernels and tiles of this array, which the other one would find anew."""
    one, other = Kind("one", tmp_path / "mark"), Kind("other", tmp_path / "mark")
    with Processes(2) as processes:
        under_way = [processes.submit(done_by, kind) for kind in (one, other)]
        one.mark.touch()
        first, second = (future.result() for future in under_way)
        assert first != second
        for kind, process in ((other, second), (one, first), (one, first), (other, second)):
            assert processes.submit(done_by, kind).result() == process


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_item_is_done_once(tmp_path: Path, jobs: int) -> None:
    """A point would be missing, or come twice."""
    (tmp_path / "killed").touch()
    results: list[tuple[int, int]] = []
    with Workers.local(jobs) as workers:
        workers.run(partial(doubled, tmp_path), range(12), lambda item, result: results.append((item, result)))
    assert sorted(results) == [(number, 2 * number) for number in range(12)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_garbage_is_searched_for_seldom(jobs: int) -> None:
    """A search walks through all that is known of plans and stretches, and finds nothing."""
    before, found = gc.get_threshold(), dict[int, int]()
    with Workers.local(jobs) as workers:
        workers.run(threshold, range(3), found.__setitem__)
    assert set(found.values()) == {SELDOM}
    assert gc.get_threshold() == before


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """The sweep would end with an error, or without the points of the process that a machine short of memory killed."""
    results: list[tuple[int, int]] = []
    with Workers.local(2) as workers:
        workers.run(partial(doubled, tmp_path), range(12), lambda item, result: results.append((item, result)))
    assert (tmp_path / "killed").exists()
    assert sorted(results) == [(number, 2 * number) for number in range(12)]


def test_work_that_kills_every_worker_ends_in_one_line() -> None:
    """The command would open processes without end."""
    with pytest.raises(ToolError, match="fewer --jobs need less"), Workers.local(2) as workers:
        workers.run(deadly, range(2), lambda item, result: None)


def test_items_are_asked_for_late(tmp_path: Path) -> None:
    """What a result makes needless would be under way already."""
    (tmp_path / "killed").touch()
    known: list[int] = []
    asked: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            asked.append(len(known))
            yield number

    with Workers.local(1) as workers:
        workers.run(partial(doubled, tmp_path), items(), lambda item, result: known.append(item))
    assert asked == [0, 1, 2, 3, 4]


def test_few_items_wait_for_a_process(tmp_path: Path) -> None:
    """With many processes, as many points would be compiled that the first results rule out."""
    (tmp_path / "killed").touch()
    known: list[int] = []
    ahead: list[int] = []

    def items() -> Iterator[int]:
        for number in range(12):
            ahead.append(number - len(known))
            yield number

    with Workers.local(4) as workers:
        workers.run(partial(doubled, tmp_path), items(), lambda item, result: known.append(item))
    assert max(ahead) == 3  # and the one that is asked for


def limited(soft: int, hard: int) -> "subprocess.CompletedProcess[str]":
    """Three pieces of work for up to 1,000 processes, where a process may open so many files."""
    script = f"""import operator, resource
from cnna.compiler.explore.workers import Workers
from cnna.spec.errors import ToolError
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
try:
    with Workers.local(1000) as workers:
        workers.run(operator.neg, range(3), lambda item, result: print(item, result))
except ToolError as error:
    print(error)
"""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


def test_many_processes_may_open_their_files() -> None:
    """A process needs eight open files, and 1,024 are usual: a machine of 128 cores could not explore without --jobs."""
    assert sorted(limited(64, 1024).stdout.splitlines()) == ["0 0", "1 -1", "2 -2"]


def test_too_many_processes_end_in_one_line() -> None:
    """It would be an internal error, or a hang."""
    found = limited(24, 24)
    assert not found.stderr
    assert "worker processes" in found.stdout.splitlines()[-1]
    assert "fewer --jobs need less" in found.stdout.splitlines()[-1]
