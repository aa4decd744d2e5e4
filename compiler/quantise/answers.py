"""How often a quantised network answers as the float network does, and how often each of them is right, on some samples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.ir import Graph
from cnna.compiler.quantise.calibrate import Progress
from cnna.compiler.quantise.noise import Noise
from cnna.compiler.quantise.sessions import Session, feeds_of
from cnna.spec.errors import DataError
from cnna.spec.verdicts import SAID, SIDES, TOP1, Judged, class_axis, has_boxes

AGREEMENT, LABELLED = "agreement", "top-1"  # what a loss is of where classes count
DIGITS = 9  # of a loss, without what rounding shares leaves
FEW = 8  # samples on which outputs are compared as numbers
SURE = 0.25  # score from which a detector's place has an object, as YOLO's own tools have it
NOTHING = -1  # the class of a place without an object


def classes_of(answer: np.ndarray, boxes: bool = False) -> np.ndarray | None:
    """The greatest class of a sample's scores, [1, classes], or at each place of a map of scores; None if it has none.

    The classes of a map lie along its channels, [1, classes, rows, columns], or along the shorter one of two axes. boxes: it
    `has_boxes`; a place where no score is SURE has the class NOTHING.
    """
    if answer.dtype.kind != "f" or not answer.ndim:
        return None
    if answer.size == max(answer.shape):
        return np.array([answer.argmax()]) if answer.size > 1 else None
    axis = class_axis(answer.shape)
    if boxes:
        scores = np.moveaxis(answer, axis, -1)[..., SIDES:]
        return np.where(scores.max(axis=-1) > SURE, scores.argmax(axis=-1), NOTHING).astype(np.int32)
    return answer.argmax(axis=axis).astype(np.int32) if answer.ndim > 2 and answer.shape[axis] > 1 else None


@dataclass(frozen=True)
class Results:
    """Shares of samples: with the float network's class (None: no output has classes), and right (None: no labels).

    outputs: each beside the float network, on a few samples. alike, right: what the shares are the means of, sample by sample.
    """

    agreement: float | None
    top1: float | None
    outputs: tuple[Judged, ...] = ()
    alike: tuple[float, ...] = ()
    right: tuple[bool, ...] = ()


class Loss(NamedTuple):
    """What a network loses against float. of: what the points are of."""

    points: float
    of: str


class Judge:
    """Compares quantised networks with the float network on the same samples. labels: the right class of each sample.

    Classes are those of the outputs with scores of the whole sample or, if there are none, of the outputs that are maps of scores.
    Labels belong to the first of these outputs. DataError: labels do not fit.
    """

    def __init__(
        self,
        graph: Graph,
        samples: Mapping[str, np.ndarray],
        count: int,
        preprocess: Preprocess | None,
        labels: np.ndarray | None = None,
        progress: Progress | None = None,
        metrics: Mapping[str, str] | None = None,
    ) -> None:
        self.metrics = metrics or {}
        self.graph, self.samples, self.count, self.preprocess, self.labels = graph, samples, count, preprocess, labels
        self._few = frozenset(int(number) for number in np.linspace(0, count - 1, min(FEW, count)))
        self._classes: list[list[np.ndarray | None]] = []
        self._boxes: list[bool] = []  # of each output
        self._answers: dict[int, list[np.ndarray]] = {}
        for number, answers in self._run(to_model(graph), count, progress):
            self._boxes = self._boxes or [has_boxes(answer) for answer in answers]
            self._classes.append([classes_of(answer, boxes) for answer, boxes in zip(answers, self._boxes, strict=True)])
            if number in self._few:
                self._answers[number] = answers
        self._chosen = self._with_classes()
        if labels is not None:
            self._check_labels(labels)

    def _with_classes(self) -> list[int]:
        """The outputs that have classes, by their place."""
        found = [place for place, one in enumerate(self._classes[0]) if one is not None]
        return [place for place in found if _whole(self._classes[0][place])] or found

    @property
    def classified(self) -> list[str]:
        """The names of these outputs."""
        return [self.graph.outputs[place] for place in self._chosen]

    def _check_labels(self, labels: np.ndarray) -> None:
        if len(labels) != self.count:
            raise DataError(f"there are {len(labels)} labels for {self.count} samples")
        if not self._chosen or not _whole(self._classes[0][self._chosen[0]]):
            raise DataError("the model has no output of class scores that labels could belong to")
        classes = self._answers[0][self._chosen[0]].size
        if wrong := [int(label) for label in labels if not 0 <= label < classes]:
            raise DataError(f"label {wrong[0]} is none of the model's {classes} classes, 0..{classes - 1}")

    @property
    def in_float(self) -> Results:
        """Of the float network itself."""
        return self._results([classes[self._chosen[0]] for classes in self._classes] if self._chosen else [], [1.0] * self.count)

    def results(self, model: ModelProto, progress: Progress | None = None) -> Results:
        """Of a quantised network."""
        equal: list[float] = []
        first = []
        judged = [Judged(name, self.metrics.get(name)) for name in self.graph.outputs]
        for number, answers in self._run(model, self.count, progress):
            if number in self._few:
                for one, mine, other in zip(judged, answers, self._answers[number], strict=True):
                    if mine.size == other.size:
                        one.add(mine, other)
            if not self._chosen:
                continue
            ours = [classes_of(answers[place], self._boxes[place]) for place in self._chosen]
            theirs = [self._classes[number][place] for place in self._chosen]
            equal.append(float(np.mean([_alike(a, b) for a, b in zip(ours, theirs, strict=True)])))
            first.append(ours[0])
        return replace(self._results(first, equal), outputs=tuple(judged))

    def classifies(self, found: Results) -> bool:
        """Whether agreement means anything: one of the outputs with classes is judged by them, or has boxes and scores."""
        return any(self._boxes[place] or found.outputs[place].choice[0] == TOP1 for place in self._chosen)

    def loss(self, found: Results) -> Loss | None:
        """What a network loses: right classes, or agreement where outputs are judged by classes, or else the most of any output.

        None: no output can be compared.
        """
        lost = [Loss(round(one.lost, DIGITS), SAID[one.choice[0]]) for one in found.outputs if one.lost is not None]
        return self._of_classes(found) or max(lost, default=None)

    def _of_classes(self, found: Results) -> Loss | None:
        """The loss by classes; None: outputs are compared as numbers."""
        if self.in_float.top1 is not None and found.top1 is not None:
            return Loss(round(100 * (self.in_float.top1 - found.top1), DIGITS), LABELLED)
        if found.agreement is not None and self.classifies(found):
            return Loss(round(100 * (1 - found.agreement), DIGITS), AGREEMENT)
        return None

    def more_lost(self, one: Results, other: Results) -> Loss | None:
        """How much more one network loses than another: by classes as of `loss`, or else of the output of which this is the most.

        None: no output can be compared.
        """
        ours, theirs = (self._of_classes(each) for each in (one, other))
        if ours is not None and theirs is not None:
            return Loss(ours.points - theirs.points, ours.of)
        several = len(one.outputs) > 1
        return max(
            [
                Loss(round(mine.lost - its.lost, DIGITS), SAID[mine.choice[0]] + (f" of '{mine.name}'" if several else ""))
                for mine, its in zip(one.outputs, other.outputs, strict=True)
                if mine.lost is not None and its.lost is not None
            ],
            default=None,
        )

    def loss_error(self, one: Results, other: Results) -> float | None:
        """The standard error, in points, of how much more one network loses than another on the same samples.

        None: the loss is of outputs that are compared as numbers, or there is one sample.
        """
        if self.count < 2 or any(self._of_classes(each) is None for each in (one, other)):
            return None
        pairs = (one.right, other.right) if one.right and other.right else (one.alike, other.alike)
        differences = np.subtract(*(np.array(each, np.float64) for each in pairs))
        return float(100 * differences.std(ddof=1) / np.sqrt(self.count))

    def _results(self, first: list[Any], alike: list[float]) -> Results:
        right = [] if self.labels is None else [int(one[0]) == label for one, label in zip(first, self.labels, strict=True)]
        agreement = (float(np.mean(alike)) if alike else 1.0) if self._chosen else None
        return Results(agreement, float(np.mean(right)) if right else None, (), tuple(alike), tuple(right))

    def noise(self, model: ModelProto) -> float:
        """Noise by signal of the outputs of a few samples, summed over the outputs of real numbers."""
        found: dict[int, Noise] = {}
        for number, answers in self._run(model, self.count, None, only=self._few):
            for place, (ours, theirs) in enumerate(zip(answers, self._answers[number], strict=True)):
                if theirs.dtype.kind == "f" and ours.shape == theirs.shape:
                    finite = np.isfinite(ours) & np.isfinite(theirs)
                    found.setdefault(place, Noise(None)).extend(theirs[finite], ours[finite])
        return sum(one.ratio for one in found.values() if one.ratio < inf)

    def _run(
        self, model: ModelProto, count: int, progress: Progress | None, only: frozenset[int] | None = None
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        session = Session(model.SerializeToString(), self.graph.name)
        for number, feeds in enumerate(feeds_of(self.graph, self.samples, count, self.preprocess)):
            if only is None or number in only:
                yield number, list(session.run(feeds).values())
            if progress:
                progress(number + 1, count)


def _whole(classes: np.ndarray | None) -> bool:
    """Whether it is the class of a whole sample."""
    return classes is not None and classes.size == 1


def _alike(ours: np.ndarray | None, theirs: np.ndarray | None) -> float:
    """The share of equal classes, among the places where one of the two has any."""
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return float(ours is None and theirs is None)
    there = (ours != NOTHING) | (theirs != NOTHING)
    return float(np.mean((ours == theirs)[there])) if there.any() else 1.0
