"""The engine's decisions, on boards that answer when the test says so: no process, no time."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cnna.serve.boards.process import Answer, LostError
from cnna.serve.engine import dispatcher
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.served import READY, UNAVAILABLE, UNLOADING, Served, ServedModel
from cnna.serve.lifecycle.boards import BoardLife
from cnna.serve.lifecycle.versions import VersionLife
from cnna.serve.models.settings import Canary, Settings
from cnna.serve.models.signature import Tensor, described_signature
from cnna.serve.requests import composed
from cnna.serve.requests.composed import Ask, Composition
from cnna.serve.requests.request import Request
from cnna.serve.runtimes.interface import ANY, Description
from cnna.spec.errors import BusyError, DataError, LateError, RunError, UnknownError

from .fakes import SIGNATURE, ask, core_of, version_of, wanted

Within = Callable[[Coroutine[Any, Any, None]], None]


def test_requests_share_batches_and_get_their_own_answers(tmp_path: Path, within: Within) -> None:
    """Somebody would get the answer to another request."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", max_delay_us=10_000_000)
        requests = [ask(core, 1, 10), ask(core, 2, 20), ask(core, 4, 30), ask(core, 2, 40)]
        assert [(batch.samples, one.batch) for batch, one in board.had] == [(1, 1), (4, 4)]
        assert len(board.had[1][0].ranges) == 2
        while board.running:
            await board.answer()
        assert [(batch.samples, one.batch) for batch, one in board.had] == [(1, 1), (4, 4), (4, 4)]
        for request, first in zip(requests, (10, 20, 30, 40), strict=True):
            result = request.future.result()
            assert np.array_equal(result.outputs["y"], wanted(request.samples, first, 1))
            assert result.version == "1"
        assert core.catalogue.models["m"].versions["1"].stats.batch_sizes == {1: 1, 4: 2}

    within(run())


