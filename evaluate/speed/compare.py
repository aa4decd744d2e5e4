"""Two benchmarks side by side, from the JSON of each: figures, their ratio, and what has changed besides. For `cnna compare`."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cnna.evaluate.speed.benchmark import KIND, SCHEMA
from cnna.evaluate.speed.matrix import PREDICTED
from cnna.evaluate.speed.scenarios import ACCURACY, FIGURES, SCENARIOS
from cnna.evaluate.speed.text import COLUMNS, COUNTED, JOULES, places_of
from cnna.evaluate.speed.text import number as shown
from cnna.evaluate.speed.text import table as lined_up
from cnna.spec.checks.json_kinds import ANYTHING, COUNT, NUMBER, TEXT, each, is_number, maybe, plain, record, table
from cnna.spec.errors import DataError

ALONE = (PREDICTED, COUNTED)  # columns of one thing, the accelerator alone
ACROSS = "the ratio says how far the prediction is from what the RTL counts, not which of both is better"
COMPARISON = "benchmark comparison"
HEADS = ("model", "on", "scenario", "batch", "column", "figure", "A", "B", "B / A")


def is_benchmark(found: Mapping[str, Any]) -> bool:
    """Whether the figures are of a benchmark."""
    return found.get("kind") == KIND


def checked(found: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """The figures. DataError: they are not what `cnna bench --json` writes."""
    if (schema := found.get("schema")) != SCHEMA:
        raise DataError(
            f"{file}: has schema {schema!r:.20}, but this version of cnna reads {SCHEMA}; measure again with this version"
        )
    fault = _WHOLE(found)
    if fault is None:
        fault = next((f".rows[{number}]{wrong}" for number, row in enumerate(found["rows"]) for wrong in _wrong(row)), None)
    if fault is None and not _is_text(json.dumps(found, ensure_ascii=False)):
        fault = ": it holds halves of letters"
    if fault is not None:
        raise DataError(f"{file}: {fault.lstrip('.')[:99]}: not what `cnna bench --json` writes; measure again")
    keys = [_words(key) for key, _ in _keyed(found)]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise DataError(f"{file}: has two rows of {twice}; remove one of them")
    return found


def _wrong(row: Mapping[str, Any]) -> list[str]:
    """What a row lacks for its scenario, at most one thing."""
    if row["scenario"] == ACCURACY:
        fault = _ACCURACY(row.get("accuracy"))
        return [] if fault is None else [f".accuracy{fault}"]
    return [] if is_number(row["figure"]) and row["figure"] > 0 else [".figure"]


def _is_text(text: str) -> bool:
    """Whether all of it are letters; JSON can hold halves of them."""
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


_NAME = plain(lambda value: isinstance(value, str) and value.isprintable())  # others would break the table
_TEXTS = table(maybe(TEXT))
_JOULES = maybe(plain(lambda value: is_number(value) and value > 0))
_POWER = maybe(record(joules_per_sample=_JOULES, rails=each(TEXT)))
_ROW = record(
    ("power",),
    model=_NAME,
    scenario=plain(lambda value: value in SCENARIOS),
    device=_NAME,
    column=plain(lambda value: value in COLUMNS),
    configuration=maybe(TEXT),
    batch=maybe(COUNT),
    figure=ANYTHING,
    power=_POWER,
)
_FILES = maybe(record(models=table(TEXT), data=maybe(TEXT)))  # earlier ones did not say it
_WHOLE = record(("files",), versions=_TEXTS, matrix=table(ANYTHING), rows=each(_ROW), files=_FILES)
DIGITS = 12  # of a digest that are shown
_ACCURACY = table(record(value=maybe(NUMBER)))


def compared(a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str]) -> dict[str, Any]:
    """Figures of both. DataError: they have no row in common."""
    ours, theirs = _by_key(a), _by_key(b)
    pairs = {key: partner for key in ours if (partner := _partner(key, ours, theirs))}
    rows = [row for key, partner in pairs.items() for row in _pairs(key, ours[key], theirs[partner])]
    if not rows:
        raise DataError(
            f"{names[0]} and {names[1]} have no row in common: no model, place, batch, scenario and column of both is one"
        )
    return {
        "kind": COMPARISON,
        "a": {"file": names[0], "only": [_words(key) for key in ours if key not in pairs]},
        "b": {"file": names[1], "only": [_words(key) for key in theirs if key not in pairs.values()]},
        "changed": _changed(a, b),
        "rows": rows,
    }


Key = tuple[str, str, Any, str, str]


def _by_key(found: Mapping[str, Any]) -> dict[Key, Mapping[str, Any]]:
    return dict(_keyed(found))


def _keyed(found: Mapping[str, Any]) -> list[tuple[Key, Mapping[str, Any]]]:
    rows = found["rows"]
    return [
        ((row["model"], where, row["batch"], row["scenario"], row["column"]), row)
        for row, where in zip(rows, places_of(rows), strict=True)
    ]


def _partner(key: Key, ours: Collection[Key], theirs: Collection[Key]) -> Key | None:
    """The row of B that a row of A is compared with: the same, or else one of the accelerator alone from another source."""
    if key in theirs:
        return key
    others = ((*key[:-1], column) for column in ALONE if key[-1] in ALONE)
    return next((other for other in others if other in theirs and other not in ours), None)


def _words(key: Key) -> str:
    model, where, batch, scenario, column = key
    return f"{model}, {where}, batch {batch}, {scenario}, {column}"


def _pairs(key: Key, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scenario's figure of both, or each figure of the accuracy."""
    model, where, batch, scenario, _ = key
    columns = list(dict.fromkeys((a["column"], b["column"])))
    about = {"model": model, "on": where, "batch": batch, "scenario": scenario, "column": ", ".join(columns)}
    if scenario != ACCURACY:
        ratio = b["figure"] / a["figure"]
        better = None if ratio == 1 or len(columns) > 1 else (ratio > 1) == FIGURES[scenario].higher
        own = {"unit": FIGURES[scenario].unit, "a": a["figure"], "b": b["figure"], "ratio": ratio, "better": better}
        return [{**about, **own, "clocks": [a.get("clocks"), b.get("clocks")]}, *_joules(about, a, b)]
    return [
        {**about, "unit": name, "a": one["value"], "b": b["accuracy"][name]["value"], "ratio": None, "better": None, "clocks": None}
        for name, one in a["accuracy"].items()
        if name in b["accuracy"]
    ]


