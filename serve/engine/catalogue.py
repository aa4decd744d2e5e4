"""The models and versions that are served: loads and tests versions, switches to them, and goes back when they fail.

A version is loaded and tested on every board that is ready before it is named to anybody. The switch is one assignment. The version
that it replaces stays loaded until the next switch, so that a rollback is one assignment too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from cnna.serve.engine.assembly import ONLY, Assembly, Steps
from cnna.serve.engine.board import EngineBoard, Log
from cnna.serve.engine.served import BROKEN_OFF, LOADING, READY, UNAVAILABLE, UNLOADING, Served, ServedModel, refusal_of
from cnna.serve.models.repository import Repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.version import Version
from cnna.spec.errors import BusyError, CheckError, CnnaError, LateError, RunError, UnknownError, UserError

PAUSES = 1.0, 60.0  # seconds before a version is loaded again whose runtime cannot answer now: the first and the longest
FAULTS, FAULTY_BOARDS = 3, 2  # in a row, on so many boards: then a version is taken back


class Catalogue:
    """All models. changed: is called when a version has come or gone. need: awaited for each runtime that a version wants."""

    def __init__(
        self,
        repository: Repository,
        boards: Sequence[EngineBoard],
        changed: Callable[[], None],
        log: Log,
        need: Callable[[str], Awaitable[None]],
    ) -> None:
        self.repository, self.boards, self.log, self._need = repository, boards, log, need
        self.models: dict[str, ServedModel] = {}
        self._assembly = Assembly(repository, self.models, Steps(self._tested, self._unload, self._retire))
        self._retries: dict[str, asyncio.Task[None]] = {}  # by model
        self._changed = changed
        self._loading = asyncio.Lock()

    def served(self) -> Iterator[Served]:
        """All versions of all models."""
        for model in self.models.values():
            yield from model.versions.values()

    def wanted(self) -> list[Version]:
        """What a board must have loaded before it takes batches."""
        return [one.version for one in self.served() if one.loaded and one.version is not None]

    def model(self, name: str) -> ServedModel:
        """UnknownError: there is none of that name."""
        if name not in self.models:
            raise UnknownError(f"there is no model {name!r}; there are {', '.join(self.models) or 'none'}")
        return self.models[name]

    async def load(self, name: str, again: bool = False) -> list[Served]:
        """Reads a model's settings, loads the versions that they want, switches, and unloads the others; returns the refused ones.

        again: of those that are unavailable, only the busy ones. Others, such as one that was taken back, wait for an operator; so
        does a model that was unloaded. An operator who unloads the model meanwhile has the last word.
        One bad version changes nothing for the others: its `reason` says what is wrong. UnknownError: there is no such model.
        UserError: model.yaml is wrong, or cannot be read; what was served before is served on.
        """
        unloads = self._unloads(name)
        async with self._loading:
            if self._unloads(name) != unloads or (again and self.model(name).unloaded):
                return []
            try:
                there, settings = self.repository.versions(name), self.repository.settings(name)
            except UnknownError:
                raise
            except Exception as error:
                refusal = refusal_of(error)
                self.models.setdefault(name, ServedModel(name)).reason = str(refusal)
                self.log("error", "model refused", model=name, cause=str(refusal))
                raise refusal from None
            model = self.models.setdefault(name, ServedModel(name))
            model.reason = ""  # of the load before: this one may take long, and ends otherwise
            if self.repository.has_pipeline(name):
                return await self._assemble(model, settings, unloads)
            wanted = settings.chosen(there)
            for version in wanted:
                old = model.versions.get(version)
                if old is not None and old.freeing is not None:
                    await asyncio.wait([old.freeing])
                if old is None or (old.state == UNAVAILABLE and (old.busy or not again)):
                    await self._load(model, version, settings)
                if model.unloads != unloads:
                    self._put_away(model)
                    return []
            model.reason = "" if wanted else self._nothing(name, there)
            model.settings, model.unloaded = settings, False
            self._switch(model, wanted)
            for other in list(self.models.values()):
                if name in other.needs and not other.unloaded:
                    await self._assemble(other, other.settings, other.unloads)
            await self._catch_up()
            if model.unloads != unloads:
                return []
            return [model.versions[one] for one in wanted if model.versions[one].state == UNAVAILABLE]

    def _nothing(self, name: str, there: Sequence[str]) -> str:
        """Why a model has no version to serve. It is no error, since one may come, but nothing else would tell of it."""
        asked = f"model.yaml asks for versions that are not there; there are {', '.join(there)}"
        reason = asked if there else self.repository.why_no_versions(name)
        self.log("warning", "no version", model=name, cause=reason)
        return reason

    async def unload(self, name: str) -> None:
        """Takes no more requests for a model; frees it once those that it has are answered."""
        model = self.model(name)
        model.unloads += 1
        self._put_away(model)

    def _unloads(self, name: str) -> int:
        return self.models[name].unloads if name in self.models else 0

    def _put_away(self, model: ServedModel) -> None:
        """Unloads all that there is of a model."""
        pieces = self._assembly.pieces(model.name)
        for each in (model, *pieces):
            each.default, each.before, each.unloaded = None, None, True
            for one in each.versions.values():
                self._retire(one, "unloaded by an operator", model.versions[ONLY] if each in pieces else None)

    async def _assemble(self, model: ServedModel, settings: Settings, unloads: int) -> list[Served]:
        """Loads a pipeline. unloads: how often it had been unloaded when that was asked for."""
        old = model.versions.get(ONLY)
        if old is not None and old.freeing is not None:
            await asyncio.wait([old.freeing])
        refused = await self._assembly.load(model)
        if model.unloads != unloads:
            self._put_away(model)
            return []
        model.settings, model.unloaded = settings, False
        model.reason = refused[0].reason if refused else ""
        if refused:
            self.log("error", "version refused", model=model.name, version=ONLY, cause=model.reason)
        else:
            self.log("info", "version ready", model=model.name, version=ONLY)
        self._changed()
        await self._catch_up()
        return refused

    async def _catch_up(self) -> None:
        """Brings what was loaded to boards that have become ready while it was tested on others."""
        await asyncio.gather(*(board.catch_up() for board in self.boards))

    async def _tested(self, version: Version) -> None:
        """Loads a version on boards that can run it, and tests it there."""
        for runtime in version.runtimes():
            await self._need(runtime)
        await self._test(version)

    def _switch(self, model: ServedModel, wanted: Sequence[str]) -> None:
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

    async def _load(self, model: ServedModel, name: str, settings: Settings) -> None:
        """Reads and tests a version. Whatever is wrong with it becomes its reason."""
        served = model.versions[name] = Served(model.name, name)
        model.versions = {key: model.versions[key] for key in sorted(model.versions, key=int)}
        try:
            version = await asyncio.get_running_loop().run_in_executor(None, self.repository.version, model.name, name, settings)
            await self._tested(version)
            served.version, served.state = version, READY
            prepared = version.signature.prepared()
            self.log("info", "version ready", model=model.name, version=name, **({"pictures": prepared} if prepared else {}))
        except Exception as error:
            refusal = refusal_of(error)
            served.state, served.reason, served.busy = UNAVAILABLE, str(refusal), isinstance(refusal, BusyError)
            if served.busy:
                self._retry(model.name)
            self.log("error", "version refused", model=model.name, version=name, cause=served.reason)
        finally:
            if served.state == LOADING:  # whoever asked for it has gone; a version that loads for ever would never be loaded again
                served.state, served.reason = UNAVAILABLE, BROKEN_OFF

    async def _test(self, version: Version) -> None:
        """Loads a version on all boards that are ready. RunError: none could; says why.

        If its golden answers differ on all boards, the version is wrong. If they differ on some, these boards are wrong.
        """
        takers, found = await self._tried(version, [version.runtime])
        good = [board for board, error in found.items() if error is None and board.runs(version)]
        for board, error in found.items():
            if isinstance(error, CheckError) and good:
                board.fail(str(error))
            elif error is not None:
                await board.unload(version)
        sound = not any(isinstance(error, (UserError, CheckError)) for error in found.values())
        if not good and not (sound and await self._spare(version)):
            boards = [f"board {board.spec.name} is {board.state}: {board.cause}" for board in takers if board not in found]
            errors = [error for error in found.values() if error]
            text = "; ".join(dict.fromkeys([*map(str, errors), *boards])) or f"there is no board for the runtime {version.runtime}"
            busy = errors and all(isinstance(error, (BusyError, LateError)) for error in errors)
            raise BusyError(text) if busy else RunError(text)
        if good:
            await self._spare(version)

    async def _spare(self, version: Version) -> bool:
        """Loads a version's fallback. Whether it is there and can answer; why not is in the log."""
        _, found = await self._tried(version, version.runtimes()[1:])
        for board, error in found.items():
            if error is not None:
                known = {"model": version.model, "version": version.name, "board": board.spec.name}
                self.log("error", "fallback refused", cause=str(error), **known)
                await board.unload(version, version.runtimes()[1:])
        return any(error is None for error in found.values())

    async def _tried(
        self, version: Version, runtimes: Sequence[str]
    ) -> tuple[list[EngineBoard], dict[EngineBoard, CnnaError | None]]:
        """The boards for these runtimes, and how the version was loaded on those that are ready. One may become so meanwhile."""
        found: dict[EngineBoard, CnnaError | None] = {}
        takers = [board for board in self.boards if any(map(board.spec.takes, runtimes))]
        while new := [board for board in takers if board.state == "ready" and board not in found]:
            done = await asyncio.gather(*(board.load(version, runtimes) for board in new), return_exceptions=True)
            for board, error in zip(new, done, strict=True):
                if error is not None and not isinstance(error, CnnaError):
                    error = RunError(f"board {board.spec.name}: internal error: {type(error).__name__}: {error}")
                found[board] = error
        return takers, found

    def _retry(self, model: str) -> None:
        """Loads a model again, after growing pauses, until what it needs can answer, or an operator unloads it."""
        if model not in self._retries or self._retries[model].done():
            self._retries[model] = asyncio.create_task(self._again(model))

    async def _again(self, model: str) -> None:
        pause = PAUSES[0]
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
            try:
                refused = await self.load(model, again=True)
            except UnknownError:  # its folder is gone
                return
            except CnnaError:  # model.yaml is wrong, perhaps for a moment
                refused = list(self.models[model].versions.values())
            if self.models[model].unloaded or not any(one.busy for one in refused):
                return

    def close(self) -> None:
        """Ends what goes on by itself."""
        for task in self._retries.values():
            task.cancel()

    def _retire(self, served: Served, reason: str, until: Served | None = None) -> None:
        """Takes no more requests for a version, and frees it once it has answered those that it has.

        until: it is a piece of this pipeline, whose open requests may still ask it.
        """
        if served.state != READY:
            return
        served.state, served.reason, served.until = UNLOADING, reason, until
        served.freeing = asyncio.create_task(self._free(served))

    async def _free(self, served: Served) -> None:
        while served.in_use:  # each request ends by its deadline
            await asyncio.sleep(0.01)
        served.state = UNAVAILABLE
        if served.version is not None:
            await self._unload(served.version)
        self.log("info", "version unloaded", model=served.model, version=served.name, cause=served.reason)

    async def _unload(self, version: Version) -> None:
        """Frees what a version keeps on the boards."""
        await asyncio.gather(*(board.unload(version) for board in self.boards), return_exceptions=True)

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

    def lost(self, back: EngineBoard, version: Version, reason: str) -> Served | None:
        """A board came back without a version. If no other one has it or may yet, nobody is promised its answers any more: it is
        returned then.
        """
        served = next((one for one in self.served() if one.version is version), None)
        others = [one for one in self.boards if one is not back and one.can(version) and version not in one.without]
        if served is None or any(board.runs(version) or board.state in ("starting", "resting") for board in others):
            return None
        model = self.models[served.model]
        served.state, served.reason = UNAVAILABLE, reason
        if model.default is served:
            model.default, model.before = next((one for one in self._others(model, served) if one.state == READY), None), None
        self.log("error", "version lost", model=model.name, version=served.name, cause=reason)
        return served

    def _others(self, model: ServedModel, served: Served) -> list[Served]:
        """What may take a version's place, the best first."""
        first = [one for one in (model.default, model.before) if one is not None and one is not served]
        return [*first, *(one for one in reversed(model.versions.values()) if one is not served)]
