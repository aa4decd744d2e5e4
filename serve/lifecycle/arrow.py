"""A machine of states: the table of its arrows, from which steps are taken and the pictures are drawn."""

from dataclasses import dataclass

ABSENT = "absent"  # before the first state, and behind the last one


@dataclass(frozen=True)
class Arrow:
    """What happens in a state, and the state after that. when: what must hold too, where one thing has two outcomes."""

    source: str
    what: str
    target: str
    when: str = ""


Machine = tuple[Arrow, ...]


def after(machine: Machine, state: str, what: str, when: str = "") -> str:
    """The next state. Where there is no arrow, nothing changes: what comes late, or twice, does no harm."""
    found = (one.target for one in machine if (one.source, one.what, one.when) == (state, what, when))
    return next(found, state)
