"""What an operator sees of the last minutes: answers and failures by time, and the last things that went wrong."""

import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

KEPT_SECONDS = 600
KEPT_TROUBLES = 50
Log = Callable[..., None]  # level, event, and what else is known: model, version, board, cause
WHOM = ("board", "model", "version", "cause")


def silent(level: str, event: str, **more: Any) -> None:
    """A log that keeps nothing."""


@dataclass
class Second:
    """What happened in one second since 1970. samples: answered, by model. within: of them, those of steps of pipelines."""

    second: int
    samples: Counter[str] = field(default_factory=Counter)
    within: int = 0
    failed: int = 0
    refused: int = 0


class History:
    """Counts by second, and warnings and errors of the log. `note` stands in the place of the log that it is given.

    seconds: those in which something was counted, the oldest first.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.time) -> None:
        self._log, self._clock = log, clock
        self.seconds: deque[Second] = deque()
        self._troubles: dict[tuple[str, ...], dict[str, Any]] = {}

    def note(self, level: str, event: str, **more: Any) -> None:
        """Keeps what went wrong, and logs everything."""
        if level != "info":
            key = level, event, *(more.get(name, "") for name in WHOM)
            count = self._troubles.pop(key, {"count": 0})["count"] + 1
            self._troubles[key] = {"ts": round(self._clock(), 3), "level": level, "event": event, **more, "count": count}
            while len(self._troubles) > KEPT_TROUBLES:
                self._troubles.pop(next(iter(self._troubles)))
        with suppress(OSError, ValueError):  # a full disk, or a closed pipe, keeps nobody from an answer
            self._log(level, event, **more)

    @property
    def troubles(self) -> list[dict[str, Any]]:
        """What went wrong, the last first. The same thing with the same cause is there once, with its `count`."""
        return list(reversed(self._troubles.values()))

    def answered(self, model: str, samples: int, within: bool = False) -> None:
        """Counts a request that was answered. within: it is a step of another one."""
        now = self._now()
        now.samples[model] += samples
        now.within += samples if within else 0

    def failed(self) -> None:
        """Counts a request that failed."""
        self._now().failed += 1

    def refused(self) -> None:
        """Counts a request that found the queue full."""
        self._now().refused += 1

    def rate(self, model: str, seconds: int = 10) -> float:
        """Samples a second that were answered in the last whole seconds."""
        now = int(self._clock())
        return sum(one.samples[model] for one in self.seconds if now - seconds <= one.second < now) / seconds

    def series(self, step: int = 5, count: int = 60) -> list[dict[str, Any]]:
        """The last `count` steps of so many seconds, the oldest first, and the one that is not over yet last."""
        last = int(self._clock()) // step + 1
        rows = [{"ts": (last - count + place) * step, "samples": 0, "failed": 0, "refused": 0} for place in range(count)]
        for one in self.seconds:
            place = one.second // step - last + count
            if 0 <= place < count:
                rows[place]["samples"] += sum(one.samples.values()) - one.within
                rows[place]["failed"] += one.failed
                rows[place]["refused"] += one.refused
        return rows

    def _now(self) -> Second:
        now = int(self._clock())
        if not self.seconds or self.seconds[-1].second != now:
            self.seconds.append(Second(now))
            while self.seconds[0].second < now - KEPT_SECONDS:
                self.seconds.popleft()
        return self.seconds[-1]
