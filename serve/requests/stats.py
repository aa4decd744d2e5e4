"""What has been counted of a version since it was loaded. The fronts show it as /stats and /metrics."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass
class Stats:
    """Requests by outcome, and seconds that add up over requests or batches. batch_sizes: batches by their samples."""

    succeeded: int = 0
    failed: Counter[str] = field(default_factory=Counter)  # by cause
    fallbacks: Counter[str] = field(default_factory=Counter)  # those of `succeeded` that a fallback answered, by its name
    samples: int = 0  # that were answered
    batches: int = 0
    retries: int = 0
    wait_seconds: float = 0.0
    run_seconds: float = 0.0  # of requests: those in a batch of eight count it eight times
    total_seconds: float = 0.0
    failed_seconds: float = 0.0
    batch_seconds: float = 0.0  # of batches
    clocks: int = 0  # predicted
    last: float = 0.0  # when a request was answered last, in seconds since 1970
    batch_sizes: Counter[int] = field(default_factory=Counter)
    batch_size_seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))  # the same, their seconds

    def ran(self, samples: int, seconds: float, clocks: int) -> None:
        """Counts a batch."""
        self.batches += 1
        self.batch_sizes[samples] += 1
        self.batch_size_seconds[samples] += seconds
        self.batch_seconds += seconds
        self.clocks += clocks
