"""The simulator of fleets against the theory of queues, against simpy, and where boards fail."""

import math
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fleet_policies
import numpy as np
import pytest
import simpy
import thousand_boards
from fleet import HANG, REFUSE, Failure, Fleet, Network, covers, fifo
from fleet_events import play, played

MS = 1e-3
ONE = (Network("one", 1.0, (MS,)),)
TWO = (Network("left", 0.5, covers(1.0 * MS, 2.5 * MS, 4)), Network("right", 0.5, covers(0.4 * MS, 0.9 * MS, 2)))


def wait_of_many(load: float, servers: int) -> float:
    """The mean wait in an M/D/c queue, in service times (Crommelin's sum)."""
    a, total = load * servers, 0.0
    for i in range(1, 400):
        at = [math.exp(j * math.log(i * a) - i * a - math.lgamma(j + 1)) for j in range(i * servers, i * servers + 400)]
        total += sum(at) - sum(at[1:]) / load
    return total


@pytest.mark.parametrize(("exponential", "wanted"), [(True, 0.7 / 0.3), (False, 0.7 / 0.6)])
def test_one_board_is_the_textbooks_queue(exponential: bool, wanted: float) -> None:
    """M/M/1 and M/D/1: the mean waits are known."""
    seen = play(Fleet(700, 1, ONE, "random", exponential=exponential), 100_000)
    assert seen.mean_ms("queue") == pytest.approx(wanted, rel=0.05)
    assert seen.busy / seen.arrivals[-1] == pytest.approx(0.7, rel=0.02)


def test_many_boards_on_one_queue_are_the_textbooks() -> None:
    """M/D/c. The sum gives M/D/1's wait for one server."""
    assert wait_of_many(0.7, 1) == pytest.approx(0.7 / 0.6, rel=1e-3)
    load, boards = 0.8, 5
    seen = play(Fleet(load * boards / MS, boards, ONE, "central"), 200_000)
    assert seen.mean_ms("queue") == pytest.approx(wait_of_many(load, boards), rel=0.05)


def test_two_choices_do_what_their_theory_says() -> None:
    """The mean time with many servers is the sum of load^(2^i - 2); a random choice takes 1 / (1 - load)."""
    fleet = Fleet(0.8 * 300 / MS, 300, ONE, exponential=True)
    wanted = sum(0.8 ** (2**i - 2) for i in range(1, 12))
    assert play(fleet, 150_000).mean_ms("seconds") == pytest.approx(wanted, rel=0.03)
    assert play(replace(fleet, policy="random"), 150_000).mean_ms("seconds") == pytest.approx(5.0, rel=0.07)


