"""Loads and unloads, on boards that load a version when the test says so: whatever ends a load, another one can follow."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cnna.serve.engine import catalogue
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import READY, UNAVAILABLE, ServedModel
from cnna.serve.models.repository import Repository
from cnna.serve.models.version import Version
from cnna.spec.errors import BusyError, RunError, UserError

from .fakes import ask, core_of, version_of

Within = Callable[[Coroutine[Any, Any, None]], None]


@dataclass
class Models:
    """A repository `m` with version 1, which is served, and others that the test adds; and the board that loads them.

    wrong: what reading a version raises. gate: a board loads nothing while it is closed. begun: a load has come to the board.
    """

    core: Core
    folder: Path
    wrong: dict[str, Exception] = field(default_factory=dict)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def model(self) -> ServedModel:
        return self.core.catalogue.models["m"]

    def add(self, name: str) -> None:
        (self.folder / "m" / name).mkdir(parents=True)

    def read(self, model: str, name: str, *_: Any) -> Version:
        if name in self.wrong:
            raise self.wrong[name]
        return replace(version_of(name), model=model)

    async def loaded(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        self.begun.set()
        await self.gate.wait()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Models]:
    """Makes them, inside a loop."""

    def made() -> Models:
        core, (board,) = core_of(tmp_path, "a")
        found = Models(core, tmp_path)
        found.add("1")
        found.gate.set()
        monkeypatch.setattr(Repository, "version", lambda self, *given: found.read(*given))
        monkeypatch.setattr(board, "load", found.loaded, raising=False)
        monkeypatch.setattr(board, "settled", found.gate, raising=False)
        return found

    return made


def test_a_load_that_is_broken_off_can_be_made_again(models: Callable[[], Models], within: Within) -> None:
    """The version would be loading for ever, and each later load would do nothing and report success."""

    async def run() -> None:
        made = models()
        made.add("2")
        made.gate.clear()
        loading = asyncio.create_task(made.core.catalogue.load("m"))
        await made.begun.wait()
        loading.cancel()
        await asyncio.wait([loading])
        assert loading.cancelled()
        two = made.model.versions["2"]
        assert (two.state, two.reason) == (UNAVAILABLE, "its load was broken off; load the model again")
        assert made.model.default is made.model.versions["1"]
        made.gate.set()
        assert await made.core.catalogue.load("m") == []
        assert made.model.default is made.model.versions["2"]
        assert made.model.default.state == READY

    within(run())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "m/2/a.cnna"), "m/2/a.cnna: Permission denied; mend it and load the model again"),
        (OSError("no more files"), "the model's files: no more files; mend it and load the model again"),
        (ZeroDivisionError("division by zero"), "internal error: ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_that_nobody_expects_is_a_refusal(
    models: Callable[[], Models], within: Within, error: Exception, said: str
) -> None:
    """The version would be loading for ever; an operator would get a traceback, or no reason."""

    async def run() -> None:
        made = models()
        made.add("2")
        made.wrong["2"] = error
        (refused,) = await made.core.catalogue.load("m")
        assert (refused.name, refused.state, refused.reason) == ("2", UNAVAILABLE, said)
        made.wrong.clear()
        assert await made.core.catalogue.load("m") == []
        assert made.model.versions["2"].state == READY

    within(run())


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (PermissionError(13, "Permission denied", "m/model.yaml"), UserError, "m/model.yaml: Permission denied; mend it"),
        (ZeroDivisionError("division by zero"), RunError, "internal error: ZeroDivisionError"),
    ],
)
def test_settings_that_cannot_be_read_keep_no_other_model_back(
    models: Callable[[], Models],
    within: Within,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[Exception],
    said: str,
) -> None:
    """One model's file would end the start of the server, and all models with it."""

    async def run() -> None:
        made = models()
        (made.folder / "n" / "1").mkdir(parents=True)
        settings = Repository.settings

        def read(self: Repository, model: str) -> Any:
            if model == "m":
                raise error
            return settings(self, model)

        monkeypatch.setattr(Repository, "settings", read)
        with pytest.raises(kind, match=said):
            await made.core.catalogue.load("m")
        assert made.model.reason.startswith(said)
        assert made.model.versions["1"].state == READY
        await made.core.start()
        assert made.core.catalogue.models["n"].versions["1"].state == READY

    within(run())