def _joules(about: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The energy of both, where both have measured it on the same rails."""
    first, second = a.get("power") or {}, b.get("power") or {}
    x, y = first.get("joules_per_sample"), second.get("joules_per_sample")
    if not (x and y) or first["rails"] != second["rails"]:
        return []
    better = None if x == y else y < x
    return [{**about, "unit": JOULES, "a": x, "b": y, "ratio": y / x, "better": better, "clocks": None}]


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What besides the figures is not the same, in both."""
    flat = [
        {
            **{f"version of {name}": value for name, value in one["versions"].items()},
            "commit": one.get("commit"),
            "processor": one.get("processor"),
            **{name: value for name, value in one["matrix"].items() if name not in ("models", "batches", "scenarios", "devices")},
        }
        for one in (a, b)
    ]
    found = {
        name: [flat[0].get(name), flat[1].get(name)] for name in {**flat[0], **flat[1]} if flat[0].get(name) != flat[1].get(name)
    }
    digests = [_digests(one) for one in (a, b)]
    both = [name for name in digests[0] if name in digests[1]]
    return found | {name: [one[name] for one in digests] for name in both if digests[0][name] != digests[1][name]}


def _digests(found: Mapping[str, Any]) -> dict[str, str]:
    """The beginnings of the digests of the models and of the data, by what they are of."""
    files = found.get("files") or {"models": {}, "data": None}
    named = {f"SHA-256 of {name}": digest for name, digest in files["models"].items()}
    return {name: digest[:DIGITS] for name, digest in (*named.items(), ("SHA-256 of the data", files["data"])) if digest}


def rows_of(found: Mapping[str, Any]) -> list[Sequence[str]]:
    """The table's rows."""
    made: list[Sequence[str]] = []
    for row in found["rows"]:
        if row["ratio"] is None:
            a, b = (f"{row[key]:.2%}" if row[key] is not None else "-" for key in ("a", "b"))
            ratio = "-" if None in (row["a"], row["b"]) else f"{100 * (row['b'] - row['a']):+.2f} points"
        else:
            a, b, ratio = shown(row["a"]), shown(row["b"]), f"{row['ratio']:.3f}{_mark(row['better'])}"
        place = (row["model"], row["on"], row["scenario"], str(row["batch"]), row["column"], row["unit"])
        made.append((*place, a, b, ratio))
    return made


def _mark(better: bool | None) -> str:
    return "" if better is None else " better" if better else " worse"


def text(found: Mapping[str, Any]) -> str:
    """Both benchmarks, a row for each figure, and what else has changed."""
    lines = [f"{key.upper()}: {found[key]['file']}" for key in ("a", "b")]
    lines += [f"changed: {name}: {a} became {b}" for name, (a, b) in found["changed"].items()]
    lines += lined_up([HEADS, *rows_of(found)])
    across = dict.fromkeys(row["column"] for row in found["rows"] if row["column"].count(", "))
    lines += [f"{one}: A is {one.partition(', ')[0]}, B is {one.partition(', ')[2]}; {ACROSS}" for one in across]
    for key in ("a", "b"):
        lines += [f"only {key.upper()} has: {one}" for one in found[key]["only"]]
    return "\n".join(lines)
