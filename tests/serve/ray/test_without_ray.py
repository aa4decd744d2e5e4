"""What needs no Ray: boards as resources, orders that reach all replicas, requests that are asked again."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from cnna.serve.boards.board_spec import board_spec
from cnna.serve.ray.__main__ import main
from cnna.serve.ray.cluster_metrics import merged
from cnna.serve.ray.host_boards import boards_of, claim, resources
from cnna.serve.ray.orders import LOAD, SILENT_SECONDS, UNLOAD, Orders, Report
from cnna.serve.ray.retries import AGAIN, MOST_LOST, Answered, Patience, asked_until_answered
from cnna.spec.errors import BusyError, RunError, UserError

QUICK = Patience(seconds=2.0, silent_seconds=0.05, busy_seconds=1.0, pause_seconds=0.0)
FINE, BUSY = Answered(200, {}, b"{}"), Answered(503, {AGAIN: "1"}, b"full")


def test_resources_name_the_boards() -> None:
    texts = ["left=emulator", "right=paced,config=zcu102,pix=4"]
    offered = resources(texts)
    assert offered["cnna_board"] == 2
    assert boards_of({**offered, "CPU": 4.0}) == [board_spec(text) for text in texts]
    with pytest.raises(UserError, match="needs a --board"):
        resources([])


def test_no_board_is_claimed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    specs = [board_spec("left=emulator"), board_spec("right=emulator")]
    first, second = claim(specs, "node"), claim(specs, "node")
    assert [first.spec.name, second.spec.name] == ["left", "right"]
    with pytest.raises(BusyError, match="it has left, right"):
        claim(specs, "node")
    first.release()
    again, other = claim(specs, "node"), claim(specs, "another node")
    assert [again.spec.name, other.spec.name] == ["left", "left"]
    for one in (second, again, other):
        one.release()


def test_orders_reach_all_replicas() -> None:
    now = 0.0
    orders = Orders(lambda: now)
    orders.exchange(Report("a", "one", "1"))
    number = orders.order(UNLOAD, "digits")
    found, differs = orders.exchange(Report("b", "two", "1"))
    assert [(order.what, order.model) for order in found] == [(UNLOAD, "digits")]
    assert differs is None
    orders.exchange(Report("a", "one", "1", done=number))
    assert orders.outcome(number) is None
    orders.exchange(Report("b", "two", "1", done=number, refusals={number: "two: why"}))
    assert orders.outcome(number) == ["two: why"]
    now = SILENT_SECONDS + 1
    assert orders.reports() == []


def test_an_actor_that_begins_anew_learns_the_orders_from_replicas() -> None:
    old, new = Orders(), Orders()
    old.order(UNLOAD, "digits")
    known, _ = old.exchange(Report("a", "one", "1"))
    new.exchange(Report("a", "one", "1", orders=known))
    assert new.order(LOAD, "faces") == 2
    assert [order.model for order in new.exchange(Report("b", "two", "1"))[0]] == ["digits", "faces"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Report("b", "two", "2", models={"digits/1": "x"}), "cnna differs between hosts: 1 on one, 2 on two"),
        (Report("b", "two", "1", models={"digits/1": "y"}), "model digits, version 1 differs .* has other files"),
        (Report("b", "two", "1", models={}), "version 1 differs .* is not ready on two"),
    ],
)
def test_a_replica_that_differs_may_not_answer(other: Report, said: str) -> None:
    orders = Orders()
    assert orders.exchange(Report("a", "one", "1", models={"digits/1": "x"}))[1] is None
    differs = orders.exchange(other)[1]
    assert differs is not None
    assert re.search(said, differs)


def asked(*answers: Any) -> tuple[Answered, int]:
    """What comes of these answers in turn, the last one for ever, and how many replicas were asked."""
    count = 0

    async def ask() -> Answered:
        nonlocal count
        answer = answers[min(count, len(answers) - 1)]
        count += 1
        if answer is None:
            await asyncio.sleep(10)
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = asyncio.run(asked_until_answered(ask, lambda error: isinstance(error, ConnectionError), QUICK))
    return found, count


def test_a_request_is_asked_again() -> None:
    assert asked(FINE) == (FINE, 1)
    assert asked(ConnectionError(), BUSY, None, FINE) == (FINE, 4)
    wrong = Answered(400, {}, b"")
    assert asked(wrong) == (wrong, 1)
    assert asked(BUSY)[0] == BUSY
    with pytest.raises(ValueError, match="own fault"):
        asked(ValueError("own fault"))
    with pytest.raises(RunError, match=f"lost {MOST_LOST} replicas"):
        asked(ConnectionError())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["host", "--board", "left=emulator"], "give --head"),
        (["host", "--board", "left", "--head", "10.0.0.1:6379"], "must be NAME=KIND"),
        (["host", "--board", "left=emulator", "--join", "there"], "must be ADDRESS:PORT"),
        (["serve", "none", "--cluster", "10.0.0.1:6379"], "none"),
        (["serve", "none", "--cluster", "10.0.0.1:6379", "--http", "0.0.0.0:80"], "give --insecure"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("cnna: ")
    assert error.count("\n") == 1


def test_counts_of_replicas_become_one_text() -> None:
    text = """# HELP cnna_samples_total samples
# TYPE cnna_samples_total counter
cnna_samples_total{model="digits"} %d.0
# HELP cnna_run_seconds that boards worked
# TYPE cnna_run_seconds histogram
cnna_run_seconds_bucket{model="digits",le="1.0"} 1.0
cnna_run_seconds_bucket{model="digits",le="+Inf"} 2.0
cnna_run_seconds_count{model="digits"} 2.0
cnna_run_seconds_sum{model="digits"} 3.0
"""
    orders = Orders()
    for number, host in enumerate(("one/left", "two/left"), 1):
        orders.exchange(Report(f"replica {number}", host, "1"))
        orders.counted(f"replica {number}", text % number)
    orders.counted("of a replica that has gone", text % 9)
    lines = merged(orders.counts(), {200: 3, 503: 1}, 2).decode().splitlines()
    assert lines.count("# TYPE cnna_samples_total counter") == 1
    assert {line for line in lines if line.startswith("cnna_samples_total{")} == {
        'cnna_samples_total{host="one/left",model="digits"} 1.0',
        'cnna_samples_total{host="two/left",model="digits"} 2.0',
    }
    assert sum(line.startswith("cnna_run_seconds_bucket{") for line in lines) == 4
    assert {"cnna_cluster_boards 2.0", 'cnna_cluster_answers_total{code="503"} 1.0', "cnna_cluster_asked_again_total 2.0"} <= {
        *lines
    }
