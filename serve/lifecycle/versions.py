"""The lives of a model's versions: which are ready, which one is the default, and what an operator wants of the model.

An event's `on` gives the next life and the effects that the catalogue carries out. A load takes long, and an operator may change
his mind meanwhile: `wanted` is his last word. Whatever ends later obeys it, by looking at it and not by counting what came before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cnna.serve.lifecycle.arrow import ABSENT, Arrow, after

READY, LOADING, UNLOADING, UNAVAILABLE = "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
BROKEN_OFF = "its load was broken off; load the model again"
BY_OPERATOR = "unloaded by an operator"
NOT_ASKED = "not among the versions that model.yaml asks for"
FAULTS, FAULTY_BOARDS = 3, 2  # in a row, on so many boards: then a version is taken back
MACHINE = (
    Arrow(ABSENT, "found", LOADING),
    Arrow(UNAVAILABLE, "found", LOADING),
    Arrow(LOADING, "tested", READY),
    Arrow(LOADING, "refused", UNAVAILABLE),
    Arrow(LOADING, "broken off", UNAVAILABLE),
    *(Arrow(state, what, UNAVAILABLE) for state in (ABSENT, UNAVAILABLE) for what in ("refused", "broken off")),  # pipelines
    Arrow(ABSENT, "taken", READY),
    Arrow(UNAVAILABLE, "taken", READY),
    Arrow(READY, "retired", UNLOADING),
    Arrow(READY, "lost", UNAVAILABLE),
    Arrow(UNLOADING, "lost", UNAVAILABLE),
    Arrow(UNLOADING, "drained", UNAVAILABLE),
)


@dataclass(frozen=True)
class VersionLife:
    """One version. busy: it is unavailable since what it needs cannot answer now. faults: the boards of the faults in a row."""

    state: str = ABSENT
    reason: str = ""
    busy: bool = False
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelLife:
    """A model. default: the version for requests that name none. before: the default before the last switch.

    wanted: an operator's last word. unloaded: there is nothing to serve, since he said so; a load that has ended changes that.
    """

    versions: Mapping[str, VersionLife] = field(default_factory=dict)
    default: str | None = None
    before: str | None = None
    wanted: bool = True
    unloaded: bool = False

    def of(self, version: str) -> VersionLife:
        """A version's life; one that is not there has none yet."""
        return self.versions.get(version, VersionLife())

    def moved(self, version: str, what: str, reason: str = "", **more: Any) -> "ModelLife":
        """The same, but for a version that takes the arrow of that name; the same itself where there is none."""
        old = self.of(version)
        if not any((one.source, one.what) == (old.state, what) for one in MACHINE):
            return self
        new = VersionLife(after(MACHINE, old.state, what), reason, **more)
        return replace(self, versions={**self.versions, version: new})

    def instead_of(self, version: str) -> str | None:
        """The version that may take another one's place: the default or the one before it, then the highest."""
        first = [one for one in (self.default, self.before) if one is not None]
        others = (one for one in (*first, *reversed(list(self.versions))) if one != version)
        return next((one for one in others if self.of(one).state == READY), None)


@dataclass(frozen=True)
class Log:
    """A line for the log."""

    level: str
    event: str
    version: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Drain:
    """Tell `Drained` once the version has answered the requests that it has."""

    version: str


@dataclass(frozen=True)
class EndRequests:
    """No board can answer the version's requests any more."""

    version: str
    reason: str


@dataclass(frozen=True)
class Retry:
    """Load the model again by itself, after a pause: what it needs cannot answer now."""


@dataclass(frozen=True)
class Changed:
    """Requests may go elsewhere than before."""


Effect = Log | Drain | EndRequests | Retry | Changed
Next = tuple[ModelLife, tuple[Effect, ...]]


class Event(Protocol):
    """What may happen to a model."""

    def on(self, life: ModelLife) -> Next:
        """The model's next life, and what is to be done."""


@dataclass(frozen=True)
class Asked:
    """An operator, or the start, wants the model to be loaded."""

    def on(self, life: ModelLife) -> Next:
        return replace(life, wanted=True), ()


@dataclass(frozen=True)
class Unload:
    """An operator wants the model no more, or a pipeline this piece of it."""

    reason: str = BY_OPERATOR

    def on(self, life: ModelLife) -> Next:
        gone = replace(life, default=None, before=None, wanted=False, unloaded=True)
        return _retired(gone, life.versions, self.reason)


@dataclass(frozen=True)
class Found:
    """A version is to be loaded: it is in the repository, and the settings ask for it."""

    version: str

    def on(self, life: ModelLife) -> Next:
        return life.moved(self.version, "found"), ()


@dataclass(frozen=True)
class Tested:
    """A version has given its golden answers. more: for the log."""

    version: str
    more: Mapping[str, Any] = field(default_factory=dict)

    def on(self, life: ModelLife) -> Next:
        ready = life.moved(self.version, "tested")
        if ready is life:
            return life, ()
        said = Log("info", "version ready", self.version, self.more)
        if ready.wanted:
            return ready, (said,)
        away, effects = _retired(ready, [self.version], BY_OPERATOR)
        return away, (said, *effects)


