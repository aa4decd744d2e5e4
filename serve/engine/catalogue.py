"""The models and versions that are served: loads and tests versions, switches to them, and goes back when they fail.

A version is loaded and tested on every board that is ready before it is named to anybody. The switch is one assignment. The version
that it replaces stays loaded until the next switch, so that a rollback is one assignment too.
"""

import asyncio
import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from cnna.serve.engine.board import Board, Log
from cnna.serve.engine.pending import Pending
from cnna.serve.engine.stats import Stats
from cnna.serve.models.repository import Repository, Version
from cnna.serve.models.settings import Settings
from cnna.spec.errors import BusyError, CheckError, CnnaError, RunError, UnknownError, UserError

READY, LOADING, UNLOADING, UNAVAILABLE = "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
FAULTS, FAULTY_BOARDS = 3, 2  # in a row, on so many boards: then a version is taken back


@dataclass(eq=False)
class Served:
    """A version and what the engine has of it. version: None until its files have been read."""

    model: str
    name: str
    version: Version | None = None
    state: str = LOADING
    reason: str = ""
    pending: Pending = field(default_factory=Pending)
    open: int = 0  # requests that have been admitted and not answered
    faults: list[str] = field(default_factory=list)  # the boards of the faults in a row
    stats: Stats = field(default_factory=Stats)
    freeing: "asyncio.Task[None] | None" = None

    @property
    def loaded(self) -> bool:
        """Whether boards must have it."""
        return self.state in (READY, UNLOADING) and self.version is not None


@dataclass(eq=False)
class Model:
    """A model. default: the version for requests that name none, as the last switch left it."""

    name: str
    settings: Settings = field(default_factory=Settings)
    versions: dict[str, Served] = field(default_factory=dict)
    reason: str = ""
    default: Served | None = None
    before: Served | None = None  # the default before the last switch
    unloaded: bool = False  # by an operator
    drawn: random.Random = field(default_factory=random.Random)

    def named(self, version: str) -> Served:
        """UnknownError: there is none of that name."""
        if version not in self.versions:
            raise UnknownError(f"model {self.name} has no version {version!r}; there are {', '.join(self.versions) or 'none'}")
        return self.versions[version]

    def chosen(self, version: str | None, identity: str) -> Served:
        """The version that a request gets. UnknownError: there is none of that name. BusyError: it is not ready."""
        found = self._canary(identity) or self.default if version is None else self.named(version)
        if found is None:
            raise BusyError(f"model {self.name} has no version that is ready: {self.why()}")
        if found.state != READY:
            raise BusyError(f"model {self.name}, version {found.name} is {found.state.lower()}: {found.reason or 'try again'}")
        return found

    def why(self) -> str:
        """What is wrong with it, in one line."""
        reasons = [f"version {one.name}: {one.reason or one.state.lower()}" for one in self.versions.values() if one.state != READY]
        return self.reason or "; ".join(reasons) or "it has no versions; cnna publish makes one"

    def _canary(self, identity: str) -> Served | None:
        """The canary's version for its share of the requests: always the same answer for one identity, random without one."""
        canary = self.settings.canary
        found = self.versions.get(canary.version) if canary else None
        if canary is None or found is None or found.state != READY:
            return None
        digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        drawn = int.from_bytes(digest, "big") / (1 << 64) if identity else self.drawn.random()
        return found if drawn < canary.share else None


