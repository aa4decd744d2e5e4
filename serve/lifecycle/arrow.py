"""What all machines of states have: the table of their arrows, from which steps are taken and the pictures are drawn, and a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = "absent"  # before the first state, and behind the last one


@dataclass(frozen=True)
class Arrow:
    """What happens in a state, and the state after that. when: what must hold too, where one thing has two outcomes."""

    source: str
    what: str
    target: str
    when: str = ""


@dataclass(frozen=True)
class Log:
    """A line for the log, an effect of every machine. more: version, cause, and what else is known."""

    level: str
    event: str
    more: Mapping[str, Any]


Machine = tuple[Arrow, ...]


def after(machine: Machine, state: str, what: str, when: str = "") -> str:
    """The next state. Where there is no arrow, nothing changes: what comes late, or twice, does no harm."""
    found = (one.target for one in machine if (one.source, one.what, one.when) == (state, what, when))
    return next(found, state)
