"""Soaks: workers are killed and stopped under load, versions switch; no request is lost, and every answer is right.

The long forms are those of docs/serving.md; the short ones run the same code.
"""

import itertools
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.serve import Engine
from cnna.serve.engine.board import Limits
from cnna.spec.errors import BusyError

pytestmark = pytest.mark.slow
CLIENTS = 8
Images = NDArray[np.float32]


class Load:
    """Clients that ask one after another, and what they saw. `refused`: 503s, each of which is asked again."""

    def __init__(self, engine: Engine, images: Images, answers: Images) -> None:
        self.engine, self.images, self.answers = engine, images, answers
        self.versions: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.wrong: list[Any] = []
        self.slowest = 0.0
        self._stop = threading.Event()

    def _ask(self, number: int) -> None:
        for turn in itertools.count(number):
            if self._stop.is_set():
                return
            first, count = turn % 20, turn % 3 + 1
            began = time.monotonic()
            try:
                result = self.engine.infer("digits", {"image": self.images[first : first + count]})
            except BusyError as error:
                self.refused[str(error)] += 1
                time.sleep(0.01)
                continue
            except Exception as error:
                self.wrong.append(error)
                return
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.versions[result.version] += 1
            if not np.array_equal(result.outputs["logits"], self.answers[first : first + count]):
                self.wrong.append((result.version, first, count))

    @contextmanager
    def running(self, clients: int) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


def workers(engine: Engine) -> list[int]:
    """The processes of the boards that have one."""
    return [board.pid for board in engine.core.boards if board.state == "ready" and board.pid is not None]


@pytest.mark.parametrize("seconds", [30, 300])
@pytest.mark.parametrize("kind", ["emulator", "paced"])
def test_workers_are_killed_and_boards_hang(published: Path, images: Images, answers: Images, kind: str, seconds: int) -> None:
    """A request would be lost with its board, or answered twice, or with another one's answer."""
    limits = Limits(hang_seconds=1.0, pause_seconds=(0.2, 5.0))
    with Engine(published, [f"a={kind}", f"b={kind}"], limits) as engine:
        load, done = Load(engine, images, answers), Counter[str]()
        with load.running(CLIENTS):
            end = time.monotonic() + seconds
            for turn in itertools.count():
                time.sleep(2.5)
                if time.monotonic() > end:
                    break
                if alive := workers(engine):
                    sent = (signal.SIGKILL, signal.SIGSTOP)[turn % 2]
                    os.kill(alive[turn // 2 % len(alive)], sent)
                    done[sent.name] += 1
        resets = sum(board.resets for board in engine.core.boards)
    assert not load.wrong
    assert not load.refused
    assert load.versions.total() > seconds
    assert resets >= max(done.values()) - 2  # a board that is stopped and then killed fails once
    assert min(done["SIGKILL"], done["SIGSTOP"]) >= 2


@pytest.mark.parametrize("seconds", [30])
def test_versions_switch_under_load(repository: Path, images: Images, answers: Images, seconds: int) -> None:
    """A request would be lost in the gap between two versions."""
    with Engine(repository, ["a=paced", "b=paced"], Limits(hang_seconds=30.0)) as engine:
        load, names = Load(engine, images, answers), itertools.count(2)
        with load.running(CLIENTS):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                name = str(next(names))
                hidden = repository / "digits" / f".{name}"
                shutil.copytree(repository / "digits" / "1", hidden)
                hidden.rename(repository / "digits" / name)
                engine.load("digits")
    assert not load.wrong
    assert not load.refused
    assert len(load.versions) > 3


@pytest.mark.parametrize("seconds", [30, 600])
def test_twice_the_capacity(repository: Path, images: Images, answers: Images, seconds: int) -> None:
    """Queues and memory would grow with the load, until every answer came too late."""
    (repository / "digits" / "model.yaml").write_text("queue: 16\n")
    with Engine(repository, ["a=paced,slow=4"], Limits(hang_seconds=30.0)) as engine:
        load = Load(engine, images, answers)
        with load.running(4 * CLIENTS):
            time.sleep(seconds / 3)
            before = resident()
            time.sleep(2 * seconds / 3)
            grown = resident() - before
    assert not load.wrong
    assert load.refused
    assert all("its queue of 16 samples is full" in line for line in load.refused)
    assert load.slowest < 10
    assert grown < 20 << 20


def resident() -> int:
    """Bytes of this process, which is the front."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
