"""Two evaluations side by side, from the JSON of each: figures, differences with their standard errors, and what changed.

Where both have measured the same samples, differences are taken sample by sample. For `cnna compare`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.result import KIND, SCHEMA
from cnna.evaluate.standard_errors import Estimate, mean
from cnna.evaluate.text import points, shown, table, title
from cnna.spec.counts import many
from cnna.spec.errors import DataError, ToolError

COMPARISON = "evaluation comparison"
SHOWN = 20  # samples that changed, which are printed


@dataclass(frozen=True, eq=False)
class Measured:
    """One model of an evaluation. values: of each sample, by figure. answers: in words."""

    name: str
    kind: str
    estimates: Mapping[str, Estimate]
    values: Mapping[str, NDArray[np.float64]]
    answers: Sequence[str]


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two evaluations."""

    file: str
    task: str
    main: str
    about: str
    identity: str
    names: Sequence[str]
    right: Sequence[str]
    models: Sequence[Measured]


def is_evaluation(found: Mapping[str, Any]) -> bool:
    """Whether the figures are of an evaluation."""
    return found.get("kind") == KIND


def side(found: Mapping[str, Any], file: str) -> Side:
    """An evaluation, from its JSON. DataError: it is not what `cnna eval --json` writes."""
    if (schema := found.get("schema")) != SCHEMA:
        raise DataError(
            f"{file}: has schema {schema!r:.20}, but this version of cnna reads {SCHEMA}; measure again with this version"
        )
    try:
        samples, data = found["samples"], found["data"]
        models = [_model(model, [sample["models"][place] for sample in samples]) for place, model in enumerate(found["models"])]
        names, right = [str(one["name"]) for one in samples], [str(one["right"]) for one in samples]
        about = f"{data['path']}: {many(len(samples), 'sample')} ({data['selection']}), {found['task']}"
        if not models or not samples:
            raise ValueError
        return Side(file, str(found["task"]), str(found["main"]), about, str(data["identity"]), names, right, models)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise DataError(f"{file}: not what `cnna eval --json` writes; measure again") from None


