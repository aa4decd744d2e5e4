"""The models and versions that are served: reads what is wanted, has it tested on boards, and carries out what their lives say.

`serve.lifecycle.versions` decides; `_happened` is the one place that changes a version's state, and does what follows from it. A
version is loaded and tested on every board that is ready before it is named to anybody. The one that it replaces stays loaded
until the next switch, so that a rollback is one step too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from cnna.serve.engine.assembly import ONLY, PIECE, Assembly
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.served import READY, UNAVAILABLE, UNLOADING, Served, ServedModel
from cnna.serve.engine.trials import Trials
from cnna.serve.lifecycle import versions
from cnna.serve.lifecycle.arrow import Log as LogLine
from cnna.serve.models.repository import Repository, refusal_of
from cnna.serve.models.settings import Settings
from cnna.serve.models.version import Version
from cnna.serve.requests.composed import RUNTIME, Composition
from cnna.serve.requests.history import Log
from cnna.serve.requests.open_requests import OpenRequests
from cnna.spec.counts import shown
from cnna.spec.errors import BusyError, CnnaError, UnknownError

PAUSES = 1.0, 60.0  # seconds before a version is loaded again whose runtime cannot answer now: the first and the longest


class Catalogue:
    """All models. changed: is called when a version has come or gone. need: awaited for each runtime that a version wants."""

    def __init__(
        self,
        repository: Repository,
        boards: Sequence[EngineBoard],
        requests: OpenRequests,
        log: Log,
        need: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self.repository, self.boards, self.log, self._requests, self._changed = repository, boards, log, requests, changed
        self.models: dict[str, ServedModel] = {}
        self._assembly = Assembly(repository, self.models)
        self._trials = Trials(boards, need, self.wanted, log)
        self._retries: dict[str, asyncio.Task[None]] = {}  # by model
        self._loading = asyncio.Lock()

    def served(self) -> Iterator[Served]:
        """All versions of all models."""
        for model in self.models.values():
            yield from model.versions.values()

    def wanted(self) -> list[Version]:
        """What a board must have loaded before it takes batches."""
        return [one.version for one in self.served() if one.state in (READY, UNLOADING) and one.version is not None]

    def model(self, name: str) -> ServedModel:
        """UnknownError: there is none of that name."""
        if name not in self.models:
            raise UnknownError(f"there is no model {shown(name)}; there are {', '.join(self.models) or 'none'}")
        return self.models[name]

    async def load(self, name: str, again: bool = False) -> list[Served]:
        """Reads a model's settings, loads the versions that they want, switches, and unloads the others; returns the refused ones.

        again: of those that are unavailable, only the busy ones. Others, such as one that was taken back, wait for an operator; so
        does a model that was unloaded. An operator who unloads the model meanwhile has the last word.
        One bad version changes nothing for the others: its `reason` says what is wrong. UnknownError: there is no such model.
        UserError: model.yaml is wrong, or cannot be read; what was served before is served on.
        """
        if not again and name in self.models:
            self._happened(self.models[name], self.models[name].life.asked())
        async with self._loading:
            if name in self.models and not self.models[name].life.wanted:
                return []
            there, settings = self._read(name)
            model = self.models.setdefault(name, ServedModel(name))
            model.reason = ""  # of the load before: this one may take long, and ends otherwise
            if self.repository.has_pipeline(name):
                return await self._assemble(model, settings)
            wanted = settings.chosen(there)
            if not await self._bring(model, wanted, settings, again):
                return []
            model.reason, model.settings = "" if wanted else self._nothing(name, there), settings
            self._happened(model, model.life.chosen(wanted, settings.canary.version if settings.canary else None))
            for other in list(self.models.values()):
                if name in other.needs and not other.life.unloaded:
                    await self._assemble(other, other.settings)
            await self._catch_up()
            refused = [model.versions[one] for one in wanted if model.versions[one].state == UNAVAILABLE]
            return [one for one in refused if one.reason != versions.BY_OPERATOR]

    async def _bring(self, model: ServedModel, wanted: Sequence[str], settings: Settings, again: bool) -> bool:
        """Loads all versions that are not there. Whether the model is still wanted then."""
        tried = set[str]()
        while True:
            what, name = versions.next_load(model.life, wanted, tried, again)
            freeing = model.versions[name].freeing if name in model.versions else None
            if freeing is not None and not freeing.done():
                await asyncio.wait([freeing])
            elif what == versions.LOAD:
                tried.add(name)
                await self._load(model, name, settings)
            else:
                return what == versions.CHOOSE

    def _read(self, name: str) -> tuple[Sequence[str], Settings]:
        """The versions that are there, and the settings."""
        try:
            return self.repository.versions(name), self.repository.settings(name)
        except UnknownError:
            raise
        except Exception as error:
            refusal = refusal_of(error)
            self.models.setdefault(name, ServedModel(name)).reason = str(refusal)
            self.log("error", "model refused", model=name, cause=str(refusal))
            raise refusal from None

    def _nothing(self, name: str, there: Sequence[str]) -> str:
        """Why a model has no version to serve. It is no error, since one may come, but nothing else would tell of it."""
        asked = f"model.yaml asks for versions that are not there; there are {', '.join(there)}"
        reason = asked if there else self.repository.why_no_versions(name)
        self.log("warning", "no version", model=name, cause=reason)
        return reason

    async def unload(self, name: str) -> None:
        """Takes no more requests for a model; frees it once those that it has are answered."""
        self._put_away(self.model(name))

    def _put_away(self, model: ServedModel) -> None:
        """Unloads all that there is of a model."""
        for each in (model, *self._pieces(model.name)):
            self._happened(each, each.life.unload())

    async def _assemble(self, model: ServedModel, settings: Settings) -> list[Served]:
        """Loads a pipeline. If it is refused, what was served before is served on; a model that is loaded later may cure it."""
        old = model.versions.get(ONLY)
        if old is not None and old.freeing is not None:
            await asyncio.wait([old.freeing])
        try:
            pipeline = await asyncio.to_thread(self.repository.pipeline, model.name)
            model.needs = frozenset(pipeline.models())
            composition, pieces = await self._assembly.checked(model.name, pipeline)
            async with self._trials.of(pieces):
                for piece in pieces:
                    await self._trials.test(piece)
                self._take(model, composition, pieces)
        except Exception as error:
            model.reason = str(refusal_of(error))
            self._happened(model, model.life.refused(ONLY, model.reason))
        except BaseException:
            self._happened(model, model.life.broken_off(ONLY))
            raise
        else:
            model.reason = ""
        if not model.life.wanted:
            self._put_away(model)
            return []
        model.settings = settings
        if not model.reason:
            self.log("info", "version ready", model=model.name, version=ONLY)
        self._changed()
        await self._catch_up()
        return [Served(model.name, ONLY, life=versions.VersionLife(UNAVAILABLE, model.reason))] if model.reason else []

    def _pieces(self, pipeline: str) -> list[ServedModel]:
        """The models that are its functions and ONNX pieces."""
        return [model for name, model in self.models.items() if name.startswith(f"{pipeline}:")]

    def _take(self, model: ServedModel, composition: Composition, pieces: list[Version]) -> None:
        """Serves a pipeline with these pieces, and no others. Requests that are open keep theirs."""
        before = {piece.name: piece for piece in self._pieces(model.name)}
        for version in pieces:
            own = before.pop(version.model, None) or self.models.setdefault(version.model, ServedModel(version.model, PIECE))
            own.versions[version.name] = Served(own.name, version.name, version)
            self._happened(own, own.life.taken(version.name, "the pipeline was loaded again"))
        for left in before.values():
            self._happened(left, left.life.unload("the pipeline has no such step any more"))
        new = Served(model.name, ONLY, Version(model.name, ONLY, composition.signature, {}, None, RUNTIME), composition=composition)
        if ONLY in model.versions:
            new.stats = model.versions[ONLY].stats
        model.versions[ONLY] = new
        self._happened(model, model.life.taken(ONLY))
        model.needs, model.refusal = frozenset(), lambda: self._assembly.refusal(composition)

    async def _catch_up(self) -> None:
        """Brings what was loaded to boards that have become ready while it was tested on others."""
        await asyncio.gather(*(board.catch_up() for board in self.boards))

    async def _load(self, model: ServedModel, name: str, settings: Settings) -> None:
        """Reads and tests a version. Whatever is wrong with it becomes its reason."""
        self._happened(model, model.life.found(name))
        try:
            version = await asyncio.to_thread(self.repository.version, model.name, name, settings)
            async with self._trials.of([version]):
                await self._trials.test(version)
                model.versions[name].version = version
                prepared = version.signature.prepared()
                self._happened(model, model.life.tested(name, {"pictures": prepared} if prepared else {}))
        except Exception as error:
            refusal = refusal_of(error)
            self._happened(model, model.life.refused(name, str(refusal), isinstance(refusal, BusyError)))
        except BaseException:
            self._happened(model, model.life.broken_off(name))
            raise

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
            if not self.models[model].life.wanted or not any(one.life.busy for one in refused):
                return

    def close(self) -> None:
        """Ends what goes on by itself."""
        for task in self._retries.values():
            task.cancel()

    # --- what happens to versions ---

    def _happened(self, model: ServedModel, step: versions.Next) -> None:
        """Takes a step in a model's life, and does what follows from it."""
        life, effects = step
        model.becomes(life)
        for effect in effects:
            self._do(model, effect)
        for board in self.boards:
            board.look()

    def _do(self, model: ServedModel, effect: versions.Effect) -> None:
        match effect:
            case LogLine():
                self.log(effect.level, effect.event, model=model.name, **effect.more)
            case versions.Drain():
                served = model.versions[effect.version]
                served.freeing = asyncio.create_task(self._drain(model, served))
            case versions.EndRequests():
                self._requests.lose(model.name, effect.version, effect.reason)
            case versions.Retry():
                self._retry(model.name)
            case versions.Changed():
                self._changed()

    async def _drain(self, model: ServedModel, served: Served) -> None:
        """Frees a version once no request asks it any more: each request ends by its deadline."""
        while served.open or served.held:
            await asyncio.sleep(0.01)
        if model.versions[served.name] is served:  # a pipeline's next one has its name
            self._happened(model, model.life.drained(served.name))
        if served.version is not None:
            await self._trials.free(served.version)
        self.log("info", "version unloaded", model=served.model, version=served.name, cause=served.reason)

    def went_well(self, served: Served) -> None:
        """A batch was answered. Nothing counts for another version, which was loaded since under the same name."""
        model = self.models[served.model]
        if served.life.faults and model.versions[served.name] is served:
            self._happened(model, model.life.answered(served.name))

    def fault(self, served: Served, board: str) -> None:
        """A board failed with a batch of this version. It counts as of `went_well`."""
        model = self.models[served.model]
        if model.versions[served.name] is served:
            self._happened(model, model.life.fault(served.name, board))

    def lost(self, back: EngineBoard, version: Version, reason: str) -> None:
        """A board came back without a version. If no other one has it or may yet, nobody is promised its answers any more."""
        served = next((one for one in self.served() if one.version is version), None)
        if served is not None and not any(board.may_run(version) for board in self.boards if board is not back):
            model = self.models[served.model]
            self._happened(model, model.life.lost(served.name, reason))
