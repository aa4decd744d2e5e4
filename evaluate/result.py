"""`Evaluation`: what was measured, with standard errors, and each model beside the one that it is compared with.

`figures` gives it as `cnna eval --json` writes it (docs/eval.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cnna.evaluate.datasets.dataset import Source
from cnna.evaluate.runners import Identity
from cnna.evaluate.standard_errors import Estimate, mean, mean_difference, whole, whole_difference
from cnna.evaluate.tasks.task import Record, Targets, Task, Values, Whole, has_nan

KIND, SCHEMA = "evaluation", 1
SAME = "same"  # the figure of `Task.alike`: how much two models' answers are the same


@dataclass(frozen=True, eq=False)
class ModelResult:
    """One model. estimates: figures by name, in order. wholes: those of the set as a whole. values: of each sample, for
    those that are means. nan: answers with NaN. seconds: that answering took, without samples that a journal had; None: it had all.
    """

    identity: Identity
    estimates: Mapping[str, Estimate]
    wholes: Mapping[str, Whole]
    values: Mapping[str, Values]
    records: Sequence[Record]
    nan: int
    seconds: float | None


@dataclass(frozen=True, eq=False)
class Difference:
    """A model beside the one that it is compared with. estimates: by how much each figure is above. same: of `Task.alike`.

    better, worse: samples whose main figure is above, and below.
    """

    model: str
    estimates: Mapping[str, Estimate]
    same: Estimate | None
    better: int
    worse: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result. data: where the samples are from; source reads them. base: the model that others are compared with, if any.

    skipped: why samples were left out, by name. selection: how samples were chosen, in words.
    """

    task: Task
    data: Mapping[str, Any]
    targets: Targets
    source: Source
    models: tuple[ModelResult, ...]
    base: str | None
    differences: tuple[Difference, ...]
    skipped: Mapping[str, str]
    selection: str
    numbers: tuple[int, ...]  # of the samples in the data
    truth: str | None = None  # the model whose answers were taken for right

    @property
    def samples(self) -> int:
        """How many were measured."""
        return len(self.targets.names)

    @property
    def main(self) -> str:
        """The figure by which samples are better or worse."""
        return main_figure(self.task, self.models[0].values)

    def model(self, name: str) -> ModelResult:
        """The model of that name."""
        return next(model for model in self.models if model.identity.name == name)

    def difference(self, name: str) -> Difference | None:
        """How a model differs from the base; None: it is the base, or there is none."""
        return next((one for one in self.differences if one.model == name), None)

    def figures(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "task": self.task.name,
            "main": self.main,
            "data": {**self.data, "samples": self.samples, "selection": self.selection, "skipped": dict(self.skipped)},
            "classes": list(self.targets.classes) if self.targets.classes else None,
            "models": [self._model(model) for model in self.models],
            "truth": self.truth,
            "compared_with": self.base,
            "differences": [_difference(one) for one in self.differences],
            "samples": [self._sample(number) for number in range(self.samples)],
        }

    def _model(self, model: ModelResult) -> dict[str, Any]:
        metrics = {name: estimate._asdict() for name, estimate in model.estimates.items()}
        return {**asdict(model.identity), "metrics": metrics, "nan": model.nan, "seconds": model.seconds}

    def _sample(self, number: int) -> dict[str, Any]:
        models = []
        for model in self.models:
            values = {name: _plain(one[number]) for name, one in model.values.items()}
            models.append({"answer": self.task.words(model.records[number], self.targets), "values": values})
        right = self.task.right(self.targets.targets[number], self.targets)
        return {"name": self.targets.names[number], "right": right, "models": models}


def _difference(one: Difference) -> dict[str, Any]:
    same = None if one.same is None else one.same._asdict()
    metrics = {name: estimate._asdict() for name, estimate in one.estimates.items()}
    return {"model": one.model, "metrics": metrics, "same": same, "better": one.better, "worse": one.worse}


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def model_result(identity: Identity, task: Task, records: Sequence[Record], data: Targets, seconds: float | None) -> ModelResult:
    """One model's figures, from its records."""
    values = task.scores(records, data)
    wholes = task.wholes(records, data)
    estimates = {
        **{name: whole(one, len(records)) for name, one in wholes.items()},
        **{name: mean(one) for name, one in values.items()},
    }
    return ModelResult(identity, estimates, wholes, values, records, sum(map(has_nan, records)), seconds)


def difference_of(task: Task, model: ModelResult, base: ModelResult) -> Difference:
    """A model beside another on the same samples."""
    count, shared = len(model.records), [name for name in model.wholes if name in base.wholes]
    estimates = {name: whole_difference(model.wholes[name], base.wholes[name], count) for name in shared}
    estimates |= {name: mean_difference(one, base.values[name]) for name, one in model.values.items() if name in base.values}
    pairs = zip(model.records, base.records, strict=True)
    alike = [value for one, other in pairs if (value := task.alike(one, other)) is not None]
    change = changes(task, model, base)
    same = mean(np.array(alike)) if alike else None
    return Difference(model.identity.name, estimates, same, int((change > 0).sum()), int((change < 0).sum()))


def changes(task: Task, model: ModelResult, base: ModelResult) -> Values:
    """By how much each sample's main figure is above that of the base; 0 where it has none."""
    main = main_figure(task, model.values)
    if main not in model.values or main not in base.values:
        return np.zeros(len(model.records))
    return np.nan_to_num(model.values[main] - base.values[main])


def main_figure(task: Task, values: Mapping[str, Values]) -> str:
    """The task's main figure, or the first that a function of the user's gives."""
    return task.main if task.main in values else next(iter(values), task.main)
