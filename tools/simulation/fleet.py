"""A fleet of boards on paper: what is simulated, and its figures before any request has come. `fleet_events` plays it.

A front takes a request, which costs its core some time, and sends it to a board by a policy. The request waits on the board's link,
then in the board's queue for a batch of its model. Nothing here is measured: seconds are what the caller gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POLICIES = ("random", "round", "least", "two", "racks", "ideal", "central")
HANG, REFUSE = "hang", "refuse"


@dataclass(frozen=True)
class Network:
    """A model in the mix. share: of the requests. seconds[n-1]: that a batch of n samples takes a board."""

    name: str
    share: float
    seconds: tuple[float, ...]

    @property
    def most(self) -> int:
        """Samples of the largest batch."""
        return len(self.seconds)


@dataclass(frozen=True)
class Failure:
    """A board that fails at `at` s and stays away. hang: it answers nothing; refuse: it answers at once with an error.

    Health checks find it `detection` s later; what it holds then goes to other boards.
    """

    board: int
    at: float
    kind: str = HANG
    detection: float = 1.0


@dataclass(frozen=True)
class Fleet:
    """What is simulated.

    fronts: processes with a core each. front_seconds: that a request takes one; 0: they cost nothing. link_seconds: what
    a request takes the link of a board. window: what a batch that is not full waits for more samples. placed: the boards of each
    model; empty: all boards. exponential: service times are drawn, to compare with theory. policy: how a front chooses a board:

    random, or round: one after another, each front for itself; least: the fewest open requests that this front has there; two: of
    two boards at random the one with fewer open requests of all fronts; racks: of two racks the one with fewer, and in it the board
    with the fewest; ideal: the fewest of all fronts; central: none, since boards take from one queue.
    """

    rate: float
    boards: int
    mix: tuple[Network, ...]
    policy: str = "two"
    fronts: int = 1
    front_seconds: float = 0.0
    link_seconds: float = 0.0
    window: float = 0.0
    racks: int = 1
    placed: tuple[tuple[int, ...], ...] = ()
    failures: tuple[Failure, ...] = ()
    exponential: bool = False

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy!r} is none of {', '.join(POLICIES)}")
        if self.placed and len(self.placed) != len(self.mix):
            raise ValueError(f"{len(self.placed)} places for {len(self.mix)} models")
        if self.placed and self.policy in ("racks", "central"):
            raise ValueError(f"policy {self.policy} is for boards that all have all models")
        if self.boards % self.racks:
            raise ValueError(f"{self.boards} boards do not fill {self.racks} racks evenly")

    @property
    def load(self) -> float:
        """The share of the boards' seconds that full batches take."""
        return self.rate / self.boards * sum(one.share * one.seconds[-1] / one.most for one in self.mix)

    @property
    def front_load(self) -> float:
        """The share of the fronts' seconds that requests take."""
        return self.rate * self.front_seconds / self.fronts


@dataclass(frozen=True)
class Seen:
    """What a run gave. Arrays have one entry for each request, in order of arrival.

    seconds: from arrival to answer. front, link, queue: what of it was waiting and work at the front, waiting and work on the link,
    and waiting for the batch to begin. retries: requests that were sent again; batches, samples: of the boards.
    """

    arrivals: NDArray[np.float64]
    seconds: NDArray[np.float64]
    front: NDArray[np.float64]
    link: NDArray[np.float64]
    queue: NDArray[np.float64]
    models: NDArray[np.int64]
    retries: int
    batches: int
    busy: float
    answered: int

    def percentiles(self, points: Sequence[float] = (50, 99, 99.9), skip: float = 0.2) -> list[float]:
        """Milliseconds from arrival to answer, without the first part of the run, in which queues fill."""
        first = int(len(self.seconds) * skip)
        return [float(value) * 1e3 for value in np.percentile(self.seconds[first:], points)]

    def mean_ms(self, part: str, skip: float = 0.2) -> float:
        """The mean of one of the arrays, in milliseconds."""
        values: NDArray[np.float64] = getattr(self, part)
        return float(values[int(len(values) * skip) :].mean()) * 1e3


def covers(alone: float, full: float, batch: int) -> tuple[float, ...]:
    """Seconds of batches of 1 to `batch` samples, where a model has artifacts for one and for `batch`: the cheapest cover."""
    return (*(min(count * alone, full) for count in range(1, batch)), full)


def fifo(arrivals: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
    """When a server has finished requests that arrive in this order and take it the same time each."""
    work = seconds * np.arange(1, len(arrivals) + 1)
    return np.maximum.accumulate(arrivals - work + seconds) + work
