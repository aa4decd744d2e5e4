"""Boards without a process: a test says when a batch is answered, and how. What they answer names sample and version."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.loaded import key_of
from cnna.serve.boards.process import Answer, LostError
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import READY, Served, ServedModel
from cnna.serve.lifecycle.boards import BoardLife
from cnna.serve.lifecycle.versions import ModelLife, VersionLife
from cnna.serve.models.repository import Repository, open_repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.signature import Signature, Tensor
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.history import Log, silent
from cnna.serve.requests.request import Batch, Request
from cnna.spec.errors import DataError

SIGNATURE = Signature("m", (Tensor("x", "float32", (2,)),), (Tensor("y", "float32", (2,)),), False, cast(Any, {"preprocess": None}))


class Open(Signature):
    """A signature that takes any x of two columns."""

    def request(self, given: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        if set(given) != {"x"} or given["x"].ndim != 2 or given["x"].shape[1] != 2:
            raise DataError("the model has one input, x, with two columns")
        return len(given["x"]), dict(given)


class FakeBoard:
    """Takes two batches at once; `answer` and `die` are the test's."""

    def __init__(self, name: str, core: Core, state: str = "ready", kind: str = "emulator") -> None:
        self.spec, self.life, self.ratio, self.seconds = BoardSpec(name, kind), BoardLife(state), 1.0, 0.0
        self.watts: float | None = None
        self.celsius: float | None = None
        self.loaded = list[str]()
        self.held: dict[Version, str] = {}
        self.core, self.had = core, list[tuple[Batch, Compiled]]()
        self.running: list[tuple[Batch, Version, Compiled, asyncio.Future[Answer]]] = []

    @property
    def state(self) -> str:
        return self.life.state

    @state.setter
    def state(self, state: str) -> None:
        self.life = replace(self.life, state=state)

    @property
    def free(self) -> bool:
        return self.state == "ready" and len(self.running) < 2

    @property
    def idle(self) -> bool:
        return not self.running

    def runs(self, version: Version) -> tuple[Compiled, ...]:
        return next((many for many in version.compiled.values() if self.spec.takes(many[0].runtime)), ())

    def run(self, batch: Batch, version: Version, compiled: Compiled) -> "asyncio.Future[Answer]":
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.running.append((batch, version, compiled, future))
        self.had.append((batch, compiled))
        self.seconds += compiled.seconds
        return future

    def answered(self, compiled: Compiled, seconds: float) -> None:
        pass

    def fail(self, cause: str) -> None:
        self.die()

    async def close(self) -> None:
        self.die()
        self.state = "closed"

    def fitting(self, version: Version) -> tuple[Compiled, ...]:
        return self.runs(version)

    async def unload(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        pass

    def look(self) -> None:
        pass

    async def catch_up(self) -> None:
        pass

    async def answer(self, error: BaseException | None = None) -> None:
        """Answers the batch that it has had longest."""
        batch, version, compiled, future = self.running.pop(0)
        self.seconds -= compiled.seconds
        if error is None:
            x = np.concatenate(batch.inputs()["x"]).astype(np.float32)
            future.set_result(Answer(0.5, {"y": x * 10 + int(version.name)}))
        else:
            future.set_exception(error)
        await asyncio.sleep(0)

    def die(self) -> None:
        """Loses all that it has."""
        lost, self.running, self.seconds = self.running, [], 0.0
        for number, (_, _, _, future) in enumerate(lost):
            future.set_exception(LostError(f"board {self.spec.name}: its worker died", number == 0))


def version_of(name: str, batches: Mapping[int, float] | None = None, fallback: str | None = None) -> Version:
    costs = batches or {1: 1.0, 4: 2.0}
    compiled = tuple(Compiled(Path(f"tiny-b{batch}.cnna"), "tiny", batch, 0, seconds) for batch, seconds in costs.items())
    signature = Open(SIGNATURE.model, SIGNATURE.inputs, SIGNATURE.outputs, False, SIGNATURE.manifest)
    version = Version("m", name, signature, {"tiny": compiled}, None)
    if fallback is not None:
        spare = Compiled(Path("1"), fallback, 8, 0, 1.0, fallback)
        version = replace(version, compiled={**version.compiled, fallback: (spare,)})
    assert key_of(version, compiled[0]) == f"m/{name}/tiny-b1"
    return version


def core_of(
    folder: Path, *boards: str, versions: Mapping[str, Version] | None = None, log: Log = silent, **settings: Any
) -> tuple[Core, list[FakeBoard]]:
    """A core with a model `m`; its default is the last version. Nothing waits for others, unless the settings say so."""
    repository: Repository = open_repository(folder)
    core = Core(repository, [], log=log)
    fakes = [FakeBoard(name, core) for name in boards]
    if any(version.runtimes()[1:] for version in (versions or {}).values()):
        fakes.append(FakeBoard("cpu", core, kind="cpu"))
    core.boards += cast("list[EngineBoard]", fakes)
    model = ServedModel("m", Settings(**{"max_delay_us": 0, **settings}))
    for name, version in (versions or {"1": version_of("1")}).items():
        model.versions[name] = Served("m", name, version)
        lives = {**model.life.versions, name: VersionLife(READY)}
        model.becomes(ModelLife(lives, default=name, before=model.life.default))
    core.catalogue.models["m"] = model
    return core, fakes


def ask(core: Core, samples: int, first: float = 0.0, **more: Any) -> Request:
    """A request whose samples are [first, first], [first + 1, first + 1], ..."""
    x = np.repeat(np.arange(first, first + samples, dtype=np.float32)[:, None], 2, axis=1)
    return core.admit("m", {"x": x}, **more)


def wanted(samples: int, first: float, version: int) -> np.ndarray[Any, Any]:
    """The answer to such a request."""
    return np.repeat(np.arange(first, first + samples, dtype=np.float32)[:, None], 2, axis=1) * 10 + version
