"""What is served: models and their versions, each with its state, its queue and its counts."""

import asyncio
import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cnna.serve.engine.composed import Composition
from cnna.serve.engine.pending import PendingRequests
from cnna.serve.engine.stats import Stats
from cnna.serve.models.settings import Settings
from cnna.serve.models.version import Version
from cnna.spec.errors import BusyError, CnnaError, RunError, UnknownError, UserError, reason_of

READY, LOADING, UNLOADING, UNAVAILABLE = "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
COMING = "it is being loaded"
BROKEN_OFF = "its load was broken off; load the model again"


@dataclass(eq=False)
class Served:
    """A version and what the engine has of it. version: None until its files have been read."""

    model: str
    name: str
    version: Version | None = None
    state: str = LOADING
    reason: str = ""
    busy: bool = False  # it is unavailable since what it needs cannot answer now
    pending: PendingRequests = field(default_factory=PendingRequests)
    open: int = 0  # requests that have been admitted and not answered
    faults: list[str] = field(default_factory=list)  # the boards of the faults in a row
    stats: Stats = field(default_factory=Stats)
    freeing: "asyncio.Task[None] | None" = None
    composition: Composition | None = None  # of a pipeline
    until: "Served | None" = None  # of a pipeline's piece that is unloading: the pipeline whose open requests may still ask it

    @property
    def in_use(self) -> bool:
        """Whether a request that it has, or may yet get from a pipeline's open requests, keeps it from being freed."""
        return self.open > 0 or (self.until is not None and self.until.open > 0)

    @property
    def loaded(self) -> bool:
        """Whether boards must have it."""
        return self.state in (READY, UNLOADING) and self.version is not None


@dataclass(eq=False)
class ServedModel:
    """A model. default: the version for requests that name none, as the last switch left it."""

    name: str
    settings: Settings = field(default_factory=Settings)
    versions: dict[str, Served] = field(default_factory=dict)
    reason: str = ""
    default: Served | None = None
    before: Served | None = None  # the default before the last switch
    unloaded: bool = False  # by an operator
    unloads: int = 0  # how often that was: a load that began before the last one brings nothing back
    drawn: random.Random = field(default_factory=random.Random)
    needs: frozenset[str] = frozenset()  # of a pipeline that is refused: the models that may cure it
    refusal: Callable[[], str | None] | None = None  # of a pipeline: why a part takes no requests now

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
        if found.state != READY and not (within and found.state == UNLOADING and found.until is not None):
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
