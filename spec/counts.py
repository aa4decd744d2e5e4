"""Counts and values in sentences: "1 layer", "2 layers", "1,234 entries"; a wrong value, cut where it is long."""

import reprlib
from collections import Counter
from collections.abc import Sequence


def many(count: int, what: str, more: str | None = None) -> str:
    """A count and what is counted, in the right number. more: its plural, where that is no `s` behind it."""
    return f"{count:,} {what if count == 1 else more or f'{what}s'}"


def listed(names: Sequence[object]) -> str:
    """The names as a sentence has them: "2", "2 and 4", "2, 4 and 6"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def shown(value: object, letters: int = 40) -> str:
    """A wrong value as a line shows it, however long or deep it is: a client may send one of megabytes."""
    if isinstance(value, str):
        return repr(value[:letters])
    return reprlib.repr(value)[: 2 * letters]


def counted(operators: Sequence[str]) -> str:
    """A list of operators for users: each once, with its count if that is more than one."""
    times = Counter(operators)
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in times.items())
