"""When a simulated device answers, beside a plain loop over all nanoseconds that matter."""

import random

import pytest

from cnna.evaluate.speed.simulated import Answered, Service, Simulated


def plainly(service: Service, arrivals: list[int]) -> list[Answered]:
    """The same, told one nanosecond at a time."""
    waiting: list[int] = []
    found, free, left = [], 0, list(enumerate(arrivals))
    now = 0
    while left or waiting:
        while left and left[0][1] <= now:
            waiting.append(left.pop(0)[0])
        if waiting and free <= now:
            found.append(Answered(now + service.latency_ns, waiting[: service.batch]))
            waiting, free = waiting[service.batch :], now + service.period_ns
        now += 1
    return found


@pytest.mark.parametrize("seed", range(20))
def test_batches_begin_as_a_plain_loop_says(seed: int) -> None:
    """Latencies of Server would be those of another device: one that waits, or that takes samples before they are there."""
    draw = random.Random(seed)
    period = draw.randint(1, 9)
    service = Service(period, period + draw.randint(0, 4), draw.randint(1, 4))
    arrivals = sorted(draw.randint(0, 60) for _ in range(25))
    device, found = Simulated(service), []
    for time in sorted(set(arrivals)):
        device.take(time, [number for number, one in enumerate(arrivals) if one == time])
        found += list(device.settle(time))
    assert [*found, *device.settle()] == plainly(service, arrivals)


def test_a_query_takes_its_batches() -> None:
    """LoadGen would make too few queries for a run, and end it early."""
    service = Service(10, 15, 4)
    device = Simulated(service)
    device.take(0, list(range(9)))
    assert list(device.settle())[-1].at_ns == service.query_ns(9) == 35
    assert service.query_ns(4) == service.query_ns(1) == 15
    assert service.samples_per_second == pytest.approx(4e8)
