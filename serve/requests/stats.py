"""What has been counted of a version since it was loaded. The fronts show it as /stats and /metrics."""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds, of a histogram


@dataclass
class Histogram:
    """How long things took: counts of each range of BOUNDS, the last of what took longer, and all seconds together."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Counts one. What takes just as long as a bound is within it."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def within(self) -> list[int]:
        """How many took no longer than each of BOUNDS, and last how many there are."""
        return list(accumulate(self.counts))


@dataclass
class Stats:
    """Requests by outcome, and seconds that add up over requests or batches. batch_sizes: batches by their samples.

    waits, runs, totals: of the requests that were answered, from admission to the first batch, in batches, and to the answer.
    scale_seconds: that their pictures took before admission. decode_seconds: that boxes took, of `runs`; the one of batches: of
    `batch_seconds`.
    """

    succeeded: int = 0
    failed: Counter[str] = field(default_factory=Counter)  # by cause
    fallbacks: Counter[str] = field(default_factory=Counter)  # those of `succeeded` that a fallback answered, by its name
    samples: int = 0  # that were answered
    batches: int = 0
    retries: int = 0
    waits: Histogram = field(default_factory=Histogram)
    runs: Histogram = field(default_factory=Histogram)  # those in a batch of eight count it eight times
    totals: Histogram = field(default_factory=Histogram)
    failed_seconds: float = 0.0
    scale_seconds: float = 0.0
    decode_seconds: float = 0.0
    batch_seconds: float = 0.0  # of batches
    batch_decode_seconds: float = 0.0
    clocks: int = 0  # predicted
    last: float = 0.0  # when a request was answered last, in seconds since 1970
    batch_sizes: Counter[int] = field(default_factory=Counter)
    batch_size_seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))  # the same, their seconds
    batch_size_decode_seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def ran(self, samples: int, seconds: float, clocks: int, decode_seconds: float = 0.0) -> None:
        """Counts a batch."""
        self.batches += 1
        self.batch_sizes[samples] += 1
        self.batch_size_seconds[samples] += seconds
        self.batch_size_decode_seconds[samples] += decode_seconds
        self.batch_seconds += seconds
        self.batch_decode_seconds += decode_seconds
        self.clocks += clocks