def _model(model: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> Measured:
    estimates = {
        str(name): Estimate(_number(one["value"]), _number(one["standard_error"]), int(one["samples"]))
        for name, one in model["metrics"].items()
    }
    figures = list(samples[0]["values"]) if samples else []
    values = {str(name): np.array([_value(one["values"][name]) for one in samples]) for name in figures}
    return Measured(str(model["name"]), str(model["kind"]), estimates, values, [str(one["answer"]) for one in samples])


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _value(value: Any) -> float:
    return np.nan if value is None else float(value)


def compared(a: Side, b: Side) -> dict[str, Any]:
    """Figures of both, and by how much the second is above. DataError: they are of different tasks, or have no model to pair."""
    if a.task != b.task:
        raise DataError(f"{a.file} is of {a.task} and {b.file} of {b.task}: figures of two tasks do not compare")
    paired = a.identity == b.identity and list(a.names) == list(b.names)
    models = [_pair(a, one, other, paired) for one, other in _pairs(a.models, b.models)]
    sides = {key: {"file": one.file, "about": one.about} for key, one in (("a", a), ("b", b))}
    return {"kind": COMPARISON, "task": a.task, "main": a.main, **sides, "same_samples": paired, "models": models}


def _pairs(ours: Sequence[Measured], theirs: Sequence[Measured]) -> list[tuple[Measured, Measured]]:
    """The models that belong together: those of one name, else those of one kind in their order, else all in their order."""
    named = [(one, other) for one in ours for other in theirs if one.name == other.name]
    if named:
        return named
    kinds = [kind for kind in dict.fromkeys(one.kind for one in ours) if any(other.kind == kind for other in theirs)]
    alike = [pair for kind in kinds for pair in zip(_of(ours, kind), _of(theirs, kind), strict=False)]
    return alike or list(zip(ours, theirs, strict=False))


def _of(models: Sequence[Measured], kind: str) -> list[Measured]:
    return [model for model in models if model.kind == kind]


def _pair(a: Side, one: Measured, other: Measured, paired: bool) -> dict[str, Any]:
    """Two models: each figure of both, and what changed where the samples are the same."""
    metrics = {}
    for name, first in one.estimates.items():
        if name in other.estimates:
            second = other.estimates[name]
            entry = {"a": first._asdict(), "b": second._asdict()}
            metrics[name] = {**entry, "difference": _difference(name, one, other, paired)._asdict()}
    found: dict[str, Any] = {"a": one.name, "b": other.name, "metrics": metrics, "better": None, "worse": None, "changed": []}
    if paired and a.main in one.values and a.main in other.values:
        change = np.nan_to_num(other.values[a.main] - one.values[a.main])
        moved = [n for n in np.argsort(change, kind="stable") if change[n] or one.answers[n] != other.answers[n]]
        changed = [
            {"name": a.names[n], "right": a.right[n], "a": one.answers[n], "b": other.answers[n], "change": float(change[n])}
            for n in moved
        ]
        found |= {"better": int((change > 0).sum()), "worse": int((change < 0).sum()), "changed": changed}
    return found


def _difference(name: str, one: Measured, other: Measured, paired: bool) -> Estimate:
    """The second less the first. Its error is of the pairs where samples are the same, and of both errors together elsewhere."""
    first, second = one.estimates[name], other.estimates[name]
    if paired and name in one.values and name in other.values:
        return mean(other.values[name] - one.values[name])
    if first.value is None or second.value is None:
        return Estimate(None, None, 0)
    errors = (first.standard_error, second.standard_error)
    error = None if paired or None in errors else float(np.sqrt(sum((value or 0.0) ** 2 for value in errors)))
    return Estimate(second.value - first.value, error, min(first.samples, second.samples))


def _percent(found: Mapping[str, Any]) -> bool:
    return bool(found["task"] != "own")


def _rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    percent, rows = _percent(found), []
    for model in found["models"]:
        name = model["a"] if model["a"] == model["b"] else f"{model['a']} and {model['b']}"
        for figure, one in model["metrics"].items():
            cells = [shown(Estimate(**one[key]), percent) for key in ("a", "b")]
            rows.append((name, title(figure), *cells, points(Estimate(**one["difference"]), percent)))
    return rows


HEADS = ("model", "figure", "A", "B", "B - A")


def text(found: Mapping[str, Any]) -> str:
    """Both evaluations, a row for each figure, and the samples that changed."""
    lines = [f"{key.upper()}: {found[key]['file']}: {found[key]['about']}" for key in ("a", "b")]
    lines.append(_same(found))
    lines += table([HEADS, *_rows(found)])
    for model in found["models"]:
        if found["same_samples"]:
            lines.append(_changed(model))
            lines += [f"  {one['name']}: right {one['right']}, A {one['a']}, B {one['b']}" for one in model["changed"][:SHOWN]]
    return "\n".join(lines)


def _same(found: Mapping[str, Any]) -> str:
    if found["same_samples"]:
        return "both have measured the same samples, so differences are taken sample by sample"
    return "they have measured different samples, so the error of a difference is that of both figures together"


def _changed(model: Mapping[str, Any]) -> str:
    count = len(model["changed"])
    rest = f"; the first {SHOWN}, those that became worse first" if count > SHOWN else ""
    better, worse = model["better"] or 0, model["worse"] or 0
    return f"{model['b']}: {many(count, 'answer')} changed, {better} to the better and {worse} to the worse{rest}"


def html(found: Mapping[str, Any]) -> str:
    """A page with the same rows, and all samples that changed. ToolError: the tools are missing."""
    try:
        from cnna.compiler.report.page import Style, page
    except ModuleNotFoundError as missing:
        raise ToolError(f"a page needs {missing.name}, which is not installed here; --json needs nothing more") from None
    rules = "th, td { text-align: left } tbody tr:nth-child(odd) { background: var(--soft) }"
    parts = [f"<p>{key.upper()}: {escape(found[key]['file'])}: {escape(found[key]['about'])}</p>" for key in ("a", "b")]
    parts += [f"<p>{escape(_same(found))}.</p>", _table(HEADS, _rows(found))]
    for model in found["models"]:
        if found["same_samples"]:
            rows = [(one["name"], one["right"], one["a"], one["b"]) for one in model["changed"]]
            parts += [f"<h2>{escape(model['b'])}</h2><p>{escape(_changed(model).partition(': ')[2].partition(';')[0])}.</p>"]
            parts += [_table(("sample", "right", "A", "B"), rows)] if rows else []
    return page(f"{found['a']['file']} and {found['b']['file']}", Style("72rem", "", "", rules), "\n".join(parts))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
