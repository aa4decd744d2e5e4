"""Boards that come back while versions come and go: nothing stays away that could be there, and nobody waits in vain."""

import asyncio
import threading

import numpy as np
import pytest

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import READY, UNAVAILABLE
from cnna.serve.lifecycle.boards import WITHOUT
from cnna.serve.models.version import Version
from cnna.serve.requests.request import Request
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.errors import BusyError, DataError, RunError

from .fakes import ask
from .stub_worker import HASTY, Shelf, Within, core_with, loaded, restarted, stub_workers, until, version


async def with_b_out() -> tuple[Core, Shelf]:
    """Version 1 of a model, and two boards of which b is out."""
    shelf = Shelf(m=version("m", "1", 1))
    core = core_with(shelf, BoardSpec("a"), BoardSpec("b"))
    await core.start()
    for _ in range(HASTY.failures):
        await restarted(core.boards[1])
    assert core.boards[1].state == "out"
    return core, shelf


def test_a_board_that_starts_gets_what_is_loaded_meanwhile(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be ready without the new version, and stay so: requests would wait in vain when the other board is out."""

    async def run() -> None:
        shelf, may, waits = Shelf(m=version("m", "1", 1)), asyncio.Event(), asyncio.Event()

        async def before(board: str, what: str, key: str) -> None:
            if (board, what) == ("b", "load"):
                waits.set()
                await may.wait()

        stub_workers(monkeypatch, before)
        core = core_with(shelf, BoardSpec("a"), BoardSpec("b"))
        may.set()
        await core.start()
        a, b = core.boards
        may.clear()
        waits.clear()
        b.fail("it died")
        await waits.wait()
        shelf.there["m"]["2"] = version("m", "2", 2)
        await core.catalogue.load("m")
        may.set()
        await until(lambda: b.state == "ready")
        assert loaded(a) == loaded(b) == ["m/1/tiny-b8", "m/2/tiny-b8"]
        await core.close()

    within(run())


def test_a_board_that_becomes_ready_late_gets_the_version_too(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may become ready when the version was tested on the others and is not yet named to anybody."""

    async def run() -> None:
        async def before(board: str, what: str, key: str) -> None:
            if key == "m/2/onnxruntime-b8" and b.state == "out":  # the boards of the version's own runtime have been asked
                b.reset()
                await until(lambda: b.state == "ready")

        stub_workers(monkeypatch, before)
        core, shelf = await with_b_out()
        _, b = core.boards
        shelf.there["m"]["2"] = version("m", "2", 2, CNNA, "onnxruntime")
        await core.catalogue.load("m")
        assert "m/2/tiny-b8" in loaded(b)
        await core.close()

    within(run())


def test_nobody_waits_for_boards_that_will_not_have_the_version(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """One board came back without it, the other one is out since then: the server would seem ready, and requests wait in vain."""

    async def run() -> None:
        dead = False

        async def before(board: str, what: str, key: str) -> None:
            if dead and what == "load":
                raise DataError("not for this board") if board == "a" else RunError("the accelerator stopped")

        stub_workers(monkeypatch, before)
        core = core_with(Shelf(m=version("m", "1", 1)), BoardSpec("a"), BoardSpec("b"))
        await core.start()
        a, b = core.boards
        dead = True
        b.limits = Limits(pause_seconds=(3600.0, 3600.0), failures=2)
        b.fail("it died")
        await until(lambda: b.state == "resting")
        await restarted(a)
        b.limits = Limits(failures=1)
        b.reset()
        await until(lambda: b.state == "out")
        assert not core.ready
        with pytest.raises(BusyError, match="no board can answer: a: is without this version; b: the accelerator stopped"):
            ask(core, 1)
        await core.close()

    within(run())


def test_requests_are_told_of_what_comes_late(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request would lie still though the one board that is left has got its version by now."""

    async def run() -> None:
        requests: list[Request] = []

        async def before(board: str, what: str, key: str) -> None:
            if (board, what, key) == ("b", "load", "m/2/tiny-b8"):
                a.limits = Limits(failures=1)
                a.fail("it died")
                await until(lambda: a.state == "out")
                requests.append(ask(core, 1, 5.0))
            elif (what, key) == ("open", "m/2/onnxruntime-b8"):  # the boards of the version's own runtime have been asked
                if b.state == "out":
                    b.reset()
                    await until(lambda: b.state == "ready")
                raise DataError("model.onnx is damaged")

        stub_workers(monkeypatch, before)
        core, shelf = await with_b_out()
        a, b = core.boards
        shelf.there["m"]["2"] = version("m", "2", 2, CNNA, "onnxruntime")
        await core.catalogue.load("m")
        (request,) = requests
        assert np.array_equal((await request.future).outputs["y"], [[52.0, 52.0]])
        await core.close()

    within(run())


def test_a_board_without_a_version_tries_it_again_at_the_next_load(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be killed for one version that it cannot open, or seem to have it for ever."""

    async def run() -> None:
        full = False

        async def before(board: str, what: str, key: str) -> None:
            if full and (board, what) == ("b", "load"):
                raise RunError("internal error: MemoryError")

        stub_workers(monkeypatch, before)
        shelf = Shelf(m=version("m", "1", 1))
        core = core_with(shelf, BoardSpec("a"), BoardSpec("b"))
        await core.start()
        _, b = core.boards
        full = True
        shelf.there["m"]["2"] = version("m", "2", 2)
        assert await core.catalogue.load("m") == []
        assert (b.state, b.life.failures, loaded(b)) == ("ready", 0, ["m/1/tiny-b8"])
        assert b.held[shelf.there["m"]["2"]] == WITHOUT
        full = False
        assert await core.catalogue.load("m") == []
        assert loaded(b) == ["m/1/tiny-b8", "m/2/tiny-b8"]
        assert WITHOUT not in b.held.values()
        await core.close()

    within(run())


def test_a_load_that_is_broken_off_leaves_no_board_behind(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first version is served, but a board that became ready meanwhile would stay without it until the next load."""

    async def run() -> None:
        async def before(board: str, what: str, key: str) -> None:
            if key == "m/2/onnxruntime-b8" and b.state == "out":  # the boards of the version's own runtime have been asked
                b.reset()
                await until(lambda: b.state == "ready")

        def read(model: str, name: str, settings: object = None) -> Version:
            if name == "3":
                loop.call_soon_threadsafe(reading.set)
                released.wait(10.0)
            return shelf.there[model][name]

        stub_workers(monkeypatch, before)
        core, shelf = await with_b_out()
        loop, reading, released = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        _, b = core.boards
        shelf.there["m"]["2"] = version("m", "2", 2, CNNA, "onnxruntime")
        shelf.there["m"]["3"] = version("m", "3", 3)
        monkeypatch.setattr(shelf, "version", read)
        loading = loop.create_task(core.catalogue.load("m"))
        await reading.wait()
        loading.cancel()
        await asyncio.wait([loading])
        released.set()
        assert core.catalogue.models["m"].versions["2"].state == READY
        await until(lambda: loaded(b) == ["m/1/tiny-b8", "m/2/tiny-b8"])
        await core.close()

    within(run())


def test_an_unload_while_boards_catch_up(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load would say that it failed, or leave the version on the board that came late."""

    async def run() -> None:
        may, waits = asyncio.Event(), asyncio.Event()

        async def before(board: str, what: str, key: str) -> None:
            if (board, what, key) == ("b", "load", "m/2/tiny-b8"):
                waits.set()
                await may.wait()
            elif key == "m/2/onnxruntime-b8" and b.state == "out":
                b.reset()
                await until(lambda: b.state == "ready")

        stub_workers(monkeypatch, before)
        core, shelf = await with_b_out()
        _, b = core.boards
        shelf.there["m"]["2"] = version("m", "2", 2, CNNA, "onnxruntime")
        loading = asyncio.create_task(core.catalogue.load("m"))
        await waits.wait()
        await core.catalogue.unload("m")
        may.set()
        assert await loading == []
        await until(lambda: all(one.state == UNAVAILABLE for one in core.catalogue.served()))
        await until(lambda: not any(map(loaded, core.boards)))
        await core.close()

    within(run())
