"""Detection: average precision as COCO computes it, by pycocotools, and the share of objects that are found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnna.evaluate.tasks.coco_figures import BOXES, average_precision, precisions
from cnna.evaluate.tasks.decoding import Decode
from cnna.evaluate.tasks.task import Answers, Asked, Outline, Record, Targets, Values, Whole
from cnna.host.model.detections import Detections, matches
from cnna.spec.errors import DataError

SURE = 0.25  # score from which on a box counts as said: for the share of objects found, and on the page
SAME = 0.5  # overlap of a box with its object
DIGITS, SCORE_DIGITS = 2, 5  # after the point, in records


@dataclass(frozen=True)
class Detection:
    """Boxes. decode: makes boxes of a model's outputs. offset: the number of its first class."""

    decode: Decode
    offset: int = 0
    name: str = "detection"
    main: str = "found"
    percent: bool = True

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """As of Task."""
        if model.frame is None:
            raise DataError(f"{model.name}: its input takes no pictures, so that boxes have no place in them")

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """The boxes in the picture's pixels, surest first: [left, top, right, bottom, score, class]."""
        assert model.frame is not None
        if any(output.dtype.kind == "f" and np.isnan(output).any() for output in answers.values()):
            return {"boxes": [], "nan": True}
        found = self.decode(model, answers)
        if not (np.isfinite(found.boxes).all() and np.isfinite(found.scores).all()):
            return {"boxes": [], "nan": True}
        height, width = target["size"]
        x, y = target["place"](model.frame).back(found.boxes[:, 0::2], found.boxes[:, 1::2])
        x, y = np.clip(x, 0, width), np.clip(y, 0, height)
        boxes = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).round(DIGITS).tolist()
        scores = [round(float(score), SCORE_DIGITS) for score in found.scores]
        rows = zip(boxes, scores, (found.classes - self.offset).tolist(), strict=True)
        return {"boxes": sorted(([*box, score, kind] for box, score, kind in rows if kind >= 0), key=lambda row: -row[4])}

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """The share of a picture's objects that a box of their class with a score of SURE overlaps by half; NaN: it has none."""
        return {"found": np.array([_found(record, target) for record, target in zip(records, data.targets, strict=True)])}

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """AP over overlaps from 0.5 to 0.95, and at 0.5 and 0.75."""
        targets = list(data.targets)
        return precisions(lambda: average_precision(BOXES, len(records), _objects(targets), _boxes(records)))

    def alike(self, record: Record, other: Record) -> float | None:
        """Nothing."""
        return None

    def words(self, record: Record, data: Targets) -> str:
        """The classes of the sure boxes."""
        sure = [data.class_name(int(box[5])) for box in record["boxes"] if box[4] >= SURE]
        return "NaN" if record.get("nan") else _counted(sure) or "nothing"

    def right(self, target: Any, data: Targets) -> str:
        """The classes of the objects."""
        return _counted([data.class_name(one["class"]) for one in target["objects"] if not one["crowd"]]) or "nothing"

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """The sure boxes, or the objects."""
        if record is None:
            return [Outline(_corners(one["box"]), data.class_name(one["class"])) for one in target["objects"] if not one["crowd"]]
        return [Outline(tuple(box[:4]), data.class_name(int(box[5]))) for box in record["boxes"] if box[4] >= SURE]


def _counted(names: Sequence[str]) -> str:
    """`2 cat, dog`."""
    return ", ".join(f"{names.count(name)} {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names))


def _corners(box: Sequence[float]) -> tuple[float, ...]:
    left, top, width, height = box
    return left, top, left + width, top + height


def _found(record: Record, target: Any) -> float:
    objects = [one for one in target["objects"] if not one["crowd"]]
    if not objects:
        return np.nan
    sure = [box for box in record["boxes"] if box[4] >= SURE]
    ours = _detections([box[:4] for box in sure], [box[5] for box in sure])
    theirs = _detections([_corners(one["box"]) for one in objects], [one["class"] for one in objects])
    return len(matches(ours, theirs, SAME)) / len(objects)


def _detections(boxes: Sequence[Sequence[float]], classes: Sequence[int]) -> Detections:
    return Detections(np.array(boxes, np.float32).reshape(-1, 4), np.ones(len(boxes), np.float32), np.array(classes, np.int64))


def _boxes(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The boxes of all pictures, as COCOeval takes them."""
    return [
        {
            "image_id": number,
            "category_id": int(row[5]),
            "bbox": [row[0], row[1], row[2] - row[0], row[3] - row[1]],
            "score": row[4],
        }
        for number, record in enumerate(records)
        for row in record["boxes"]
    ]


def _objects(targets: Sequence[Any]) -> list[dict[str, Any]]:
    """The objects of all pictures."""
    return [
        {"image_id": number, "category_id": one["class"], "bbox": one["box"], "area": one["area"], "iscrowd": int(one["crowd"])}
        for number, target in enumerate(targets)
        for one in target["objects"]
    ]
