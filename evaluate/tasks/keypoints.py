"""Keypoints: the share of points that are near enough (PCK), COCO's similarity of keypoints (OKS), and AP by it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.tasks.coco_figures import POINTS, average_precision, precisions
from cnna.evaluate.tasks.task import Answers, Asked, Chosen, Outline, Record, Targets, Values, Whole
from cnna.spec.errors import DataError

PIXELS, SHARES = COORDINATES = ("pixels", "shares")  # of an output that has coordinates: of the input
NEAR = (0.1, 0.2)  # of PCK, as shares of the object's longer side
SIGMAS = (  # of COCO's 17 points of a person: how far people who mark them differ
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)
SIGMA = 0.1  # of other points
DIGITS, SCORE_DIGITS = 2, 5  # after the point, of coordinates and scores in records
OF_PICTURE = "picture"  # the key of a target that says in which picture its object is


@dataclass(frozen=True)
class Keypoints:
    """Points of one object a sample. coordinates: what an output of coordinates counts in; heatmaps say it themselves."""

    coordinates: str = PIXELS
    chosen: Chosen = field(default_factory=Chosen)
    name: str = "keypoints"
    main: str = "oks"
    percent: bool = True

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """As of Task."""
        points = self._points(model, self.chosen.of(model, answers))
        count = len(data.targets[0]["points"])
        if len(points) != count:
            raise DataError(f"{model.name}: gives {len(points)} points, but the samples have {count}")

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """The points, [[x, y], ...] in the pixels in which the right ones are."""
        output = self.chosen.of(model, answers)
        if np.isnan(output).any():
            return {"points": [], "nan": True}
        points = self._points(model, output)
        if len(points) != len(target["points"]):
            raise DataError(f"{model.name}: gives {len(points)} points, but a sample has {len(target['points'])}")
        if not np.isfinite(points).all():
            return {"points": [], "nan": True}
        if "size" in target:  # the object was cut out of its picture, and scaled to the input
            assert model.frame is not None
            points = points * (np.array(target["size"][::-1]) / np.array(model.frame[::-1]))
        return {"points": points.round(DIGITS).tolist(), "score": round(_sureness(model, output), SCORE_DIGITS)}

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """Of each sample, over the points that are known; NaN: none is."""
        pairs = [_judged(record, target) for record, target in zip(records, data.targets, strict=True)]
        names = ["oks", *(f"pck{near:g}" for near in NEAR)]
        return {name: np.array([pair[place] for pair in pairs]) for place, name in enumerate(names)}

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """AP over similarities (OKS) from 0.5 to 0.95, and at 0.5 and 0.75, where the data say which objects share a picture."""
        targets = list(data.targets)
        if not targets or OF_PICTURE not in targets[0]:
            return {}
        places = {name: number for number, name in enumerate(dict.fromkeys(target[OF_PICTURE] for target in targets))}
        pictures = [places[target[OF_PICTURE]] for target in targets]
        objects = [_object(picture, target) for picture, target in zip(pictures, targets, strict=True)]
        trios = zip(pictures, records, targets, strict=True)
        found = [_answer(picture, record, target) for picture, record, target in trios if record["points"]]
        sigmas = _sigmas(len(targets[0]["points"]))
        return precisions(lambda: average_precision(POINTS, len(places), objects, found, sigmas))

    def alike(self, record: Record, other: Record) -> float | None:
        """Nothing."""
        return None

    def words(self, record: Record, data: Targets) -> str:
        """How many points there are."""
        return f"{len(record['points'])} points" if record["points"] else "NaN"

    def right(self, target: Any, data: Targets) -> str:
        """How many points are known."""
        return f"{sum(point[2] > 0 for point in target['points'])} points known"

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """The points, of those that are known."""
        points = [point[:2] for point in target["points"]] if record is None else record["points"]
        known = [point[2] > 0 for point in target["points"]]
        return [Outline(tuple(point)) for point, there in zip(points, known, strict=bool(points)) if there]

    def _points(self, model: Asked, output: NDArray[Any]) -> NDArray[np.float64]:
        """x and y [K, 2] in pixels of the input. DataError: the output has no form of points."""
        if output.ndim == 4:
            return self._of_heatmaps(model, output)
        flat = output.reshape(-1, output.shape[-1]) if output.ndim > 1 and output.shape[-1] in (2, 3) else output.reshape(1, -1)
        if len(flat) == 1:
            if flat.size % 2:
                raise DataError(
                    f"{model.name}: an output {list(output.shape)} has no heatmaps and no x, y of points; --output names another"
                )
            flat = flat.reshape(-1, 2)
        points = flat[:, :2].astype(np.float64)
        if self.coordinates == PIXELS:
            return points
        if model.frame is None:
            raise DataError(f"{model.name}: --coordinates {SHARES}: its input is no picture, so shares have no pixels")
        return points * np.array(model.frame[::-1])

    @staticmethod
    def _of_heatmaps(model: Asked, output: NDArray[Any]) -> NDArray[np.float64]:
        """The middle of the greatest value of each map, [1, K, H, W]; the first of equal ones."""
        maps = _maps(model, output)
        if model.frame is None:
            raise DataError(f"{model.name}: its input is no picture, so heatmaps have no place in it")
        rows, columns = np.divmod(maps.reshape(len(maps), -1).argmax(axis=1), maps.shape[2])
        scale = np.array([model.frame[1] / maps.shape[2], model.frame[0] / maps.shape[1]])
        return (np.stack([columns, rows], axis=1) + 0.5) * scale


def _sureness(model: Asked, output: NDArray[Any]) -> float:
    """How sure a network is of an object: the mean of what it says of each point; 1 where it gives x and y alone."""
    if output.ndim == 4:
        return float(_maps(model, output).max(axis=(1, 2)).mean())
    return float(output.reshape(-1, 3)[:, 2].mean()) if output.ndim > 1 and output.shape[-1] == 3 else 1.0


def _maps(model: Asked, output: NDArray[Any]) -> NDArray[Any]:
    """The map of each point, [K, H, W]."""
    maps: NDArray[Any] = np.moveaxis(output[0], -1, 0) if model.channels_last else output[0]
    return maps


def _sigmas(count: int) -> NDArray[np.float64]:
    """How far each of so many points may be off."""
    return np.array(SIGMAS if count == len(SIGMAS) else [SIGMA] * count)


def _object(picture: int, target: Any) -> dict[str, Any]:
    """What is right, as COCOeval takes it: in pixels of the whole picture."""
    x, y = target["corner"]
    points = [value for point in target["points"] for value in (point[0] + x, point[1] + y, point[2])]
    height, width = target["size"]
    known = sum(point[2] > 0 for point in target["points"])
    about = {"image_id": picture, "category_id": 1, "iscrowd": 0, "area": target["area"], "bbox": [x, y, width, height]}
    return {**about, "keypoints": points, "num_keypoints": known}


def _answer(picture: int, record: Record, target: Any) -> dict[str, Any]:
    """An answer, as COCOeval takes it."""
    x, y = target["corner"]
    points = [value for point in record["points"] for value in (point[0] + x, point[1] + y, 1)]
    return {"image_id": picture, "category_id": 1, "keypoints": points, "score": record["score"]}


def _judged(record: Record, target: Any) -> list[float]:
    """OKS, then PCK for each of NEAR; NaN where no point is known."""
    right = np.array(target["points"], np.float64)
    known = right[:, 2] > 0
    if not known.any():
        return [np.nan] * (1 + len(NEAR))
    if not record["points"]:
        return [0.0] * (1 + len(NEAR))
    distance = np.linalg.norm(np.array(record["points"]) - right[:, :2], axis=1)[known]
    low, high = right[known, :2].min(axis=0), right[known, :2].max(axis=0)
    sides = np.array(target["size"][::-1]) if "size" in target else high - low
    area = target["area"] if target["area"] else float(np.prod(np.maximum(sides, 1)))
    sigmas = _sigmas(len(right))[known]
    similar = np.exp(-(distance**2) / (2 * area * (2 * sigmas) ** 2 + np.finfo(float).eps))
    longer = max(float(sides.max()), 1.0)
    return [float(similar.mean()), *(float((distance <= near * longer).mean()) for near in NEAR)]