def test_requests_of_other_shapes_do_not_share_a_batch(tmp_path: Path, within: Within) -> None:
    """Arrays of other types would be joined to one, and changed by that."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        board.state = "resting"
        one, two = core.admit("m", {"x": np.ones((2, 2), np.uint8)}), ask(core, 2)
        board.state = "ready"
        core.dispatcher.pump()
        assert [batch.samples for batch, _ in board.had] == [2]
        await board.answer()
        await board.answer()
        assert one.future.done()
        assert two.future.done()

    within(run())


def test_the_board_with_the_least_outstanding_seconds_is_next(tmp_path: Path, within: Within) -> None:
    """A quick board would wait while a slow one has a queue."""

    async def run() -> None:
        core, (slow, quick) = core_of(tmp_path, "slow", "quick")
        slow.ratio = 10.0
        requests = [ask(core, 4, number) for number in range(3)]
        assert (len(slow.had), len(quick.had)) == (1, 2)
        for board in (quick, quick, slow):
            await board.answer()
        assert all(request.future.done() for request in requests)

    within(run())


def test_an_idle_board_is_next_though_batches_cost_nothing(tmp_path: Path, within: Within) -> None:
    """Where a runtime predicts 0 s, a sample would wait behind a busy board, and the server would look for it without a pause."""

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b", versions={"1": version_of("1", {1: 0.0, 4: 0.0})})
        requests = [ask(core, 1, number) for number in range(2)]
        assert (len(a.had), len(b.had)) == (1, 1)
        for board in (a, b):
            await board.answer()
        assert all(request.future.done() for request in requests)

    within(run())


def test_a_batch_of_a_dead_board_goes_elsewhere(tmp_path: Path, within: Within) -> None:
    """A request would be lost with its board. The batch that only waited there has not failed."""

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b", retries=1)
        b.state = "resting"
        first, second = ask(core, 4, 0), ask(core, 4, 50)
        assert len(a.had) == 2
        b.state, a.state = "ready", "resting"
        a.die()
        await asyncio.sleep(0)
        assert [batch.boards for batch, _ in b.had] == [["a"], []]
        await b.answer()
        await b.answer()
        assert np.array_equal(first.future.result().outputs["y"], wanted(4, 0, 1))
        assert np.array_equal(second.future.result().outputs["y"], wanted(4, 50, 1))

    within(run())


def test_requests_of_a_version_that_is_lost_end_at_once(tmp_path: Path, within: Within) -> None:
    """A batch that has failed would meet the version that an operator loads anew before its files are read, and stop the engine."""

    async def run() -> None:
        core, (a,) = core_of(tmp_path, "a")
        request, other = ask(core, 4, 0), ask(core, 4, 50)
        a.state = "resting"
        a.die()
        await asyncio.sleep(0)
        a.state = "ready"
        served = core.catalogue.models["m"].versions["1"]
        assert served.version is not None
        core.catalogue.lost(cast("EngineBoard", a), served.version, "its files are gone")
        for one in (request, other):
            with pytest.raises(BusyError, match="model m, version 1 is unavailable: its files are gone"):
                one.future.result()
        core.catalogue.models["m"].versions["1"] = Served("m", "1")
        core.dispatcher.pump()
        await asyncio.sleep(0)
        assert not core.requests

    within(run())


def test_what_comes_late_is_not_counted_for_a_version_that_is_loaded_anew(tmp_path: Path, within: Within) -> None:
    """A sound version could be taken back for faults of the one that had its name before, or be forgiven its own."""

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b", versions={"1": version_of("1"), "2": version_of("2")})
        model, requests = core.catalogue.models["m"], [ask(core, 4, 0), ask(core, 4, 50), ask(core, 4, 90)]
        old = model.versions["2"]
        for step in (model.life.fault("2", "b"), model.life.lost("2", "its files are gone")):
            model.becomes(step[0])
        for event in ("found", "tested"):
            model.becomes(getattr(model.life, event)("2")[0])
        assert model.versions["2"] is not old
        model.versions["2"].version = old.version
        a.state = "resting"
        a.die()
        await asyncio.sleep(0)
        assert model.life.of("2").faults == ()
        model.becomes(model.life.fault("2", "a")[0])
        old.life = model.life.of("2")
        await b.answer()
        assert model.life.of("2").faults == ("a",)
        while b.running:
            await b.answer()
        assert all(one.future.done() for one in requests)

    within(run())


def test_retries_have_an_end(tmp_path: Path, within: Within) -> None:
    """A batch that kills boards would go round for ever. All of the request fails, and the line says why."""

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b", retries=1)
        request = ask(core, 5)
        await next(board for board in (a, b) if board.had[0][1].batch == 4).answer(LostError("board a: its worker died", True))
        for board in (a, b):
            while board.running:
                await board.answer(LostError("board b: it hangs", True))
        with pytest.raises(BusyError, match="failed 2 times, last: board b: it hangs"):
            request.future.result()
        assert core.catalogue.models["m"].versions["1"].stats.failed == {"board": 1}
        await asyncio.sleep(0)
        assert not core.requests

    within(run())


def test_bad_data_fails_its_own_request_alone(tmp_path: Path, within: Within) -> None:
    """One client could fail the requests of all others that share a batch with it."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", max_delay_us=10_000_000)
        good, bad = ask(core, 2, 0), ask(core, 2, 50)
        await board.answer(DataError("an index is out of range"))
        await board.answer()
        await board.answer(DataError("an index is out of range"))
        assert np.array_equal(good.future.result().outputs["y"], wanted(2, 0, 1))
        with pytest.raises(DataError, match="out of range"):
            bad.future.result()

    within(run())


def test_a_full_queue_refuses(tmp_path: Path, within: Within) -> None:
    """Memory would grow with the load, and every answer would come too late."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", queue=6, max_request_samples=20)
        kept = [ask(core, 4) for _ in range(3)]
        with pytest.raises(BusyError, match="its queue of 6 samples is full") as caught:
            ask(core, 3)
        assert caught.value.seconds >= 1
        while board.running:
            await board.answer()
        large = ask(core, 20)  # a request may be larger than the queue, if nothing else waits
        while board.running:
            await board.answer()
        assert all(request.future.done() for request in (*kept, large))
        with pytest.raises(DataError, match="21 samples: a request has at most 20"):
            ask(core, 21)

    within(run())


def test_a_request_that_cannot_be_cut_is_no_larger_than_a_batch(tmp_path: Path, within: Within) -> None:
    """Answers with any number of rows cannot be joined: the client would get those of the last batch alone."""

    async def run() -> None:
        described = Description(SIGNATURE.inputs, (Tensor("y", "float32", (2,), ANY),))
        version = replace(version_of("1", fallback="onnxruntime"), signature=described_signature("m", described))
        core, (board, _) = core_of(tmp_path, "a", versions={"1": version})
        said = "model m: 6 samples: a request has at most 4 samples in one batch, which cannot be cut; send several requests"
        with pytest.raises(DataError, match=said):
            ask(core, 6)
        request = ask(core, 4, 10)
        await board.answer()
        assert np.array_equal(request.future.result().outputs["y"], wanted(4, 10, 1))

    within(run())


def test_priority_goes_first_and_others_in_order(tmp_path: Path, within: Within) -> None:
    """Triton's clients set it: 1 is the highest, and those that set none come after all of these."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", versions={"1": version_of("1", {1: 1.0})})
        board.state = "resting"
        for first, priority in ((10, 0), (20, 2), (30, 0), (40, 1)):
            ask(core, 1, first, priority=priority)
        board.state = "ready"
        core.dispatcher.pump()
        while board.running:
            await board.answer()
        assert [int(batch.inputs()["x"][0][0, 0]) for batch, _ in board.had] == [40, 20, 10, 30]

    within(run())


