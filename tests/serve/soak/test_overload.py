"""Twice as many requests as a board can answer: each is answered or refused, and nothing grows."""

import gc
import itertools
import threading
import time
from collections import Counter
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.models.repository import open_repository
from cnna.spec.errors import BusyError

from .load import DEADLINE_SECONDS, Images, resident, until

pytestmark = pytest.mark.soak
MOST_SECONDS = 60.0  # until what was accepted is answered
RATE = 100.0  # images a second that the board answers
QUEUE = 16


class Arrivals:
    """Requests that come whether the others have been answered or not, and what became of them."""

    def __init__(self, engine: Engine, images: Images, answers: Images) -> None:
        self.engine, self.images, self.answers = engine, images, answers
        self.sent = 0
        self.ended: Counter[str] = Counter()
        self.wrong: list[Any] = []
        self.slowest = 0.0
        self._counting = threading.Lock()

    def come(self, rate: float, seconds: float) -> None:
        """One request after another, so many a second. Those for which this thread was late come at once."""
        began = time.monotonic()
        for number in itertools.count():
            due = number / rate
            if due >= seconds:
                return
            time.sleep(max(0.0, began + due - time.monotonic()))
            one = self.sent % len(self.images)
            self.sent += 1
            future = self.engine.submit("digits", {"image": self.images[one : one + 1]})
            future.add_done_callback(partial(self._end, one, time.monotonic()))

    def _end(self, one: int, sent: float, future: "Future[Any]") -> None:
        error, seconds = future.exception(), time.monotonic() - sent
        with self._counting:
            if error is None:
                self.ended["answered"] += 1
                self.slowest = max(self.slowest, seconds)
                if not np.array_equal(future.result().outputs["logits"], self.answers[one : one + 1]):
                    self.wrong.append(one)
            elif isinstance(error, BusyError) and error.full and f"its queue of {QUEUE} samples is full" in str(error):
                self.ended["refused"] += 1
            else:
                self.wrong.append(error)


def test_twice_the_capacity(repository: Path, images: Images, answers: Images, soak_seconds: float) -> None:
    """Queues and memory would grow with the load, until every answer came too late."""
    (repository / "digits" / "model.yaml").write_text(f"deadline_ms: {MOST_SECONDS * 1e3:.0f}\nqueue: {QUEUE}\n")
    largest = open_repository(repository).version("digits", "1").compiled["tiny"][-1]
    mhz = largest.clocks * RATE / largest.batch / 1e6
    with Engine(repository, [f"a=paced,mhz={mhz:.6f}"], Limits(hang_seconds=DEADLINE_SECONDS)) as engine:
        load = Arrivals(engine, images, answers)
        load.come(2 * RATE, soak_seconds / 3)
        gc.collect()
        before = resident()
        load.come(2 * RATE, 2 * soak_seconds / 3)
        until(lambda: load.ended.total() + len(load.wrong) >= load.sent, "every request ends")
        gc.collect()
        grown = resident() - before
    assert not load.wrong
    assert load.ended.total() == load.sent
    assert load.ended["refused"]
    assert load.slowest < MOST_SECONDS + 1
    assert grown < 20 << 20
    print(f"{load.sent} requests: {dict(load.ended)}, the slowest answer after {load.slowest:.2f} s, {grown / 1e6:+.1f} MB")