@pytest.mark.parametrize("window", [0.0, 0.7 * MS])
def test_simpy_sees_the_same(window: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program of the same fleet, by processes and events, answers each request at the same moment."""
    turns = iter([number % 3 for number in range(3000)])
    monkeypatch.setattr(fleet_policies.Chooser, "choice", lambda self: lambda front, model: next(turns))
    fleet = Fleet(3500, 3, TWO, "round", link_seconds=0.15 * MS, window=window)
    rng = np.random.default_rng(3)
    arrivals, models = np.cumsum(rng.exponential(1 / fleet.rate, 3000)), rng.integers(0, 2, 3000)
    seen = played(fleet, arrivals, models, rng)
    assert np.allclose(arrivals + seen.seconds, by_simpy(fleet, arrivals, models), rtol=0, atol=1e-9)


def by_simpy(fleet: Fleet, arrivals: Any, models: Any) -> list[float]:
    """When requests are answered that go to one board after another."""
    env, ended = simpy.Environment(), [0.0] * len(arrivals)
    links = [simpy.Resource(env) for _ in range(fleet.boards)]
    queues: list[list[deque[tuple[float, int]]]] = [[deque() for _ in fleet.mix] for _ in range(fleet.boards)]
    news = [env.event() for _ in range(fleet.boards)]

    def request(number: int) -> Generator[Any, Any, None]:
        yield env.timeout(arrivals[number])
        board = number % fleet.boards
        with links[board].request() as mine:
            yield mine
            yield env.timeout(fleet.link_seconds)
        queues[board][models[number]].append((env.now, number))
        news[board].succeed()
        news[board] = env.event()

    def board(which: int) -> Generator[Any, Any, None]:
        while True:
            waiting = sorted((queue[0][0], model) for model, queue in enumerate(queues[which]) if queue)
            if not waiting:
                yield news[which]
                continue
            full = [model for _, model in waiting if len(queues[which][model]) >= fleet.mix[model].most]
            due = waiting[0][0] + fleet.window
            if env.now < due and not full:
                yield news[which] | env.timeout(due - env.now)
                if env.now < due - 1e-12:
                    continue
                model = waiting[0][1]
            else:
                model = waiting[0][1] if env.now >= due else full[0]
            queue = queues[which][model]
            batch = [queue.popleft()[1] for _ in range(min(len(queue), fleet.mix[model].most))]
            yield env.timeout(fleet.mix[model].seconds[len(batch) - 1])
            for number in batch:
                ended[number] = env.now

    for number in range(len(arrivals)):
        env.process(request(number))
    for which in range(fleet.boards):
        env.process(board(which))
    env.run(until=float(arrivals[-1]) + 10)
    return ended


@pytest.mark.parametrize("kind", [HANG, REFUSE])
@pytest.mark.parametrize("policy", ["round", "two", "least", "racks", "central"])
def test_no_request_is_lost_with_a_board(policy: str, kind: str) -> None:
    """A request that nobody answers would have no time, and make the figures better."""
    failures = tuple(Failure(board, 0.1, kind, 0.05) for board in (1, 5))
    fleet = Fleet(6000, 12, TWO, policy, fronts=2, racks=4, link_seconds=0.1 * MS, window=MS, failures=failures)
    seen = play(fleet, 2000)
    assert (seen.answered, bool((seen.seconds > 0).all())) == (2000, True)
    assert seen.retries >= 2
    assert seen.seconds.max() > (0.05 if kind == HANG else 0.0)


def test_what_waits_for_all_boards_is_not_lost_with_one() -> None:
    """One queue for all would be sent anew whenever a board is found dead: each request again, with its wait counted from then."""
    failures = tuple(Failure(board, 0.01, HANG, 0.01) for board in (1, 5))
    seen = play(Fleet(60_000, 12, TWO, "central", failures=failures), 2000)  # more than 12 boards can do
    assert seen.answered == 2000
    assert 2 <= seen.retries <= len(failures) * max(one.most for one in TWO)


def test_a_board_that_refuses_at_once_draws_requests() -> None:
    """By open requests, a board that refuses looks idle until it is found: more requests go there than by turns."""
    failure = (Failure(3, 0.1, REFUSE, 0.1),)
    base = Fleet(6000, 12, TWO, link_seconds=0.1 * MS, window=MS, failures=failure)
    assert play(base, 2000).retries > 1.5 * play(replace(base, policy="round"), 2000).retries


def test_fronts_are_queues() -> None:
    """A front that is busy for nine tenths makes its requests wait as M/D/1 says."""
    fleet = Fleet(18_000, 40, ONE, "round", fronts=20, front_seconds=MS)
    assert fleet.front_load == pytest.approx(0.9)
    seen = play(fleet, 200_000)
    assert seen.mean_ms("front") == pytest.approx(1 + 0.9 / 0.2, rel=0.06)
    assert fifo(np.array([0.0, 1.0, 1.5, 9.0]), 2.0).tolist() == [2.0, 4.0, 6.0, 11.0]


@pytest.mark.parametrize(
    ("more", "word"), [({"policy": "best"}, "'best'"), ({"racks": 3}, "3 racks"), ({"placed": ((0,),)}, "1 places for 2 models")]
)
def test_what_is_no_fleet_is_refused(more: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        replace(Fleet(100, 4, TWO), **more)


def test_the_page_has_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the pages that it reads may be gone, and what stands around the tables must stay."""
    page = tmp_path / "page.md"
    page.write_text(thousand_boards.PAGE.read_text())
    monkeypatch.setattr(thousand_boards, "PAGE", page)
    monkeypatch.setattr(thousand_boards, "BOARDS", 50)
    monkeypatch.setattr(thousand_boards, "RATE", 50_000)
    assert thousand_boards.main(["--requests", "2000", "--jobs", "1"]) == 0
    texts = [path.read_text().splitlines() for path in (thousand_boards.ROOT / "docs" / "thousand-boards.md", page)]
    prose = [[line for line in lines if not line.startswith("| ")] for lines in texts]
    assert prose[0] == prose[1]
    assert page.with_suffix(".png").stat().st_size > 10_000
    for end in thousand_boards.ENDS:
        assert 0.75 < Fleet(1e6, 1000, thousand_boards.mix(end)).load < 0.85
    assert sum(map(len, thousand_boards.placed(thousand_boards.mix("slow"), 1000))) == 1000