def test_a_deadline_ends_a_request_wherever_it_is(tmp_path: Path, within: Within) -> None:
    """A client would wait for an answer that is of no use any more, and boards would work for it."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", versions={"1": version_of("1", {1: 1.0})})
        running, other, waiting = (ask(core, 1, timeout_us=1), ask(core, 1), ask(core, 1, timeout_us=1))
        with pytest.raises(LateError, match="it ran"):
            await running.future
        with pytest.raises(LateError, match="it waited for a board"):
            await waiting.future
        await board.answer()
        await board.answer()
        assert other.future.done()
        assert len(board.had) == 2
        assert core.catalogue.models["m"].versions["1"].stats.failed == {"deadline": 2}

    within(run())


def test_an_answer_and_a_deadline_in_one_round_of_the_loop(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline's request would count as failed and as answered."""

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        last: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def answer(composition: Composition, request: Request, ask: Ask) -> None:
            await last

        monkeypatch.setattr(composed, "answer", answer)
        served = core.catalogue.models["m"].versions["1"]
        served.composition = cast("Composition", SimpleNamespace(parts=()))
        request = ask(core, 1)
        await asyncio.sleep(0)  # it waits for its last step
        last.set_result(None)
        core.requests.fail(request, LateError("no answer within its deadline"), "deadline")
        with pytest.raises(LateError):
            await request.future
        await asyncio.sleep(0)
        assert (served.stats.succeeded, served.stats.failed) == (0, {"deadline": 1})

    within(run())