def test_an_unload_has_the_last_word_over_loads_that_began_before(models: Callable[[], Models], within: Within) -> None:
    """A model that an operator has taken away, perhaps because it does harm, would be back when a long load ends."""

    async def run() -> None:
        made = models()
        made.add("2")
        made.gate.clear()
        loads = [asyncio.create_task(made.core.catalogue.load("m")) for _ in range(2)]  # the second one waits for the first one
        await made.begun.wait()
        await made.core.catalogue.unload("m")
        with pytest.raises(BusyError, match="version 1: unloaded by an operator"):
            ask(made.core, 1)
        made.gate.set()
        assert await asyncio.gather(*loads) == [[], []]
        assert (made.model.life.unloaded, made.model.default) == (True, None)
        for name in "12":
            with pytest.raises(BusyError, match=f"version {name} is un(loading|available): unloaded by an operator"):
                ask(made.core, 1, version=name)
        assert await made.core.catalogue.load("m") == []
        assert made.model.default is made.model.versions["2"]

    within(run())


def retries() -> list["asyncio.Task[Any]"]:
    """What loads models again by itself."""
    return [task for task in asyncio.all_tasks() if "Catalogue._again" in repr(task.get_coro())]


def test_a_busy_model_that_was_unloaded_is_not_tried_again(
    models: Callable[[], Models], within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model would be served again a moment after an operator has unloaded it."""
    monkeypatch.setattr(catalogue, "PAUSES", (0.0, 0.0))

    async def run() -> None:
        made = models()
        made.add("2")
        made.wrong["2"] = BusyError("the other server does not answer")
        (refused,) = await made.core.catalogue.load("m")
        assert refused.life.busy
        await made.core.catalogue.unload("m")
        made.wrong.clear()
        await asyncio.wait(retries())
        assert (made.model.life.unloaded, made.model.default) == (True, None)
        assert made.model.versions["2"].state == UNAVAILABLE

    within(run())


def test_a_busy_model_is_tried_again_though_its_settings_were_wrong_for_a_moment(
    models: Callable[[], Models], within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever saves half a model.yaml would keep the model away until an operator loads it."""
    monkeypatch.setattr(catalogue, "PAUSES", (0.0, 0.0))

    async def run() -> None:
        made, settings = models(), Repository.settings
        made.add("2")
        made.wrong["2"] = BusyError("the other server does not answer")
        await made.core.catalogue.load("m")

        def read(self: Repository, model: str) -> Any:
            if made.wrong:
                made.wrong.clear()
                raise UserError("m/model.yaml: not YAML")
            return settings(self, model)

        monkeypatch.setattr(Repository, "settings", read)
        await asyncio.wait(retries())
        assert not made.wrong
        assert made.model.default is made.model.versions["2"]
        assert made.model.reason == ""

    within(run())


@pytest.mark.parametrize(
    ("folders", "event", "model", "said"),
    [
        ([], "nothing to load", None, "no model in R: cnna publish adds one"),
        (["empty"], "no version", "empty", "R/empty: no versions; cnna publish makes one"),
        (["digits/last"], "no version", "digits", "R/digits: no versions; last is no version"),
    ],
)
def test_the_log_names_what_is_not_served(
    tmp_path: Path, within: Within, folders: list[str], event: str, model: str | None, said: str
) -> None:
    """A server that serves nothing would look like one that serves."""

    async def run() -> None:
        lines = list[dict[str, Any]]()
        (tmp_path / "R").mkdir()
        for folder in folders:
            (tmp_path / "R" / folder).mkdir(parents=True)
        core = Core(Repository(tmp_path / "R"), [], log=lambda level, event, **more: lines.append({"of": (level, event), **more}))
        await core.start()
        (line,) = (line for line in lines if line["of"][0] == "warning")
        assert (line["of"][1], line.get("model")) == (event, model)
        assert line["cause"].replace(str(tmp_path / "R"), "R").startswith(said)
        if model is not None:
            assert line["cause"] in str(core.why_not_ready())
        await core.close()

    within(run())
