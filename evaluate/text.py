"""An evaluation in words: a table with a row for each model, and a line for each comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from cnna.evaluate.result import Difference, Evaluation, ModelResult
from cnna.evaluate.standard_errors import Estimate
from cnna.spec.counts import many

TITLES = {
    "ap": "AP",
    "ap50": "AP50",
    "ap75": "AP75",
    "recall1": "recall@1",
    "recall5": "recall@5",
    "miou": "mIoU",
    "iou": "IoU",
    "map": "mAP",
    "oks": "OKS",
}
ALIKE = {"classification": "the same class", "embedding": "cosine between both"}


def title(figure: str) -> str:
    """What people call a figure."""
    if figure.startswith("top") and figure[3:].isdigit():
        return f"top-{figure[3:]}"
    if figure.startswith("pck"):
        return f"PCK@{figure[3:]}"
    return TITLES.get(figure, figure)


def shown(one: Estimate | None, percent: bool) -> str:
    """A figure with its standard error: `91.2 % ± 1.3`."""
    if one is None or one.value is None:
        return "-"
    error = one.standard_error
    if percent:
        return f"{one.value:.1%} ± {100 * error:.1f}" if error is not None else f"{one.value:.1%}"
    return f"{one.value:.4g} ± {error:.2g}" if error is not None else f"{one.value:.4g}"


def points(one: Estimate, percent: bool) -> str:
    """A difference with its standard error: `-0.20 ± 0.20 points`."""
    if one.value is None:
        return "-"
    if percent:
        error = f" ± {100 * one.standard_error:.2f}" if one.standard_error is not None else ""
        return f"{100 * one.value:+.2f}{error} points"
    error = f" ± {one.standard_error:.2g}" if one.standard_error is not None else ""
    return f"{one.value:+.4g}{error}"


def lines(found: Evaluation) -> list[str]:
    """The whole, as `cnna eval` prints it."""
    said = [headline(found)]
    said += table([HEADS + tuple(map(title, figures_of(found))), *(_row(found, model) for model in found.models)])
    left = "are left out of the figures that are NaN" if found.task.name == "own" else "count as wrong"
    said += [f"{one.identity.name}: {many(one.nan, 'answer')} with NaN, which {left}" for one in found.models if one.nan]
    said += [beside(found, one) for one in found.differences]
    if found.skipped:
        name, why = next(iter(found.skipped.items()))
        said.append(f"left out: {many(len(found.skipped), 'sample')} that cannot be read; the first: {name}: {why}")
    return said


HEADS = ("model", "runs on")


def headline(found: Evaluation) -> str:
    """What was measured on what."""
    about = f"{found.selection}; {found.data['layout']}"
    truth = "" if found.truth is None else f"; what {found.truth} answers is right"
    return f"{found.data['path']}: {many(found.samples, 'sample')} ({about}), {found.task.name}{truth}"


def figures_of(found: Evaluation) -> list[str]:
    """The names of the figures of any model, in order."""
    return list(dict.fromkeys(name for model in found.models for name in model.estimates))


def _row(found: Evaluation, model: ModelResult) -> tuple[str, ...]:
    percent = found.task.percent
    cells = [shown(model.estimates.get(name), percent) for name in figures_of(found)]
    return (model.identity.name, model.identity.device, *cells)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, the first two columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def beside(found: Evaluation, one: Difference) -> str:
    """A model beside the base, in a line."""
    percent = found.task.percent
    parts = [f"{title(name)} {points(estimate, percent)}" for name, estimate in one.estimates.items()]
    said = f"{one.model} beside {found.base}: {', '.join(parts)}"
    if found.main in one.estimates:
        said += f"; {one.better} better and {one.worse} worse of {found.samples:,}"
    if one.same is not None and one.same.value is not None:
        said += f"; {ALIKE.get(found.task.name, 'alike')} {same_text(found.task.name, one.same)}"
    return said


def same_text(task: str, same: Estimate) -> str:
    """How much two models' answers are alike: a share of samples, or the mean cosine."""
    assert same.value is not None
    return f"{same.value:.4f}" if task == "embedding" else f"in {same.value:.1%}"


def estimates(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Estimate]:
    """Figures of the JSON as estimates."""
    return {name: Estimate(one["value"], one["standard_error"], one["samples"]) for name, one in figures.items()}
