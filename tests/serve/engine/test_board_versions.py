"""Which versions a board has: those published anew, those that are refused, and those that cannot answer now."""

import asyncio
import errno
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.engine.served import READY
from cnna.serve.models.golden import Golden
from cnna.spec.errors import BusyError, DataError, LateError

from .fakes import ask
from .stub_worker import Shelf, Within, core_with, loaded, restarted, stub_workers, until, version


def test_a_version_published_anew_under_its_name_is_another_one(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers would come from the files that were there before, on a board that was starting when it was unloaded."""

    async def run() -> None:
        may, freed, waits = asyncio.Event(), list[str](), asyncio.Event()

        async def before(board: str, what: str, key: str) -> None:
            if (board, what, key) == ("b", "load", "a/1/tiny-b8"):
                waits.set()
                await may.wait()
            if what == "unload":
                freed.append(board)

        stub_workers(monkeypatch, before)
        shelf = Shelf(a=version("a", "1", 1), m=version("m", "1", 1))
        core = core_with(shelf, BoardSpec("a"), BoardSpec("b"))
        may.set()
        await core.start()
        a, b = core.boards
        may.clear()
        waits.clear()
        b.fail("it died")
        await waits.wait()
        await core.catalogue.unload("m")
        await until(lambda: freed == ["a"])  # for b it waits now
        may.set()
        await until(lambda: b.state == "ready")
        shelf.there["m"]["1"] = version("m", "1", 2)
        await core.catalogue.load("m")
        a.limits = Limits(failures=1)
        a.fail("it died")
        result = await ask(core, 1, 5.0).future
        assert np.array_equal(result.outputs["y"], [[52.0, 52.0]])
        await core.close()

    within(run())


def test_what_was_refused_is_freed(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board's memory would fill up with versions whose golden answers differ."""

    async def run() -> None:
        freed: list[str] = []

        async def before(board: str, what: str, key: str) -> None:
            if what == "unload":
                freed.append(key)

        stub_workers(monkeypatch, before)
        x = np.ones((1, 2), np.float32)
        good, bad = version("m", "1", 1), version("m", "2", 2)
        shelf = Shelf(m=good)
        core = core_with(shelf, BoardSpec("a"))
        await core.start()
        shelf.there["m"]["2"] = replace(bad, golden=Golden({"x": x}, {"y": x * 7}))
        (refused,) = await core.catalogue.load("m")
        assert "golden answers differ" in refused.reason
        assert freed == ["m/2/tiny-b8"]
        await core.close()

    within(run())


def test_what_a_broken_off_load_has_opened_is_freed(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board's memory would keep a version that nobody is served, if whoever has asked for it goes while it is freed, too."""

    async def run() -> None:
        may, waits, has = asyncio.Event(), asyncio.Event(), list[str]()

        async def before(board: str, what: str, key: str) -> None:
            if (what, key) == ("load", "m/2/tiny-b8"):
                waits.set()
                await may.wait()
            if what in ("load", "unload"):
                has.append(key) if what == "load" else has.remove(key)

        stub_workers(monkeypatch, before)
        shelf = Shelf(m=version("m", "1", 1))
        core = core_with(shelf, BoardSpec("a"))
        await core.start()
        shelf.there["m"]["2"] = version("m", "2", 2)
        loading = asyncio.create_task(core.catalogue.load("m"))
        await waits.wait()
        for _ in range(2):
            loading.cancel()
            for _ in range(5):  # it begins to free the version
                await asyncio.sleep(0)
        await asyncio.wait([loading])
        assert loading.cancelled()
        may.set()
        await core.boards[0].catch_up()
        assert has == ["m/1/tiny-b8"]
        await core.close()

    within(run())


@pytest.mark.parametrize("trouble", ["hangs", "other outputs"])
def test_a_remote_model_keeps_no_other_one_from_its_board(within: Within, monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """A server far away that hangs, or has changed, would take the board of all local models out when its worker restarts."""

    async def run() -> None:
        troubled = False

        async def before(board: str, what: str, key: str) -> None:
            if troubled and trouble == "hangs" and what == "run" and key.startswith("far"):
                raise LateError("grpc://far, model far: Deadline Exceeded")

        stub_workers(monkeypatch, before)
        x = np.ones((1, 2), np.float32)
        near = replace(version("m", "1", 1, "onnxruntime"), golden=Golden({"x": x}, {"y": x * 10 + 1}))
        far = replace(version("far", "1", 2, "remote"), golden=Golden({"x": x}, {"y": x * 10 + 2}))
        core = core_with(Shelf(m=near, far=far), BoardSpec("cpu", CPU))
        await core.start()
        (cpu,) = core.boards
        troubled = True
        if trouble == "other outputs":
            assert far.golden is not None
            far.golden.outputs["y"] = np.zeros((1, 3), np.float32)
        await restarted(cpu)
        assert cpu.state == "ready"
        assert "m/1/onnxruntime-b8" in loaded(cpu)
        assert np.array_equal((await ask(core, 1, 5.0).future).outputs["y"], [[51.0, 51.0]])
        await core.close()

    within(run())


@pytest.mark.parametrize("boards", [[BoardSpec("cpu", CPU)], []], ids=["one of all runtimes", "its own boards"])
@pytest.mark.parametrize("away", ["at the start", "at a restart"])
def test_a_fallback_stands_in_for_a_runtime_that_is_away(
    within: Within, monkeypatch: pytest.MonkeyPatch, boards: list[BoardSpec], away: str
) -> None:
    """The fallback would not be opened since its neighbour is busy, and each batch for it would kill the board."""

    async def run() -> None:
        gone = away == "at the start"

        async def before(board: str, what: str, key: str) -> None:
            if gone and what == "run" and key == "m/1/remote-b8":
                raise BusyError("grpc://far: connection refused")

        monkeypatch.setattr("cnna.serve.engine.dispatcher.BUSY_SECONDS", 0.0)
        stub_workers(monkeypatch, before)
        core = core_with(Shelf(m=version("m", "1", 1, "remote", "onnxruntime")), *boards)
        await core.start()
        gone = True
        for board in core.boards:
            await restarted(board)
        assert core.catalogue.models["m"].versions["1"].state == READY
        for _ in range(2):
            result = await ask(core, 1, 5.0).future
            assert result.runtime == "onnxruntime"
            assert np.array_equal(result.outputs["y"], [[151.0, 151.0]])
        assert {board.life.failures for board in core.boards} == {1}, "by the test alone"
        gone = False
        assert np.array_equal((await ask(core, 1, 5.0).future).outputs["y"], [[51.0, 51.0]])
        await core.close()

    within(run())


def test_a_log_that_cannot_be_written_keeps_no_board_away(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would end a board's life, and a request would never end."""

    def full(level: str, event: str, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def run() -> None:
        may = asyncio.Event()
        may.set()

        async def before(board: str, what: str, key: str) -> None:
            await may.wait()

        stub_workers(monkeypatch, before)
        core = core_with(Shelf(m=version("m", "1", 1)), BoardSpec("a"), log=full)
        await core.start()
        await restarted(core.boards[0])
        may.clear()
        with pytest.raises(LateError, match="no answer within its deadline"):
            await ask(core, 1, timeout_us=1).future
        await core.close()

    within(run())


def test_a_board_that_rests_keeps_its_configuration(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version would be given up as lost since nobody knew that the board that rests can run it."""

    async def run() -> None:
        async def before(board: str, what: str, key: str) -> None:
            pass

        stub_workers(monkeypatch, before, "tiny")
        one = version("m", "1", 1)
        (compiled,) = one.compiled["tiny"]
        one = replace(one, compiled={**one.compiled, "zcu102": (replace(compiled, config="zcu102"),)})
        core = core_with(Shelf(m=one), BoardSpec("a", "pynq", overlay="cnna.bit"), limits=Limits())
        await core.start()
        (board,) = core.boards
        board.fail("it died")
        await until(lambda: board.state == "resting")
        assert board.fitting(one)
        await core.close()

    within(run())


@pytest.mark.parametrize("trouble", ["wrong", "damaged"])
def test_a_fallback_that_is_no_good_takes_nothing_from_its_version(
    within: Within, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """A board of all runtimes would lose a good version to its bad fallback, or go out with all its models."""

    async def run() -> None:
        async def before(board: str, what: str, key: str) -> None:
            if trouble == "damaged" and (what, key) == ("open", "m/1/onnxruntime-b8"):
                raise DataError("model.onnx is damaged")

        stub_workers(monkeypatch, before)
        x = np.ones((1, 2), np.float32)
        one = replace(version("m", "1", 1, "remote", "onnxruntime"), golden=Golden({"x": x}, {"y": x * 10 + 1}))
        core = core_with(Shelf(m=one), BoardSpec("cpu", CPU))
        await core.start()
        (cpu,) = core.boards
        for _ in range(2):
            assert (cpu.state, loaded(cpu)) == ("ready", ["m/1/remote-b8"])
            assert np.array_equal((await ask(core, 1, 5.0).future).outputs["y"], [[51.0, 51.0]])
            await restarted(cpu)
        assert cpu.life.failures == 2, "by the test alone"
        await core.close()

    within(run())


def test_a_board_that_comes_back_as_another_one_is_named(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would read that no board can answer, and not why."""

    async def run() -> None:
        async def before(board: str, what: str, key: str) -> None:
            pass

        stub_workers(monkeypatch, before, "tiny")
        one = version("m", "1", 1)
        (compiled,) = one.compiled["tiny"]
        one = replace(one, compiled={**one.compiled, "zcu102": (replace(compiled, config="zcu102"),)})
        core = core_with(Shelf(m=one), BoardSpec("a", "pynq", overlay="cnna.bit"))
        await core.start()
        stub_workers(monkeypatch, before, "kv260")
        await restarted(core.boards[0])
        assert not core.ready
        with pytest.raises(BusyError, match="model m: no board can answer: a: runs other models"):
            ask(core, 1)
        await core.close()

    within(run())
