"""Clients that ask an engine one request after another, and check every answer. The soaks share them.

Nothing here expects a speed: a computer that is shared may be slow. What must hold is bounded by deadlines.
"""

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve import Engine
from cnna.spec.errors import BusyError

CLIENTS = 8
DEADLINE_SECONDS = 600.0  # of requests, and of whatever a test waits for: on overloaded cores a worker starts in half a minute
SETTINGS = f"deadline_ms: {DEADLINE_SECONDS * 1e3:.0f}\nretries: 100\n"  # the deadline ends a request: a busy computer is no fault
Images = NDArray[np.float32]


class Load:
    """Clients, and what they saw. answers: what a version must say of the images. `refused`: 503s; each is asked again."""

    def __init__(self, engine: Engine, images: Images, answers: Callable[[str], Images]) -> None:
        self.engine, self.images, self.answers = engine, images, answers
        self.versions: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.wrong: list[Any] = []
        self.slowest = 0.0  # seconds to an answer
        self._stop = threading.Event()

    def _ask(self, number: int) -> None:
        """One client. It asks at least once."""
        for turn in itertools.count(number):
            first, count, began = turn % 20, turn % 3 + 1, time.monotonic()
            try:
                result = self.engine.infer("digits", {"image": self.images[first : first + count]})
                self.versions[result.version] += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
                if not np.array_equal(result.outputs["logits"], self.answers(result.version)[first : first + count]):
                    self.wrong.append((result.version, first, count))
            except BusyError as error:
                self.refused[str(error)] += 1
                time.sleep(0.01)
            except Exception as error:
                self.wrong.append(error)
                return
            if self._stop.is_set():
                return

    @contextmanager
    def running(self, clients: int = CLIENTS) -> Iterator[None]:
        """The clients ask until the end of the block; then each has its last answer."""
        threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition, at most as long as a request may take."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {DEADLINE_SECONDS:g} s"
        time.sleep(0.02)


def resident(pid: int | str = "self") -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
