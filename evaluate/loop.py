"""The loop of an evaluation: takes samples in steps, has every model answer, and keeps a record of each answer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cnna.evaluate.datasets.dataset import Dataset, Inputs, SampleError
from cnna.evaluate.journal import Entry, Journal
from cnna.evaluate.runners import Runner
from cnna.evaluate.tasks.task import Answers, Asked, Record, Targets, Task
from cnna.spec.errors import DataError

Count = Callable[[int, int], object]  # takes the samples that are done, and all
STEP = 16  # samples that are kept together; a multiple of a model's batch is the next above it
LEAVE_OUT = "; --skip-unreadable leaves such samples out and counts them"


@dataclass
class Loop:
    """One evaluation under way. numbers: the samples to take. skip: whether samples that cannot be read are left out.

    truth: the place of the model whose answers are the targets of all; None: the data have the targets. seconds: that each model
    has taken to answer, in this process.
    """

    data: Dataset
    task: Task
    runners: Sequence[Runner]
    numbers: Sequence[int]
    step: int
    skip: bool = False
    count: Count | None = None
    truth: int | None = None
    seconds: list[float] = field(default_factory=list)
    _checked: set[int] = field(default_factory=set)

    def run(self, journal: Journal) -> None:
        """Takes every sample that the journal lacks."""
        self.seconds = [0.0 for _ in self.runners]
        left = [number for number in self.numbers if not self._is_kept(journal.entries.get(number))]
        total, done = len(self.numbers), len(self.numbers) - len(left)
        self._say(done, total)
        for start in range(0, len(left), self.step):
            entries = self._taken(left[start : start + self.step])
            journal.add(entries)
            done += len(entries)
            self._say(done, total)

    def _is_kept(self, entry: Entry | None) -> bool:
        """Whether a sample need not be taken again; one that was left out is, unless this evaluation leaves such out too."""
        return entry is not None and (entry.skipped is None or self.skip)

    def _say(self, done: int, total: int) -> None:
        if self.count:
            self.count(done, total)

    def _taken(self, numbers: Sequence[int]) -> dict[int, Entry]:
        """The entries of some samples, which the models answer together."""
        inputs, skipped = self._inputs(numbers)
        kept = [number for number in numbers if number not in skipped]
        records = self._records(inputs, kept) if kept else []
        made = {number: Entry(tuple(one[place] for one in records)) for place, number in enumerate(kept)}
        return {number: skipped.get(number) or made[number] for number in numbers}

    def _inputs(self, numbers: Sequence[int]) -> tuple[list[Inputs], dict[int, Entry]]:
        """The inputs of each model for the samples that can be read, and entries for the others.

        DataError: a sample cannot be read, and is not to be left out; or none fits a model.
        """
        parts: list[list[Inputs]] = [[] for _ in self.runners]
        skipped: dict[int, Entry] = {}
        for number in numbers:
            try:
                one = [self.data.source.read([number], runner.intake) for runner in self.runners]
                self.data.targets[number]  # a mask is read now, so that one that cannot be read is left out too
            except SampleError as error:
                if not self.skip:
                    raise DataError(f"{error}{LEAVE_OUT}") from None
                skipped[number] = Entry(skipped=str(error))
                continue
            for part, inputs in zip(parts, one, strict=True):
                part.append(inputs)
        return [{name: np.concatenate([one[name] for one in part]) for name in part[0]} if part else {} for part in parts], skipped

    def _records(self, inputs: Sequence[Inputs], numbers: Sequence[int]) -> list[list[Record]]:
        """Each model's records of some samples."""
        answers = [self._answers(place, one) for place, one in enumerate(inputs)]
        targets = [self.data.targets[number] for number in numbers] if self.truth is None else answers[self.truth]
        return [
            [self.task.record(self._asked(place), answer, target) for answer, target in zip(one, targets, strict=True)]
            for place, one in enumerate(answers)
        ]

    def _answers(self, place: int, inputs: Inputs) -> list[Answers]:
        """One model's answers to some samples."""
        began = time.perf_counter()
        answers = self.runners[place].run(inputs)
        self.seconds[place] += time.perf_counter() - began
        if place not in self._checked:
            self.task.check(self._asked(place), answers[0], targets_of(self.data, self.numbers))
            self._checked.add(place)
        return answers

    def _asked(self, place: int) -> Asked:
        runner = self.runners[place]
        return Asked(runner.identity.name, runner.intake.frame, runner.intake.how.layout == "nhwc")


class Picked(Sequence[Any]):
    """Some of the entries of a sequence, which are read when they are asked for: masks may be large."""

    def __init__(self, whole: Sequence[Any], numbers: Sequence[int]) -> None:
        self._whole, self._numbers = whole, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        return self._whole[self._numbers[place]]


def targets_of(data: Dataset, numbers: Sequence[int]) -> Targets:
    """What is right for some samples of the data, in their order."""
    return Targets(Picked(data.targets, numbers), [data.names[number] for number in numbers], data.classes)


def step_of(runners: Sequence[Runner], batch: int | None) -> int:
    """How many samples are taken at once: the batch that was asked for, or STEP, and no part of a model's own batch."""
    own = max(runner.batch for runner in runners)
    return batch or -(-STEP // own) * own
