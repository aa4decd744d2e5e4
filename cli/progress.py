"""Progress on a terminal: one line that is written over, with the seconds so far and, where they are known, those left.

Elsewhere, and in the first PATIENCE_SECONDS, nothing is printed: a file of messages would fill with counted seconds. A command of
many minutes says there now and then that it is at work (`Alive`).
"""

import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

PATIENCE_SECONDS = 2.0  # what takes less needs no line
PAINT_SECONDS = 0.5
CLEAR = "\r\033[K"
Entered = TypeVar("Entered", bound="Alive")


class Progress:
    """A context in which a line says what is being done. Only one may be open at a time. began: when the present step did."""

    def __init__(self, what: str) -> None:
        self._what, self._done, self._total = what, 0, 0
        self.began = self._opened = time.monotonic()
        self._painted, self._over = False, threading.Event()
        self._shown = sys.stderr.isatty()
        self._painter: threading.Thread | None = None

    def __enter__(self) -> "Progress":
        if self._shown:
            self._painter = threading.Thread(target=self._paint_now_and_then, daemon=True)
            self._painter.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._painter is not None:
            self._painter.join()
        if self._painted:
            print(CLEAR, end="", file=sys.stderr, flush=True)

    def say(self, what: str) -> None:
        """Begins another step; an empty one stands for what follows the last."""
        self._what, self._done, self._total, self.began = what or self._what, 0, 0, time.monotonic()

    def count(self, done: int, total: int, what: str = "") -> None:
        """Says how far the step is, and what it is doing now."""
        self._what, self._done, self._total = what or self._what, done, total

    def step(self, done: int, total: int, what: str) -> None:
        """As `count`, for steps that follow each other: each has its own pace."""
        if what != self._what or done < self._done:
            self.say(what)
        self.count(done, total)

    def paint(self) -> None:
        """Writes the line, if its time has come."""
        now = time.monotonic()
        if self._shown and now - self._opened >= PATIENCE_SECONDS:
            width = shutil.get_terminal_size().columns - 1
            self._painted = True
            text = line(self._what, self._done, self._total, now - self.began, width)
            print(f"{CLEAR}{text}", end="", file=sys.stderr, flush=True)

    def _paint_now_and_then(self) -> None:
        while not self._over.wait(PAINT_SECONDS):
            self.paint()


class Alive(ABC):
    """A context in which a line to standard error says that a command is at work, whenever it has printed nothing for so long.

    Only where there is no terminal, which shows `Progress`. A command says in `at_work` what the line is.
    """

    def __init__(self, quiet_seconds: float) -> None:
        self._quiet_seconds, self._printed = quiet_seconds, time.monotonic()
        self._over = threading.Event()
        self._watcher = None if sys.stderr.isatty() else threading.Thread(target=self._watch, daemon=True)

    def __enter__(self: Entered) -> Entered:
        if self._watcher is not None:
            self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()

    @abstractmethod
    def at_work(self) -> str:
        """The line."""

    def line(self, text: str) -> None:
        """Prints a line of the command's own."""
        clear_line()
        print(text, file=sys.stderr, flush=True)
        self._printed = time.monotonic()

    def _watch(self) -> None:
        while not self._over.wait(max(self._printed + self._quiet_seconds - time.monotonic(), 0.0)):
            if time.monotonic() - self._printed >= self._quiet_seconds:
                self.line(self.at_work())


def line(what: str, done: int, total: int, seconds: float, width: int = 1000) -> str:
    """`compiling: 3 of 10, 12 s, about 28 s left`: what is left at the pace so far. A long `what` is shortened to `width`."""
    parts = ([f"{done:,} of {total:,}"] if total else []) + [f"{seconds:.0f} s"]
    if 0 < done < total:
        parts.append(f"about {seconds * (total - done) / done:.0f} s left")
    known = f": {', '.join(parts)}"
    room = max(width - len(known), 0)
    return (what if len(what) <= room else what[: max(room - 3, 0)].rstrip() + "...") + known


def clear_line() -> None:
    """Removes the line that a counter has left because the work has failed, so that the error does not stand behind it."""
    if sys.stderr.isatty():
        print(CLEAR, end="", file=sys.stderr, flush=True)


def counter(what: str) -> Callable[[int, int], None] | None:
    """A printer of how many samples are done, for a terminal only; the last call removes the line."""
    if not sys.stderr.isatty():
        return None
    progress, painted = Progress(what), -PAINT_SECONDS

    def show(done: int, total: int) -> None:
        nonlocal painted
        progress.count(done, total)
        if done == total:
            progress.__exit__(None, None, None)
        elif time.monotonic() - painted >= PAINT_SECONDS:
            painted = time.monotonic()
            progress.paint()

    return show
