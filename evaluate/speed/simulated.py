"""When a simulated device answers: batches one after another, whose times are known beforehand. It knows no clock."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple


@dataclass(frozen=True)
class Service:
    """How long the device takes. period_ns: from the start of a batch to that of the next. latency_ns: to its own answers.

    batch: samples; one that is not full takes as long.
    """

    period_ns: int
    latency_ns: int
    batch: int

    @property
    def samples_per_second(self) -> float:
        """What a stream of full batches reaches."""
        return self.batch * 1e9 / self.period_ns

    def query_ns(self, samples: int) -> int:
        """From a query of so many samples to its last answer, where nothing else is asked."""
        return (-(-samples // self.batch) - 1) * self.period_ns + self.latency_ns


class Answered(NamedTuple):
    """A batch. at_ns: when its answers are there. numbers: of its samples, as they were given."""

    at_ns: int
    numbers: list[int]


class Simulated:
    """Samples wait in order; an idle device takes those that wait, as many as a batch holds, at once."""

    def __init__(self, service: Service) -> None:
        self._service, self._waiting, self._free_ns = service, deque[tuple[int, int]](), 0

    def take(self, now_ns: int, numbers: list[int]) -> None:
        """Samples arrive. Times never go back."""
        self._waiting.extend((now_ns, number) for number in numbers)

    def settle(self, now_ns: float = inf) -> Iterator[Answered]:
        """The batches that have begun by now, each once: samples that come later cannot change them."""
        while self._waiting and (start := max(self._free_ns, self._waiting[0][0])) <= now_ns:
            batch: list[int] = []
            while self._waiting and self._waiting[0][0] <= start and len(batch) < self._service.batch:
                batch.append(self._waiting.popleft()[1])
            self._free_ns = start + self._service.period_ns
            yield Answered(start + self._service.latency_ns, batch)
