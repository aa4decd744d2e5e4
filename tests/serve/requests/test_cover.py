"""The batcher's arithmetic, against all covers that there are."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from cnna.serve.models.version import Compiled
from cnna.serve.requests.cover import Costs, choose, cover, seconds_of


def compiled(costs: Costs) -> list[Compiled]:
    return [Compiled(Path(f"tiny-b{batch}.cnna"), "tiny", batch, 0, seconds) for batch, seconds in costs]


def cheapest(samples: int, costs: Costs) -> float:
    """By trying all."""
    times = [range(-(-samples // batch) + 1) for batch, _ in costs]
    sums = [
        sum(count * seconds for count, (_, seconds) in zip(counts, costs, strict=True))
        for counts in itertools.product(*times)
        if sum(count * batch for count, (batch, _) in zip(counts, costs, strict=True)) >= samples
    ]
    return min(sums)


@pytest.mark.parametrize("case", range(20))
def test_no_cover_is_cheaper(case: int, seed: int) -> None:
    """Boards would work longer than they need."""
    rng = np.random.default_rng([seed, case])
    batches = sorted({1, *rng.integers(2, 10, 2).tolist()})
    costs = tuple((batch, float(rng.integers(1, 20))) for batch in batches)
    by_batch = dict(costs)
    for samples in range(1, 20):
        found = cover(samples, costs)
        assert sum(found) >= samples
        assert found == sorted(found, reverse=True)
        assert sum(by_batch[batch] for batch in found) == cheapest(samples, costs)
        assert seconds_of(samples, compiled(costs)) == cheapest(samples, costs)


def test_many_samples_take_the_best_batch() -> None:
    """A request of thousands of samples would take the arithmetic a second."""
    assert cover(100_003, ((1, 3.0), (8, 8.0), (16, 32.0))) == [8] * 12_501


EIGHT = compiled(((1, 1.0), (4, 2.0), (8, 3.0)))


@pytest.mark.parametrize(
    ("waiting", "idle", "due", "batch", "samples"),
    [
        (0, True, True, None, 0),
        (1, True, False, 1, 1),  # full: nothing would become quicker by waiting
        (3, True, False, None, 0),  # 4 is the cheapest cover of 3, and not full: more may come
        (3, True, True, 4, 3),
        (3, False, True, None, 0),  # behind a running batch there is time for more
        (7, False, True, None, 0),
        (8, False, False, 8, 8),
        (20, True, False, 8, 8),
    ],
)
def test_when_a_batch_goes(waiting: int, idle: bool, due: bool, batch: int | None, samples: int) -> None:
    """A part batch that goes too soon costs as much as a full one; one that never goes answers nobody."""
    choice = choose(waiting, EIGHT, idle, due)
    assert (choice and (choice.compiled.batch, choice.samples)) == (batch and (batch, samples))
