"""What kind of value each entry of a `.cnna` manifest holds (docs/artifact.md), for `artifact` to refuse what is of another.

A kind is a function from a value to the place in it that is wrong: "" the value itself, "[2].name" what lies in it, None if none
is. Entries that are not listed may hold anything. It is read on boards.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any

from cnna.spec.config import Config
from cnna.spec.planned import DdrSpeed

SMALLEST, GREATEST = 2.0**-126, 2.0**127  # scales: float32 holds them, and what is divided by them
MOST_SIZE = 1 << 32  # of an axis: a segment has fewer bytes

Kind = Callable[[Any], str | None]
PREDICTED_SINCE = 3  # the schema from which on the predictor's clocks are stored
TRACED = 4  # the schema since which the compiler traces the batch to each output; before, it was taken for the first axis


def misfit(manifest: Mapping[str, Any]) -> str | None:
    """The first entry that is missing or of another kind, as `layers[2].macs`; None where all are sound."""
    found = _MANIFEST(dict(manifest))
    return found if found is None else found.removeprefix(".")


def _plain(true: Callable[[Any], bool]) -> Kind:
    return lambda value: None if true(value) else ""


def _is_whole(value: Any, low: int = 0, high: int = 1 << 62) -> bool:
    return type(value) is int and low <= value < high


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_span(value: Any) -> bool:
    """When a command begins and ends, then from when to when its engine's head has it."""
    known = isinstance(value, list) and len(value) == 4 and all(map(_is_whole, value))
    return known and value[0] <= value[1] and value[2] <= value[3]


def _maybe(kind: Kind) -> Kind:
    """Of that kind, or null."""
    return lambda value: None if value is None else kind(value)


def _each(kind: Kind, count: int | None = None) -> Kind:
    """A list, of so many entries if `count` says so."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or count not in (None, len(value)):
            return ""
        return next((f"[{index}]{found}" for index, entry in enumerate(value) if (found := kind(entry)) is not None), None)

    return check


def _table(kind: Kind) -> Kind:
    """An object whose values are of one kind, whatever their names."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return ""
        return next((f".{key}{found}" for key, entry in value.items() if (found := kind(entry)) is not None), None)

    return check


def _record(may_lack: Collection[str] = (), /, **kinds: Kind) -> Kind:
    """An object with these entries at least, but for those that it may lack."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return ""
        return next((f".{key}{found}" for key, kind in needed(value) if (found := _entry(value, key, kind)) is not None), None)

    def needed(value: Mapping[str, Any]) -> list[tuple[str, Kind]]:
        return [(key, kind) for key, kind in kinds.items() if key in value or key not in may_lack]

    return check


def _entry(value: Mapping[str, Any], key: str, kind: Kind) -> str | None:
    return kind(value[key]) if key in value else ""


_PREDICTED = ("predicted",)  # that older files lack, of which nothing is known but the compiler's own estimate of each layer
_LATER = ("streams",)  # parameters of a configuration that older files lack: they have its default
_ANYTHING = _plain(lambda value: True)
_TEXT = _plain(lambda value: isinstance(value, str))
_COUNT = _plain(_is_whole)
_NUMBER = _plain(_is_number)
_OBJECT = _table(_ANYTHING)
_SCALE = _plain(lambda value: _is_number(value) and SMALLEST <= value <= GREATEST)
_ZERO = _plain(lambda value: _is_whole(value, -128, 128))
_SIZE = _plain(lambda value: _is_whole(value, 1, MOST_SIZE))
_SHAPE = _each(_SIZE, 3)  # C, H, W
_QUANTISED = {"shape": _SHAPE, "scale": _SCALE, "zero": _ZERO}
_PLACED = dict.fromkeys(("offset", "image_bytes", "block_bytes", "row_bytes"), _COUNT)
_FOLD = _maybe(_record(**dict.fromkeys(("shape", "step", "span", "before"), _each(_ANYTHING))))
_PORT = _record(("fold",), fold=_FOLD, name=_TEXT, tensor=_TEXT, segment=_TEXT, **_QUANTISED, **_PLACED)
_VALUE = _record(name=_TEXT, shape=_each(_maybe(_SIZE)), dtype=_TEXT)
_OUTPUT = _record(("batch_axis",), name=_TEXT, shape=_maybe(_each(_maybe(_SIZE))), dtype=_TEXT, batch_axis=_maybe(_COUNT))
_CPU_NODE = _record(
    name=_TEXT,
    op=_TEXT,
    inputs=_each(_TEXT),
    outputs=_each(_TEXT),
    attributes=_OBJECT,
    constants=_table(_record(dtype=_TEXT, values=_ANYTHING)),
)
_BYTES = {"ddr_read_bytes": _COUNT, "ddr_write_bytes": _COUNT}
_LAYER = _record(
    name=_TEXT, op=_TEXT, engine=_TEXT, output=_TEXT, macs=_COUNT, node_names=_each(_TEXT), predicted_cycles=_COUNT, **_BYTES
)
_SPAN = _plain(_is_span)
_COMMAND = _record(_PREDICTED, engine=_TEXT, layer=_COUNT, tensor=_maybe(_TEXT), origin=_each(_COUNT, 4), predicted=_SPAN)
_DDR = _record(**dict.fromkeys(DdrSpeed._fields, _plain(lambda value: _is_whole(value, 1))))
_MANIFEST = _record(
    _PREDICTED,
    version=_TEXT,
    isa=_each(_COUNT, 2),
    config=_record(_LATER, name=_TEXT, **{size.name: _COUNT for size in fields(Config) if size.name != "name"}),
    name=_TEXT,
    batch=_plain(lambda value: _is_whole(value, 1)),
    program_writes=_COUNT,
    segments=_table(_COUNT),
    inputs=_each(_PORT),
    outputs=_each(_PORT),
    model_inputs=_each(_VALUE),
    model_outputs=_each(_OUTPUT),
    cpu_head=_each(_CPU_NODE),
    cpu_tail=_each(_CPU_NODE),
    preprocess=_maybe(_record(scale=_NUMBER, mean=_each(_NUMBER), std=_each(_NUMBER))),
    macs=_COUNT,
    layers=_each(_LAYER),
    predicted=_record(cycles=_COUNT, ddr=_DDR),
    tensors=_table(_record(**_QUANTISED)),
    commands=_each(_COMMAND),
    members=_table(_record(bytes=_COUNT, sha256=_TEXT)),
)
