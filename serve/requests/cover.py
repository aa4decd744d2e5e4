"""The batcher's arithmetic: which compiled batches answer so many samples in the fewest predicted seconds.

A part batch costs as much as a full one, so three samples may be quicker as 1 + 1 + 1 than in a batch of eight.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from cnna.serve.models.version import Compiled
from cnna.serve.requests.request import NextBatch

Costs = tuple[tuple[int, float], ...]  # batch, seconds; in ascending order of the batch
EXACT = 4  # times the largest batch: what is beyond goes into the batches that are cheapest for a sample


def cover(samples: int, costs: Costs) -> list[int]:
    """Batches, the largest first, that hold the samples and together take the fewest seconds."""
    largest = costs[-1][0]
    best = min(costs, key=lambda cost: (cost[1] / cost[0], -cost[0]))[0]
    many = max(0, samples - EXACT * largest) // best
    return sorted([best] * many + list(_exact(samples - many * best, costs)), reverse=True)


@lru_cache(maxsize=4096)
def _exact(samples: int, costs: Costs) -> tuple[int, ...]:
    """The cheapest cover of `samples` and, of two that cost the same, the one of fewer batches."""
    found: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, ())]
    for count in range(1, samples + 1):
        ways = []
        for batch, seconds in costs:
            rest = found[max(0, count - batch)]
            ways.append((rest[0] + seconds, rest[1] + 1, (*rest[2], batch)))
        found.append(min(ways))
    return found[-1][2]


def choose(waiting: int, compiled: Sequence[Compiled], idle: bool, due: bool) -> NextBatch | None:
    """What a board runs next of so many waiting samples; None: it waits for more.

    idle: the board has nothing else to do. Then a batch that is full goes at once, and any other when it is due. Behind a running
    batch only the largest goes, since there is time for more samples to come.
    """
    if waiting == 0:
        return None
    by_batch = {one.batch: one for one in compiled}
    first = cover(waiting, tuple((one.batch, one.seconds) for one in compiled))[0]
    if waiting < (first if idle else compiled[-1].batch) and not (idle and due):
        return None
    return NextBatch(by_batch[first], min(first, waiting))


def seconds_of(waiting: int, compiled: Sequence[Compiled]) -> float:
    """The predicted seconds of the cheapest cover."""
    costs = tuple((one.batch, one.seconds) for one in compiled)
    assert all(one.batch < other.batch for one, other in pairwise(compiled))
    by_batch = dict(costs)
    return sum(by_batch[batch] for batch in cover(waiting, costs)) if waiting else 0.0
