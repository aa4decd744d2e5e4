"""Counts in sentences: "1 layer", "2 layers", "1,234 entries"."""

from collections.abc import Sequence


def many(count: int, what: str, more: str | None = None) -> str:
    """A count and what is counted, in the right number. more: its plural, where that is no `s` behind it."""
    return f"{count:,} {what if count == 1 else more or f'{what}s'}"


def listed(names: Sequence[object]) -> str:
    """The names as a sentence has them: "2", "2 and 4", "2, 4 and 6"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last