@pytest.mark.parametrize("fails", [False, True])
def test_requests_end_though_nothing_can_be_logged(tmp_path: Path, within: Within, fails: bool) -> None:
    """A full disk would let clients wait for ever, and a server that ends wait for them."""

    def log(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        core.log, request = log, ask(core, 1)
        request.spare = "no board is there"
        served = core.catalogue.models["m"].versions["1"]
        with suppress(OSError):
            core.requests.fail(request, BusyError("it is over"), "board") if fails else core.requests.succeed(request)
        assert request.future.done()
        assert (request.future.exception() is not None) == fails
        assert (served.stats.succeeded, served.stats.failed) == ((0, {"board": 1}) if fails else (1, {}))
        assert await core.drain(60)

    within(run())


def test_nothing_is_admitted_that_nobody_can_answer(tmp_path: Path, within: Within) -> None:
    """It would wait for its deadline in vain."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        with pytest.raises(UnknownError, match="there is no model 'n'; there are m"):
            core.admit("n", {})
        with pytest.raises(UnknownError, match="has no version '2'; there are 1"):
            ask(core, 1, version="2")
        assert core.ready
        board.life = BoardLife("out", "it hangs")
        assert not core.ready
        with pytest.raises(BusyError, match="model m: no board can answer: a: it hangs"):
            ask(core, 1)
        board.state = "ready"
        assert await core.drain(0)
        assert not core.ready
        with pytest.raises(BusyError, match="the server is ending"):
            ask(core, 1)

    within(run())


def test_a_drain_waits_for_what_is_open(tmp_path: Path, within: Within) -> None:
    """A server that ends would lose what it had admitted."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        request = ask(core, 1)
        assert not await core.drain(0)
        drained = asyncio.ensure_future(core.drain(60))
        await asyncio.sleep(0)
        assert not drained.done()
        await board.answer()
        assert await drained
        assert request.future.done()

    within(run())


def test_a_canary_gets_its_share_and_the_same_sequence_the_same_version(tmp_path: Path, within: Within) -> None:
    """A stream of pictures would jump between versions; an explicit version is no matter of chance."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", versions={"1": version_of("1"), "2": version_of("2")}, queue=10_000)
        model = core.catalogue.models["m"]
        model.settings = type(model.settings)(canary=Canary("2", 0.25), queue=10_000)
        model.becomes(replace(model.life, default="1"))
        board.state = "resting"
        drawn = [ask(core, 1, sequence_id=f"s{number}").version for number in range(400)]
        assert drawn == [ask(core, 1, sequence_id=f"s{number}", request_id="r").version for number in range(400)]
        assert 60 < drawn.count("2") < 140
        assert {ask(core, 1, version="1").version for _ in range(30)} == {"1"}
        model.becomes(model.life.with_life("2", VersionLife(UNLOADING)))
        assert {ask(core, 1, sequence_id=f"s{number}").version for number in range(30)} == {"1"}

    within(run())


def test_faults_on_several_boards_take_a_version_back(tmp_path: Path, within: Within) -> None:
    """A version that hangs every board would take the whole server down; one bad board must not take a good version back."""

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b", versions={"1": version_of("1"), "2": version_of("2")}, retries=100)
        model = core.catalogue.models["m"]
        one, two = model.versions["1"], model.versions["2"]
        for _ in range(5):
            core.catalogue.fault(two, "a")
        assert (two.state, model.default) == (READY, two)
        core.catalogue.went_well(two)
        request = ask(core, 1)
        core.catalogue.fault(two, "a")
        core.catalogue.fault(two, "b")
        assert two.state == READY
        core.catalogue.fault(two, "b")
        assert two.state == UNLOADING
        assert two.reason == "rolled back: 3 device faults in a row, on boards a, b"
        assert model.default is one
        later = ask(core, 1, 7)
        while a.running or b.running:
            await (a if a.running else b).answer()
        assert request.future.result().version == "2"  # it was bound to this one
        assert np.array_equal(later.future.result().outputs["y"], wanted(1, 7, 1))
        core.catalogue.fault(one, "a")
        core.catalogue.fault(one, "b")
        core.catalogue.fault(one, "b")
        assert one.state == READY, "there is nothing to go back to"

    within(run())


def test_an_error_of_the_accelerator_is_its_boards(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that has stopped with an error must be reset before it gets more."""

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b")
        request = ask(core, 4)
        died: list[str] = []
        board = a if a.running else b
        monkeypatch.setattr(board, "fail", died.append)
        await board.answer(RunError("the accelerator stopped: AXI_READ"))
        assert died == ["the accelerator stopped: AXI_READ"]
        other = b if board is a else a
        await other.answer()
        assert request.future.done()

    within(run())


@pytest.mark.parametrize(
    "answer",
    [{"scores": np.zeros((4, 2), np.float32)}, {"y": np.zeros((3, 2), np.float32)}, {"y": np.zeros((4, 3), np.float32)}],
    ids=["name", "rows", "shape"],
)
def test_an_answer_that_does_not_fit_goes_elsewhere(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    """A remote model that has other outputs now would leave the requests of its batch without an answer, or take its board away."""
    monkeypatch.setattr(dispatcher, "BUSY_SECONDS", 0.0)

    async def run() -> None:
        core, (a, b) = core_of(tmp_path, "a", "b")
        request = ask(core, 4)
        board, other = (a, b) if a.running else (b, a)
        monkeypatch.setattr(board, "fail", pytest.fail)
        board.running[0][3].set_result(Answer(0.5, answer))
        board.running.clear()
        while not other.running:
            await asyncio.sleep(0)
        await other.answer()
        assert np.array_equal(request.future.result().outputs["y"], wanted(4, 0, 1))

    within(run())


def test_a_version_that_was_taken_back_waits_for_an_operator(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would come back by itself, and fail again, because another version waits for its server."""

    async def run() -> None:
        core, _ = core_of(tmp_path, "a", versions={name: version_of(name) for name in "123"})
        for name in "123":
            (tmp_path / "m" / name).mkdir(parents=True)
        (tmp_path / "m" / "model.yaml").write_text("versions: all\n")
        catalogue, loaded = core.catalogue, list[str]()

        async def load(model: ServedModel, name: str, settings: Settings) -> None:
            loaded.append(name)

        monkeypatch.setattr(catalogue, "_load", load)
        for name, busy in (("1", True), ("2", False)):
            model = catalogue.models["m"]
            model.becomes(model.life.with_life(name, VersionLife(UNAVAILABLE, busy=busy)))
        await catalogue.load("m", again=True)
        assert loaded == ["1"]
        await catalogue.load("m")
        assert loaded == ["1", "1", "2"]

    within(run())
