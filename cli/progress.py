"""Progress on a terminal: one line that is written over, with the seconds so far and, where they are known, those left.

Elsewhere, and in the first PATIENCE_SECONDS, nothing is printed: a file of messages would fill with counted seconds. A command of
many minutes says there now and then what it is at (`Steps`).
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

PATIENCE_SECONDS = 2.0  # what takes less needs no line
PAINT_SECONDS = 0.5
QUIET_SECONDS = 20.0  # after which a line says that a command is at work, where there is no terminal
CLEAR = "\r\033[K"
Entered = TypeVar("Entered", bound="Steps")


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
        """As `count`, for steps that follow each other: each has its own pace. What differs in numbers alone is one step."""
        if kind_of(what) != kind_of(self._what) or done < self._done:
            self.say(what)
        self.count(done, total, what)

    def text(self, width: int = 1000) -> str:
        """The line, as of `line`."""
        return line(self._what, self._done, self._total, time.monotonic() - self.began, width)

    def paint(self) -> None:
        """Writes the line, if its time has come."""
        if self._shown and time.monotonic() - self._opened >= PATIENCE_SECONDS:
            self._painted = True
            print(f"{CLEAR}{self.text(shutil.get_terminal_size().columns - 1)}", end="", file=sys.stderr, flush=True)

    def _paint_now_and_then(self) -> None:
        while not self._over.wait(PAINT_SECONDS):
            self.paint()


class Steps:
    """A context that shows the steps of a command: on a terminal by `Progress`, elsewhere by a line to standard error whenever the
    command has printed nothing for so long.

    each: elsewhere, a line also says each step as it begins.
    """

    def __init__(self, what: str, quiet_seconds: float = QUIET_SECONDS, each: bool = False) -> None:
        self._progress, self._each, self._kind = Progress(what), each, ""
        self._quiet_seconds, self._printed = quiet_seconds, time.monotonic()
        self._over = threading.Event()
        self._watcher = None if sys.stderr.isatty() else threading.Thread(target=self._watch, daemon=True)

    def __enter__(self: Entered) -> Entered:
        self._progress.__enter__()
        if self._watcher is not None:
            self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()
        self._progress.__exit__(kind, value, trace)

    def step(self, done: int, total: int, what: str) -> None:
        """As of `Progress`."""
        self._progress.step(done, total, what)
        if self._each and self._watcher is not None and kind_of(what) != self._kind:
            self._kind = kind_of(what)
            self.line(f"cnna: {what}")

    def at_work(self) -> str:
        """The line that says that the command is at work."""
        return f"cnna: {self._progress.text()}"

    def line(self, text: str) -> None:
        """Prints a line of the command's own."""
        clear_line()
        print(text, file=sys.stderr, flush=True)
        self._printed = time.monotonic()

    def _watch(self) -> None:
        while not self._over.wait(max(self._printed + self._quiet_seconds - time.monotonic(), 0.0)):
            if time.monotonic() - self._printed >= self._quiet_seconds:
                self.line(self.at_work())


def kind_of(what: str) -> str:
    """A step without the files and seconds that it counts."""
    return "".join(letter for letter in what.partition(", about ")[0] if not letter.isdigit())


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
