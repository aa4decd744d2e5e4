"""What all tasks have: a record of each answer, from which all figures are made, so that an evaluation can be gone on with.

A record is a value that JSON holds. Most figures are means over samples. Others, such as mIoU, are of the set as a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import DataError
from cnna.spec.names import in_line

Answers = Mapping[str, NDArray[Any]]  # a model's outputs for one sample, each in the shape that the model gives for one
Record = Any
Values = NDArray[np.float64]  # of a figure, for each sample; NaN: the sample has none


class Whole(NamedTuple):
    """A figure of the set as a whole. of: its value for some samples, given by number, which may come several times.

    resamples: how many drawn sets give its standard error; 0: it has none, since that would take too long.
    """

    of: Callable[[NDArray[np.int64]], float]
    resamples: int


class Asked(NamedTuple):
    """The model that has answered. frame: rows and columns of the pictures that it takes, where it takes pictures.

    channels_last: whether the layout of its input is nhwc.
    """

    name: str
    frame: tuple[int, int] | None = None
    channels_last: bool = False


class Outline(NamedTuple):
    """Something to draw over a picture, in its pixels: a box of four numbers, or a point of two."""

    place: tuple[float, ...]
    label: str = ""


@dataclass(frozen=True)
class Targets:
    """What is right for the samples of an evaluation, in their order, and the names of classes by number."""

    targets: Sequence[Any]
    names: Sequence[str]
    classes: tuple[str, ...] | None = None

    def class_name(self, number: int) -> str:
        """What a class is called; its number where it has no name."""
        return self.classes[number] if self.classes and 0 <= number < len(self.classes) else str(number)


class Task(Protocol):
    """How answers are judged; the higher a figure, the better.

    main: the figure that says how good the answer to a sample is. percent: whether figures are shares, which are shown as per cent.
    """

    @property
    def name(self) -> str: ...
    @property
    def main(self) -> str: ...
    @property
    def percent(self) -> bool: ...

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """Looks at the first answer. DataError: it is not of the task's kind, or data have classes that it lacks."""

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """What is kept of the answer to one sample. DataError: it cannot be judged."""

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """Figures that are means over samples: the value of each sample."""

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """Figures of the set as a whole, which stand before the means."""

    def alike(self, record: Record, other: Record) -> float | None:
        """How much the answers of two models to a sample are the same, from 0 to 1; None: it says nothing for this task."""

    def words(self, record: Record, data: Targets) -> str:
        """An answer in a few words."""

    def right(self, target: Any, data: Targets) -> str:
        """What is right, in a few words."""

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """What to draw over the picture: an answer, or what is right where `record` is None."""


def has_nan(record: Record) -> bool:
    """Whether a record says that the answer held NaN."""
    return isinstance(record, dict) and bool(record.get("nan"))


@dataclass(frozen=True)
class Chosen:
    """Picks the output that a task judges. output: its name; None: the first."""

    output: str | None = None

    def of(self, model: Asked, answers: Answers) -> NDArray[Any]:
        """The output. DataError: there is none of that name."""
        if self.output is None:
            return next(iter(answers.values()))
        if self.output not in answers:
            raise DataError(f"{model.name}: there is no output '{self.output}'; there are {in_line(answers)}")
        return answers[self.output]
