"""AccuracyOnly: the samples of a data set as a device takes them, and how good the answers in LoadGen's log are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.chosen_task import choice_of, reading_of, task_name, task_of
from cnna.evaluate.datasets.array_file import POINTS, RIGHT, read_plain_array
from cnna.evaluate.datasets.dataset import Dataset
from cnna.evaluate.datasets.layouts import ARRAYS, read_data
from cnna.evaluate.evaluate import selected
from cnna.evaluate.loop import targets_of
from cnna.evaluate.result import model_result
from cnna.evaluate.runners import Runner
from cnna.evaluate.standard_errors import Estimate
from cnna.evaluate.tasks.task import Asked, Task
from cnna.host.samples.row_files import rows_in
from cnna.spec.errors import DataError, RunError

Answers = Mapping[int, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Samples:
    """Some samples of a data set, and how answers to them are judged."""

    data: Dataset
    task: Task
    numbers: Sequence[int]

    def inputs(self, runner: Runner) -> dict[str, NDArray[Any]]:
        """All of them, [samples, ...] by input."""
        return self.data.source.read(self.numbers, runner.intake)


def samples_of(path: Path, limit: int | None, labelled: bool = True) -> Samples:
    """The data, with the task that suits them. labelled: whether answers are judged; else arrays may lack what is right.

    UserError: they cannot be read.
    """
    choice, named = choice_of({}), task_name(None, path, None)
    plain = not labelled and path.suffix.lower() in ARRAYS and path.is_file() and not {RIGHT, POINTS} & {*rows_in(path)}
    data = read_plain_array(path) if plain else read_data(path, named, reading_of({}))
    numbers, _ = selected(data, limit, None)
    return Samples(data, task_of(named, choice, data), numbers)


def shapes_of(runner: Runner, inputs: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    """The shape of each output for one sample."""
    (first,) = runner.run({name: x[:1] for name, x in inputs.items()})
    return {name: np.asarray(y).shape for name, y in first.items()}


def answered(runner: Runner, inputs: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> NDArray[np.float32]:
    """What a model answers to all samples: a row for each, all outputs in a row. DataError: a size depends on the sample."""
    count, rows = len(next(iter(inputs.values()))), []
    for start in range(0, count, runner.batch):
        part = runner.run({name: x[start : start + runner.batch] for name, x in inputs.items()})
        if any({name: np.asarray(y).shape for name, y in one.items()} != shapes for one in part):
            raise DataError(
                f"{runner.identity.name}: an output has another size for each sample; measure its accuracy with cnna eval"
            )
        rows += [np.concatenate([np.asarray(y, np.float32).reshape(-1) for y in one.values()]) for one in part]
    return np.stack(rows)


def judged(samples: Samples, runner: Runner, logged: Answers, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Estimate]:
    """The figures of the answers in LoadGen's log. RunError: a sample has none. DataError: the task cannot judge them."""
    if missing := [place for place in range(len(samples.numbers)) if place not in logged]:
        raise RunError(f"LoadGen: {len(missing)} samples were not answered")
    asked = Asked(runner.identity.name, runner.intake.frame, runner.intake.how.layout == "nhwc")
    targets = targets_of(samples.data, samples.numbers)
    records = []
    for place in range(len(samples.numbers)):
        answers = _apart(logged[place], shapes)
        if not place:
            samples.task.check(asked, answers, targets)
        records.append(samples.task.record(asked, answers, targets.targets[place]))
    return dict(model_result(runner.identity, samples.task, records, targets, None).estimates)


def _apart(row: NDArray[np.float32], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float32]]:
    """The outputs of one sample."""
    found, start = {}, 0
    for name, shape in shapes.items():
        found[name] = row[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
    if start != len(row):
        raise RunError(f"LoadGen: an answer has {len(row)} numbers, not {start}")
    return found