class Catalogue:
    """All models. `changed` is called when a version has come or gone."""

    def __init__(self, repository: Repository, boards: Sequence[Board], changed: Callable[[], None], log: Log) -> None:
        self.repository, self.boards, self.log = repository, boards, log
        self.models: dict[str, Model] = {}
        self._changed = changed
        self._loading = asyncio.Lock()

    def served(self) -> Iterator[Served]:
        """All versions of all models."""
        for model in self.models.values():
            yield from model.versions.values()

    def wanted(self) -> list[Version]:
        """What a board must have loaded before it takes batches."""
        return [one.version for one in self.served() if one.loaded and one.version is not None]

    def model(self, name: str) -> Model:
        """UnknownError: there is none of that name."""
        if name not in self.models:
            raise UnknownError(f"there is no model {name!r}; there are {', '.join(self.models) or 'none'}")
        return self.models[name]

    async def load(self, name: str) -> list[Served]:
        """Reads a model's settings, loads the versions that they want, switches, and unloads the others; returns the refused ones.

        One bad version changes nothing for the others: its `reason` says what is wrong. UnknownError: there is no such model.
        UserError: model.yaml is wrong; what was served before is served on.
        """
        async with self._loading:
            there = self.repository.versions(name)
            model = self.models.setdefault(name, Model(name))
            try:
                settings = self.repository.settings(name)
            except UserError as error:
                model.reason = str(error)
                self.log("error", "model refused", model=name, cause=str(error))
                raise
            wanted = settings.chosen(there)
            for version in wanted:
                old = model.versions.get(version)
                if old is not None and old.freeing is not None:
                    await asyncio.wait([old.freeing])
                if old is None or old.state == UNAVAILABLE:
                    await self._load(model, version)
            model.reason = (
                "" if wanted else f"model.yaml asks for versions that are not there; there are {', '.join(there) or 'none'}"
            )
            model.settings, model.unloaded = settings, False
            self._switch(model, wanted)
            return [model.versions[one] for one in wanted if model.versions[one].state == UNAVAILABLE]

    async def unload(self, name: str) -> None:
        """Takes no more requests for a model; frees it once those that it has are answered."""
        model = self.model(name)
        model.default, model.before, model.unloaded = None, None, True
        for one in model.versions.values():
            self._retire(one, "unloaded by an operator")

    def _switch(self, model: Model, wanted: Sequence[str]) -> None:
        """Makes the highest version that is ready the default; the canary's is not, unless there is no other."""
        ready = [model.versions[name] for name in wanted if model.versions[name].state == READY]
        canary = model.settings.canary.version if model.settings.canary else None
        best = next((one for one in reversed(ready) if one.name != canary), ready[-1] if ready else None)
        if best is not None and best is not model.default:
            model.before, model.default = model.default, best
            self.log("info", "switched", model=model.name, version=best.name)
        for name, one in model.versions.items():
            if name not in wanted and one not in (model.default, model.before):
                self._retire(one, "not among the versions that model.yaml asks for")
        self._changed()

    async def _load(self, model: Model, name: str) -> None:
        """Reads and tests a version. Whatever is wrong with it becomes its reason."""
        served = model.versions[name] = Served(model.name, name)
        model.versions = {key: model.versions[key] for key in sorted(model.versions, key=int)}
        try:
            version = await asyncio.get_running_loop().run_in_executor(None, self.repository.version, model.name, name)
            await self._test(version)
            served.version, served.state = version, READY
            self.log("info", "version ready", model=model.name, version=name)
        except CnnaError as error:
            served.state, served.reason = UNAVAILABLE, str(error)
            self.log("error", "version refused", model=model.name, version=name, cause=str(error))

    async def _test(self, version: Version) -> None:
        """Loads a version on all boards that are ready. RunError: none could; says why.

        If its golden answers differ on all boards, the version is wrong. If they differ on some, these boards are wrong.
        """
        found: dict[Board, CnnaError | None] = {}
        while new := [board for board in self.boards if board.state == "ready" and board not in found]:
            done = await asyncio.gather(*(board.load(version) for board in new), return_exceptions=True)
            for board, error in zip(new, done, strict=True):
                if error is not None and not isinstance(error, CnnaError):
                    raise error
                found[board] = error
        good = [board for board, error in found.items() if error is None and board.runs(version)]
        for board, error in found.items():
            if isinstance(error, CheckError) and good:
                board.fail(str(error))
            elif error is not None:
                await board.unload(version)
        if not good:
            boards = [f"board {board.spec.name} is {board.state}: {board.cause}" for board in self.boards if board not in found]
            raise RunError(
                "; ".join(dict.fromkeys([str(error) for error in found.values() if error] + boards)) or "there is no board"
            )

    def _retire(self, served: Served, reason: str) -> None:
        """Takes no more requests for a version, and frees it once it has answered those that it has."""
        if served.state != READY:
            return
        served.state, served.reason = UNLOADING, reason
        served.freeing = asyncio.create_task(self._free(served))

    async def _free(self, served: Served) -> None:
        while served.open:  # each ends by its deadline
            await asyncio.sleep(0.01)
        served.state = UNAVAILABLE
        if served.version is not None:
            await asyncio.gather(*(board.unload(served.version) for board in self.boards), return_exceptions=True)
        self.log("info", "version unloaded", model=served.model, version=served.name, cause=served.reason)

    # --- faults ---

    def went_well(self, served: Served) -> None:
        """A batch was answered."""
        served.faults.clear()

    def fault(self, served: Served, board: str) -> None:
        """A board failed with a batch of this version. Several in a row, on several boards, are the version's fault."""
        served.faults.append(board)
        if len(served.faults) < FAULTS or len(set(served.faults)) < FAULTY_BOARDS or served.state != READY:
            return
        model = self.models[served.model]
        back = next((one for one in self._others(model, served) if one.state == READY), None)
        if back is None:
            return  # nothing to go back to: the version stays, and its requests may yet succeed
        reason = f"rolled back: {len(served.faults)} device faults in a row, on boards {', '.join(sorted(set(served.faults)))}"
        if model.default is served:
            model.default, model.before = back, None
        self.log("error", "rolled back", model=model.name, version=served.name, cause=reason, to=back.name)
        self._retire(served, reason)

    def lost(self, version: Version, reason: str) -> None:
        """A board came back without a version. If no other board has it, nobody is promised its answers any more."""
        served = next((one for one in self.served() if one.version is version), None)
        if served is None or any(board.state == "ready" and board.runs(version) for board in self.boards):
            return
        model = self.models[served.model]
        served.state, served.reason = UNAVAILABLE, reason
        if model.default is served:
            model.default, model.before = next((one for one in self._others(model, served) if one.state == READY), None), None
        self.log("error", "version lost", model=model.name, version=served.name, cause=reason)

    def _others(self, model: Model, served: Served) -> list[Served]:
        """What may take a version's place, the best first."""
        first = [one for one in (model.default, model.before) if one is not None and one is not served]
        return [*first, *(one for one in reversed(model.versions.values()) if one is not served)]
