"""Boxes from the outputs of detectors, in the pixels of the model's input: rows of YOLO's, finished boxes, or a user's function."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.tasks.own import called
from cnna.evaluate.tasks.task import Answers, Asked
from cnna.host.model.detections import best, yolo_rows, yolox_rows
from cnna.spec.errors import DataError

YOLOV5, YOLOV8, YOLOX, BOXES = FORMS = ("yolov5", "yolov8", "yolox", "boxes")
STRIDES = (8, 16, 32)  # of a YOLOX
LEAST, OVERLAP, MOST = 0.001, 0.6, 100  # of a score; of boxes of one object; boxes in a picture, as COCO counts them
SHARES = 2.0  # boxes whose numbers are all below are shares of the input


class Decoded(NamedTuple):
    """The boxes of one answer: [N, 4] left, top, right, bottom in pixels of the input, scores [N], classes [N]."""

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    classes: NDArray[np.int64]


class Ready(dict[str, NDArray[Any]]):
    """Answers of a model that decodes its boxes itself: the fields of a `Decoded` by name."""


Decode = Callable[[Asked, Answers], Decoded]


def decoder(form: str | None, classes: int, least: float = LEAST, overlap: float = OVERLAP) -> Decode:
    """The way of one form; None: that which the outputs' shapes tell, for so many classes."""

    def decode(model: Asked, answers: Answers) -> Decoded:
        if isinstance(answers, Ready):
            return Decoded(**answers)
        chosen = form or form_of(answers, classes)
        if chosen is None:
            shapes = ", ".join(f"{name} {list(output.shape)}" for name, output in answers.items())
            raise DataError(
                f"{model.name}: outputs {shapes} are no boxes of {classes} classes in a form that cnna eval knows; "
                f"--decode names one ({', '.join(FORMS)}), or a function FILE.py:NAME"
            )
        if chosen == BOXES:
            return _finished(model, answers, classes, least, overlap)
        rows = max(answers.values(), key=np.size)
        rows = rows.reshape(rows.shape[-2:])
        if chosen == YOLOV8 and rows.shape[0] == classes + 4:
            rows = rows.T
        sides = 4 if chosen == YOLOV8 else 5
        if rows.shape[1] != classes + sides:
            raise DataError(
                f"{model.name}: rows of {rows.shape[1]} numbers do not hold {sides} and {classes} scores, as {chosen} has"
            )
        rows = rows.astype(np.float32)
        if chosen == YOLOX:
            assert model.frame is not None
            rows = yolox_rows(rows, model.frame, STRIDES)
        return _best(*yolo_rows(rows, chosen != YOLOV8), least, overlap)

    return decode


def form_of(answers: Answers, classes: int) -> str | None:
    """The form of a detector's outputs, by their shapes; None: it is none of FORMS, or could be two."""
    if len(answers) > 1:
        return BOXES if any(output.shape[-1:] == (4,) for output in answers.values()) else None
    (output,) = answers.values()
    shape = output.shape[-2:]
    if output.ndim < 2 or output.size != np.prod(shape):
        return None
    forms = [YOLOV8] if classes + 4 in shape else []
    forms += [YOLOV5] if shape[1] == classes + 5 else []
    return forms[0] if len(forms) == 1 else None


def _best(boxes: NDArray[Any], scores: NDArray[Any], least: float, overlap: float) -> Decoded:
    found = best(boxes, scores, least, overlap, MOST)
    return Decoded(found.boxes.astype(np.float64), found.scores.astype(np.float64), found.classes)


def _finished(model: Asked, answers: Answers, classes: int, least: float, overlap: float) -> Decoded:
    """Boxes with a score and a class each, or with scores of all classes, a background before them or not."""
    assert model.frame is not None
    name = _boxes_in(model, answers)
    boxes, rest = answers[name].reshape(-1, 4).astype(np.float64), {n: y for n, y in answers.items() if n != name}
    count = len(boxes)
    if not count:
        return Decoded(boxes, np.zeros(0), np.zeros(0, np.int64))
    if boxes.max() < SHARES:
        boxes = boxes * np.array([*model.frame[::-1]] * 2)
    if len(narrow := {n: y.reshape(-1) for n, y in rest.items() if y.size == count}) > 1:
        score, kind = _score_and_class(model, narrow)
        kept = score >= least
        return Decoded(boxes[kept], score[kept].astype(np.float64), kind[kept].astype(np.int64))
    wide = next((y.reshape(count, -1) for y in rest.values() if y.size in (count * classes, count * (classes + 1))), None)
    if wide is None:
        raise DataError(
            f"{model.name}: {count} boxes have no scores of {classes} classes beside them; --decode FILE.py:NAME decodes them"
        )
    return _best(boxes.astype(np.float32), wide[:, wide.shape[1] - classes :].astype(np.float32), least, overlap)


def _boxes_in(model: Asked, answers: Answers) -> str:
    """The output that has boxes: that with four numbers each, by its name where there are several. DataError: none is."""
    fours = [name for name, output in answers.items() if output.shape[-1:] == (4,)]
    named = [name for name in fours if "box" in name.lower()]
    if len(fours) != 1 and len(named) != 1:
        raise DataError(f"{model.name}: nothing tells which of {', '.join(answers)} has the boxes; --decode FILE.py:NAME does")
    return named[0] if len(named) == 1 else fours[0]


def _score_and_class(model: Asked, narrow: Answers) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which outputs of one number a box are the scores and the classes: integers, or a name, tell. DataError: nothing does."""
    kinds = [name for name, y in narrow.items() if y.dtype.kind in "iu" or "class" in name.lower() or "label" in name.lower()]
    if len(kinds) != 1 or len(narrow) != 2:
        raise DataError(f"{model.name}: nothing tells which of {', '.join(narrow)} is the class; --decode FILE.py:NAME does")
    (score,) = (name for name in narrow if name != kinds[0])
    return narrow[score], narrow[kinds[0]]


def own_decoder(where: str, function: Callable[..., Any]) -> Decode:
    """A user's function: NAME(answers, (rows, columns)) gives boxes [N, 4] in the input's pixels, scores [N] and classes [N]."""

    def decode(model: Asked, answers: Answers) -> Decoded:
        made = called(where, function, dict(answers), model.frame)
        try:
            parts = [made[name] for name in Decoded._fields] if isinstance(made, Mapping) else list(made)
            boxes, scores, classes = (np.asarray(part) for part in parts)
            if classes.size and not np.array_equal(classes, np.rint(classes)):
                raise ValueError
            found = Decoded(boxes.reshape(-1, 4).astype(np.float64), scores.astype(np.float64), classes.astype(np.int64))
        except (TypeError, ValueError, KeyError):
            raise DataError(f"{where}: must give boxes [N, 4], scores [N] and classes [N], which are whole numbers") from None
        if not len(found.boxes) == len(found.scores) == len(found.classes) or found.scores.ndim != 1 or found.classes.ndim != 1:
            raise DataError(
                f"{where}: gave {len(found.boxes)} boxes, scores {list(scores.shape)} and classes {list(classes.shape)}"
            )
        return found

    return decode
