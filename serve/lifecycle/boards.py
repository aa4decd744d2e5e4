"""The life of a board, and what its worker has of the versions that are wanted.

A board starts, serves, rests after a failure and starts again; after too many it is out until an operator resets it. `next_step`
compares what is wanted with what the worker has, and says the one thing to do next.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cnna.serve.lifecycle.arrow import Arrow, Log, after

STARTING, READY, RESTING, OUT, CLOSED = "starting", "ready", "resting", "out", "closed"
FORGIVEN = 20  # batches, after which a board's failures are forgotten
RESET = "an operator reset the board"
TOO_MANY, BY_RESET = "too many failures", "reset by an operator"  # how a worker's end may be
MACHINE = (
    Arrow(STARTING, "loaded", READY),
    *(Arrow(state, "ended", RESTING) for state in (STARTING, READY)),
    *(Arrow(state, "ended", OUT, TOO_MANY) for state in (STARTING, READY)),
    *(Arrow(state, "ended", STARTING, BY_RESET) for state in (STARTING, READY)),
    Arrow(RESTING, "rested", STARTING),
    *(Arrow(state, "reset", STARTING) for state in (RESTING, OUT)),
    *(Arrow(state, "closed", CLOSED) for state in (STARTING, READY, RESTING, OUT)),
)


@dataclass(frozen=True)
class Kill:
    """End the worker at once."""

    cause: str


@dataclass(frozen=True)
class Rest:
    """Tell `rested` after so many seconds; None: never."""

    seconds: float | None


@dataclass(frozen=True)
class Tell:
    """Others may act on the new state."""


Effect = Kill | Rest | Log | Tell
Next = tuple["BoardLife", tuple[Effect, ...]]  # the next life, and what is to be done


@dataclass(frozen=True)
class BoardLife:
    """One board. cause: of its last failure. failures: in a row. by_reset: an operator has asked for the end of this worker.

    The methods are what may happen to it.
    """

    state: str = STARTING
    cause: str = ""
    failures: int = 0
    resets: int = 0
    batches: int = 0
    by_reset: bool = False

    def loaded(self) -> Next:
        """The worker has all that is wanted of it, or does without."""
        if self.state != STARTING:
            return self, ()
        ready = replace(self, state=after(MACHINE, STARTING, "loaded"), cause="", by_reset=False)
        return ready, (Log("info", "board ready", {}), Tell())

    def ended(self, cause: str, most: int, pauses: tuple[float, float]) -> Next:
        """The worker has ended, or could not start. most: failures in a row with which it is out. pauses: least, most."""
        if self.state not in (STARTING, READY):
            return self, ()
        if self.by_reset:
            state = after(MACHINE, self.state, "ended", BY_RESET)
            again = replace(self, state=state, cause=cause, resets=self.resets + 1, by_reset=False)
            return again, (Log("info", "board reset", {"cause": cause}), Tell())
        failures = self.failures + 1
        state = after(MACHINE, self.state, "ended", TOO_MANY if failures >= most else "")
        pause = None if state == OUT else min(pauses[1], pauses[0] * 2.0 ** min(failures - 1, 60))
        more = {"cause": cause} if pause is None else {"cause": cause, "pause_seconds": pause}
        said = Log("error", "board out" if pause is None else "board failed", more)
        return replace(self, state=state, cause=cause, failures=failures), (said, Tell(), Rest(pause))

    def rested(self) -> Next:
        """The pause is over."""
        if self.state != RESTING:
            return self, ()
        return replace(self, state=after(MACHINE, self.state, "rested"), resets=self.resets + 1), (Tell(),)

    def reset(self) -> Next:
        """An operator's: the board starts again at once, whatever its state, with no failure counted."""
        if self.state in (STARTING, READY):
            return replace(self, failures=0, by_reset=True), (Kill(RESET),)
        state = after(MACHINE, self.state, "reset")
        if state == self.state:
            return self, ()
        return replace(self, state=state, failures=0, resets=self.resets + 1), (Tell(),)

    def answered(self) -> Next:
        """A batch went well."""
        batches = self.batches + 1
        return replace(self, batches=batches, failures=self.failures if batches % FORGIVEN else 0), ()

    def closed(self) -> Next:
        """The server ends."""
        return replace(self, state=after(MACHINE, self.state, "closed")), ()


# --- what a worker has ---

HELD, DIFFERS, WITHOUT = "held", "differs", "without"
V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True)
class Step(Generic[V]):
    """What a board does next with a version: `load`, `free`, `drop` it, or `fail`, since the board itself answers wrongly."""

    what: str
    version: V


def next_step(wanted: Sequence[V], held: Mapping[V, str], agrees: Callable[[V], bool], own: Callable[[V], bool]) -> Step[V] | None:
    """None: the worker has what is wanted.

    held: what has become of each version: it is HELD, its golden answers DIFFER, or the board does WITHOUT it. agrees: whether it
    has given golden answers here. own: whether the board has the version's own runtime, and not only its fallback's.

    Versions whose answers differ are wrong themselves where another one agrees. Where none does, the board is.
    """
    for version in held:
        if version not in wanted:
            return Step("free", version)
    for version in wanted:
        if version not in held:
            return Step("load", version)
    agree = any(held[version] == HELD and agrees(version) for version in wanted)
    for version in wanted:
        if held[version] == DIFFERS:
            return Step("drop" if agree or not own(version) else "fail", version)
    return None


def may_run(life: BoardLife, how: str | None, runs: bool) -> bool:
    """Whether a version that fits a board is loaded there, or may be. how: what has become of it, if anything has. runs: now."""
    if how == WITHOUT:
        return False
    return life.state in (STARTING, RESTING) or (life.state == READY and (how is None or runs))
