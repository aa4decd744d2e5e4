"""Checks of JSON values by the types that `TypedDict`s declare.

A kind is a function that finds the fault in a value. It returns "" if the value itself is wrong, "[2].name" if something in it is,
and None if nothing is. `kind_of` makes the kind of a type: `int` stands for a count from 0 up, and `float` for a finite number;
`Annotated` names another kind. Entries that are not declared may hold anything.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

Kind = Callable[[Any], str | None]
LARGEST = sys.float_info.max  # an integer of JSON may be larger


def plain(true: Callable[[Any], bool]) -> Kind:
    """A value for which `true` holds."""
    return lambda value: None if true(value) else ""


def is_whole(value: Any, low: int = 0, high: int = 1 << 62) -> bool:
    """Whether a value is an integer from `low` to `high` - 1."""
    return type(value) is int and low <= value < high


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def maybe(kind: Kind) -> Kind:
    """A value of that kind, or null."""
    return lambda value: None if value is None else kind(value)


def each(kind: Kind, count: int | None = None) -> Kind:
    """A list of values of one kind; `count` may say how many."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or count not in (None, len(value)):
            return ""
        return next((f"[{index}]{found}" for index, entry in enumerate(value) if (found := kind(entry)) is not None), None)

    return check


def table(kind: Kind) -> Kind:
    """An object whose values are of one kind, whatever their names."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return ""
        return next((f".{key}{found}" for key, entry in value.items() if (found := kind(entry)) is not None), None)

    return check


def record(may_lack: Collection[str] = (), /, **kinds: Kind) -> Kind:
    """An object with at least these entries; those in `may_lack` may be missing."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return ""
        return next((f".{key}{found}" for key, kind in needed(value) if (found := _entry(value, key, kind)) is not None), None)

    def needed(value: Mapping[str, Any]) -> list[tuple[str, Kind]]:
        return [(key, kind) for key, kind in kinds.items() if key in value or key not in may_lack]

    return check


def _entry(value: Mapping[str, Any], key: str, kind: Kind) -> str | None:
    return kind(value[key]) if key in value else ""


ANYTHING = plain(lambda value: True)
TEXT = plain(lambda value: isinstance(value, str))
COUNT = plain(is_whole)
NUMBER = plain(is_number)
_PLAIN: dict[Any, Kind] = {str: TEXT, int: COUNT, float: NUMBER, Any: ANYTHING}


def kind_of(of: Any) -> Kind:
    """The kind of value that a type stands for. KeyError: the type stands for none."""
    origin, parts = get_origin(of), get_args(of)
    if origin is Annotated:
        kind: Kind = parts[1]
        return kind
    if is_typeddict(of):
        hints = get_type_hints(of, include_extras=True)
        return record(of.__optional_keys__, **{name: kind_of(hint) for name, hint in hints.items()})
    if origin is list:
        return each(kind_of(parts[0]))
    if origin is dict:
        return table(kind_of(parts[1]))
    if origin is UnionType or NoneType in parts:
        return maybe(kind_of(next(part for part in parts if part is not NoneType)))
    return _PLAIN[of]
