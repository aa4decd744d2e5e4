"""What is served: models and their versions, each with its state, its queue and its counts."""

import asyncio
import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cnna.serve.lifecycle.versions import BROKEN_OFF, LOADING, READY, UNAVAILABLE, UNLOADING, ModelLife, VersionLife
from cnna.serve.models.settings import Settings
from cnna.serve.models.version import Version
from cnna.serve.requests.composed import Composition
from cnna.serve.requests.pending import PendingRequests
from cnna.serve.requests.stats import Stats
from cnna.spec.counts import shown
from cnna.spec.errors import BusyError, UnknownError

__all__ = ["BROKEN_OFF", "COMING", "LOADING", "READY", "UNAVAILABLE", "UNLOADING", "Models", "Served", "ServedModel"]
COMING = "it is being loaded"


@dataclass(eq=False)
class Served:
    """A version and what the engine has of it. version: None until its files have been read.

    life: as its model's life says, which `ServedModel.becomes` alone changes. open: requests that have been admitted and not
    answered. held: open requests to a pipeline that may yet ask it.
    """

    model: str
    name: str
    version: Version | None = None
    life: VersionLife = field(default_factory=VersionLife)
    pending: PendingRequests = field(default_factory=PendingRequests)
    open: int = 0
    held: int = 0
    stats: Stats = field(default_factory=Stats)
    freeing: "asyncio.Task[None] | None" = None
    composition: Composition | None = None  # of a pipeline

    @property
    def state(self) -> str:
        """Of its life."""
        return self.life.state

    @property
    def reason(self) -> str:
        """Why it takes no requests."""
        return self.life.reason


@dataclass(eq=False)
class ServedModel:
    """A model. reason: why its folder cannot be read, or has nothing to serve; its versions have reasons of their own."""

    name: str
    settings: Settings = field(default_factory=Settings)
    life: ModelLife = field(default_factory=ModelLife)
    versions: dict[str, Served] = field(default_factory=dict)  # those of its life
    reason: str = ""
    drawn: random.Random = field(default_factory=random.Random)
    needs: frozenset[str] = frozenset()  # of a pipeline that is refused: the models that may cure it
    refusal: Callable[[], str | None] | None = None  # of a pipeline: why a part takes no requests now

    @property
    def default(self) -> Served | None:
        """The version for requests that name none."""
        return None if self.life.default is None else self.versions[self.life.default]

    def becomes(self, life: ModelLife) -> None:
        """Makes this its life. A version that begins to be loaded begins anew, without the requests and counts that it had."""
        for name, one in life.versions.items():
            served = self.versions.get(name)
            if served is None or (one.state == LOADING != served.state):
                self.versions[name] = served = Served(self.name, name)
            served.life = one
        self.life, self.versions = life, {name: self.versions[name] for name in life.versions}

    def named(self, version: str) -> Served:
        """UnknownError: there is none of that name."""
        if version not in self.versions:
            raise UnknownError(f"model {self.name} has no version {shown(version)}; there are {', '.join(self.versions) or 'none'}")
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
