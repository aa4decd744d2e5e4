"""The lives of a model's versions: which are ready, which one is the default, and what an operator wants of the model.

What happens is a method of the life: it gives the next life, and the effects that the catalogue carries out. A load takes long,
and an operator may decide otherwise meanwhile: `wanted` is the operator's last word. Whatever ends later obeys it, by looking at
it and not by counting what came before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cnna.serve.lifecycle.arrow import ABSENT, Arrow, Log, after

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
    *(Arrow(state, "taken", READY) for state in (ABSENT, UNAVAILABLE, READY, UNLOADING)),  # a pipeline's next takes its name too
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
class Drain:
    """Tell `drained` once the version has answered the requests that it has."""

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
Next = tuple["ModelLife", tuple[Effect, ...]]  # the next life, and what is to be done


@dataclass(frozen=True)
class ModelLife:
    """A model: its versions, the lower number first. The methods behind `instead_of` are what may happen to it.

    default: the version for requests that name none. before: the default before the last switch. wanted: an operator's last word.
    unloaded: there is nothing to serve, since he said so; a load that has ended changes that.
    """

    versions: Mapping[str, VersionLife] = field(default_factory=dict)
    default: str | None = None
    before: str | None = None
    wanted: bool = True
    unloaded: bool = False

    def of(self, version: str) -> VersionLife:
        """A version's life; one that is not there has none yet."""
        return self.versions.get(version, VersionLife())

    def with_life(self, version: str, life: VersionLife) -> "ModelLife":
        """The same, but for one version."""
        return replace(self, versions=dict(sorted({**self.versions, version: life}.items(), key=lambda item: int(item[0]))))

    def moved(self, version: str, what: str, reason: str = "", busy: bool = False) -> "ModelLife":
        """The same, but for a version that takes the arrow of that name; the same itself where there is none."""
        old = self.of(version)
        if not any((one.source, one.what) == (old.state, what) for one in MACHINE):
            return self
        return self.with_life(version, VersionLife(after(MACHINE, old.state, what), reason, busy))

    def instead_of(self, version: str) -> str | None:
        """The version that may take another one's place: the default or the one before it, then the highest."""
        first = [one for one in (self.default, self.before) if one is not None]
        others = (one for one in (*first, *reversed(list(self.versions))) if one != version)
        return next((one for one in others if self.of(one).state == READY), None)

    def asked(self) -> Next:
        """An operator, or the start, wants the model to be loaded."""
        return replace(self, wanted=True), ()

    def unload(self, reason: str = BY_OPERATOR) -> Next:
        """An operator wants the model no more, or a pipeline this piece of it."""
        return replace(self, default=None, before=None, wanted=False, unloaded=True).retired(self.versions, reason)

    def retired(self, versions: Iterable[str], reason: str) -> Next:
        """Those of them that are ready take no more requests."""
        life, drained = self, [one for one in versions if self.of(one).state == READY]
        for one in drained:
            life = life.moved(one, "retired", reason)
        return life, tuple(map(Drain, drained))

    def found(self, version: str) -> Next:
        """A version is to be loaded: it is in the repository, and the settings ask for it."""
        return self.moved(version, "found"), ()

    def tested(self, version: str, more: Mapping[str, Any] | None = None) -> Next:
        """A version has given its golden answers. more: for the log."""
        ready = self.moved(version, "tested")
        if ready is self:
            return self, ()
        said = Log("info", "version ready", {"version": version, **(more or {})})
        away, effects = (ready, ()) if ready.wanted else ready.retired([version], BY_OPERATOR)
        return away, (said, *effects)

    def refused(self, version: str, reason: str, busy: bool = False) -> Next:
        """A version cannot be served; one that is ready is served on. busy: it may be later: what it needs cannot answer now."""
        said = Log("error", "version refused", {"version": version, "cause": reason})
        return self.moved(version, "refused", reason, busy), (*([Retry()] if busy else []), said)

    def broken_off(self, version: str) -> Next:
        """Whoever asked for a version has gone. One that would be loading for ever could never be loaded again."""
        return self.moved(version, "broken off", BROKEN_OFF), ()

    def taken(self, version: str, reason: str = "") -> Next:
        """A version that was tested takes the place of all others: a pipeline's, or a piece's of one. reason: of the others."""
        away, effects = self.retired([one for one in self.versions if one != version], reason)
        return replace(away.moved(version, "taken"), default=version, unloaded=False), effects

    def chosen(self, versions: Sequence[str], canary: str | None = None) -> Next:
        """A load has ended: these versions are asked for. The highest that is ready is the default, the canary last."""
        if not self.wanted:
            return self, ()
        ready = [one for one in versions if self.of(one).state == READY]
        best = next((one for one in reversed(ready) if one != canary), ready[-1] if ready else None)
        life, said = replace(self, unloaded=False), list[Effect]()
        if best is not None and best != life.default:
            life = replace(life, before=life.default, default=best)
            said.append(Log("info", "switched", {"version": best}))
        kept = (*versions, life.default, life.before)
        life, drains = life.retired([one for one in life.versions if one not in kept], NOT_ASKED)
        return life, (*said, *drains, Changed())

    def answered(self, version: str) -> Next:
        """A batch of a version went well."""
        return self.with_life(version, replace(self.of(version), faults=())), ()

    def fault(self, version: str, board: str) -> Next:
        """A board failed with a batch of a version. Several in a row, on several boards, are the version's fault.

        With nothing to go back to, the version stays, and its requests may yet succeed.
        """
        one = self.of(version)
        faults = (*one.faults, board)
        life, back = self.with_life(version, replace(one, faults=faults)), self.instead_of(version)
        if len(faults) < FAULTS or len(set(faults)) < FAULTY_BOARDS or one.state != READY or back is None:
            return life, ()
        reason = f"rolled back: {len(faults)} device faults in a row, on boards {', '.join(sorted(set(faults)))}"
        if life.default == version:
            life = replace(life, default=back, before=None)
        life, drains = life.retired([version], reason)
        return life, (Log("error", "rolled back", {"version": version, "cause": reason, "to": back}), *drains)

    def lost(self, version: str, reason: str) -> Next:
        """A board has come back without a version, and no other board has it or may yet."""
        gone = self.moved(version, "lost", reason)
        if gone is self:
            return self, ()
        if gone.default == version:
            gone = replace(gone, default=gone.instead_of(version), before=None)
        return gone, (Log("error", "version lost", {"version": version, "cause": reason}), EndRequests(version, reason))

    def drained(self, version: str) -> Next:
        """A version that unloads has answered all that it had: boards need it no more."""
        return self.moved(version, "drained", self.of(version).reason), ()


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