@dataclass(frozen=True)
class Refused:
    """A version cannot be served; one that is ready is served on. busy: it may be served later: what it needs cannot answer now."""

    version: str
    reason: str
    busy: bool = False

    def on(self, life: ModelLife) -> Next:
        refused = life.moved(self.version, "refused", self.reason, busy=self.busy)
        said = Log("error", "version refused", self.version, {"cause": self.reason})
        return refused, (*([Retry()] if self.busy else []), said)


@dataclass(frozen=True)
class BrokenOff:
    """Whoever asked for a version has gone. One that would be loading for ever could never be loaded again."""

    version: str

    def on(self, life: ModelLife) -> Next:
        return life.moved(self.version, "broken off", BROKEN_OFF), ()


@dataclass(frozen=True)
class Taken:
    """A version that was tested takes the place of all others: a pipeline's, or that of a piece of one. reason: of the others."""

    version: str
    reason: str = ""

    def on(self, life: ModelLife) -> Next:
        away, effects = _retired(life, [one for one in life.versions if one != self.version], self.reason)
        return replace(away.moved(self.version, "taken"), default=self.version, unloaded=False), effects


@dataclass(frozen=True)
class Chosen:
    """A load has ended: these versions are asked for. The highest that is ready is the default, the canary last."""

    versions: tuple[str, ...]
    canary: str | None = None

    def on(self, life: ModelLife) -> Next:
        if not life.wanted:
            return life, ()
        ready = [one for one in self.versions if life.of(one).state == READY]
        best = next((one for one in reversed(ready) if one != self.canary), ready[-1] if ready else None)
        effects = list[Effect]()
        life = replace(life, unloaded=False)
        if best is not None and best != life.default:
            life = replace(life, before=life.default, default=best)
            effects.append(Log("info", "switched", best))
        kept = (*self.versions, life.default, life.before)
        life, drains = _retired(life, [one for one in life.versions if one not in kept], NOT_ASKED)
        return life, (*effects, *drains, Changed())


@dataclass(frozen=True)
class Answered:
    """A batch of a version went well."""

    version: str

    def on(self, life: ModelLife) -> Next:
        return replace(life, versions={**life.versions, self.version: replace(life.of(self.version), faults=())}), ()


@dataclass(frozen=True)
class Fault:
    """A board failed with a batch of a version. Several in a row, on several boards, are the version's fault.

    With nothing to go back to, the version stays, and its requests may yet succeed.
    """

    version: str
    board: str

    def on(self, life: ModelLife) -> Next:
        one = life.of(self.version)
        faults = (*one.faults, self.board)
        life = replace(life, versions={**life.versions, self.version: replace(one, faults=faults)})
        back = life.instead_of(self.version)
        if len(faults) < FAULTS or len(set(faults)) < FAULTY_BOARDS or one.state != READY or back is None:
            return life, ()
        reason = f"rolled back: {len(faults)} device faults in a row, on boards {', '.join(sorted(set(faults)))}"
        if life.default == self.version:
            life = replace(life, default=back, before=None)
        life, drains = _retired(life, [self.version], reason)
        return life, (Log("error", "rolled back", self.version, {"cause": reason, "to": back}), *drains)


@dataclass(frozen=True)
class Lost:
    """A board has come back without a version, and no other board has it or may yet."""

    version: str
    reason: str

    def on(self, life: ModelLife) -> Next:
        gone = life.moved(self.version, "lost", self.reason)
        if gone is life:
            return life, ()
        if gone.default == self.version:
            gone = replace(gone, default=gone.instead_of(self.version), before=None)
        said = Log("error", "version lost", self.version, {"cause": self.reason})
        return gone, (said, EndRequests(self.version, self.reason))


@dataclass(frozen=True)
class Drained:
    """A version that unloads has answered all that it had: boards need it no more."""

    version: str

    def on(self, life: ModelLife) -> Next:
        return life.moved(self.version, "drained", life.of(self.version).reason), ()


def _retired(life: ModelLife, versions: Iterable[str], reason: str) -> Next:
    """Takes no more requests for those that are ready."""
    drained = [one for one in versions if life.of(one).state == READY]
    for one in drained:
        life = life.moved(one, "retired", reason)
    return life, tuple(map(Drain, drained))


# --- a load, step by step ---

STOP, WAIT, LOAD, CHOOSE = "stop", "wait", "load", "choose"


def next_load(life: ModelLife, asked: Sequence[str], tried: Collection[str], again: bool = False) -> tuple[str, str]:
    """What a load does next, and with which version, until each that is asked for is there or was tried.

    It looks at what is, so whatever an operator or a board has done meanwhile counts. again: it was not an operator who has asked:
    of what is unavailable, it loads only what was busy. Others, such as one that was taken back, wait for an operator.
    """
    if not life.wanted:
        return STOP, ""
    for version in asked:
        one = life.of(version)
        if one.state == UNLOADING:
            return WAIT, version
        if version not in tried and (one.state == ABSENT or (one.state == UNAVAILABLE and (one.busy or not again))):
            return LOAD, version
    return CHOOSE, ""
