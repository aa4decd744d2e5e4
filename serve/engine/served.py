"""What is served: models and their versions, each with its state, its queue and its counts."""

import asyncio
import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cnna.serve.engine.composed import Composition
from cnna.serve.engine.pending import PendingRequests
from cnna.serve.engine.stats import Stats
from cnna.serve.lifecycle.versions import BROKEN_OFF, LOADING, READY, UNAVAILABLE, UNLOADING, ModelLife, VersionLife
from cnna.serve.models.settings import Settings
from cnna.serve.models.version import Version
from cnna.spec.errors import BusyError, CnnaError, RunError, UnknownError, UserError, reason_of

__all__ = ["BROKEN_OFF", "COMING", "LOADING", "READY", "UNAVAILABLE", "UNLOADING", "Models", "Served", "ServedModel", "refusal_of"]
COMING = "it is being loaded"


@dataclass(eq=False)
class Served:
    """A version and what the engine has of it. version: None until its files have been read.

    state, reason, busy, faults: its life, which `ServedModel.lives` alone changes. open: requests that have been admitted and not
    answered. held: open requests to a pipeline that may yet ask it.
    """

    model: str
    name: str
    version: Version | None = None
    state: str = LOADING
    reason: str = ""
    busy: bool = False
    pending: PendingRequests = field(default_factory=PendingRequests)
    open: int = 0
    held: int = 0
    faults: tuple[str, ...] = ()
    stats: Stats = field(default_factory=Stats)
    freeing: "asyncio.Task[None] | None" = None
    composition: Composition | None = None  # of a pipeline

    @property
    def loaded(self) -> bool:
        """Whether boards must have it."""
        return self.state in (READY, UNLOADING) and self.version is not None


@dataclass(eq=False)
class ServedModel:
    """A model. default, before, wanted, unloaded: as in its life."""

    name: str
    settings: Settings = field(default_factory=Settings)
    versions: dict[str, Served] = field(default_factory=dict)
    reason: str = ""
    default: Served | None = None
    before: Served | None = None
    wanted: bool = True
    unloaded: bool = False
    drawn: random.Random = field(default_factory=random.Random)
    needs: frozenset[str] = frozenset()  # of a pipeline that is refused: the models that may cure it
    refusal: Callable[[], str | None] | None = None  # of a pipeline: why a part takes no requests now

    def life(self) -> ModelLife:
        """Its life and those of its versions, as they are now."""
        versions = {name: VersionLife(one.state, one.reason, one.busy, one.faults) for name, one in self.versions.items()}
        default, before = (None if one is None else one.name for one in (self.default, self.before))
        return ModelLife(versions, default, before, self.wanted, self.unloaded)

    def lives(self, life: ModelLife) -> None:
        """Makes this its life. A version that begins to be loaded begins anew, without the requests and counts that it had."""
        for name, one in life.versions.items():
            served = self.versions.get(name)
            if served is None or (one.state == LOADING != served.state):
                served = self.versions[name] = Served(self.name, name)
                self.versions = {key: self.versions[key] for key in sorted(self.versions, key=int)}
            served.state, served.reason, served.busy, served.faults = one.state, one.reason, one.busy, one.faults
        self.default = None if life.default is None else self.versions[life.default]
        self.before = None if life.before is None else self.versions.get(life.before)
        self.wanted, self.unloaded = life.wanted, life.unloaded

    def named(self, version: str) -> Served:
        """UnknownError: there is none of that name."""
        if version not in self.versions:
            raise UnknownError(f"model {self.name} has no version {version!r}; there are {', '.join(self.versions) or 'none'}")
        return self.versions[version]

    def chosen(self, version: str | None, identity: str, within: bool = False) -> Served:
        """The version that a request gets. UnknownError: there is none of that name. BusyError: it is not ready.

        within: the request is a step of one that was admitted, whose pipeline may keep the version until it has been answered.
        """
        found = self._canary(identity) or self.default if version is None else self.named(version)
        if found is None:
            raise BusyError(f"model {self.name} has no version that is ready: {self.why()}")
        if found.state != READY and not (within and found.state == UNLOADING and found.held > 0):
            raise BusyError(f"model {self.name}, version {found.name} is {found.state.lower()}: {found.reason or 'try again'}")
        if self.refusal is not None and (why := self.refusal()) is not None:
            raise BusyError(f"model {self.name}: {why}")
        return found

    def why(self) -> str:
        """What is wrong with it, in one line."""
        reasons = [f"version {one.name}: {one.reason or one.state.lower()}" for one in self.versions.values() if one.state != READY]
        return self.reason or "; ".join(reasons) or COMING

    def _canary(self, identity: str) -> Served | None:
        """The canary's version for its share of the requests: always the same answer for one identity, random without one."""
        canary = self.settings.canary
        found = self.versions.get(canary.version) if canary else None
        if canary is None or found is None or found.state != READY:
            return None
        digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        drawn = int.from_bytes(digest, "big") / (1 << 64) if identity else self.drawn.random()
        return found if drawn < canary.share else None


Models = dict[str, ServedModel]


def refusal_of(error: Exception) -> CnnaError:
    """Why a load was refused, in one line, whatever has ended it."""
    if isinstance(error, CnnaError):
        return error
    if isinstance(error, OSError):
        where = error.filename or "the model's files"
        return UserError(f"{where}: {error.strerror or reason_of(error)}; mend it and load the model again")
    return RunError(f"internal error: {type(error).__name__}: {reason_of(error)}")
