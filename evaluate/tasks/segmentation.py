"""Segmentation: the intersection over union of each class's pixels, and the share of pixels whose class is right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.tasks.task import Answers, Asked, Chosen, Outline, Record, Targets, Values, Whole
from cnna.spec.errors import DataError

IGNORED = 255  # in a mask: a pixel that does not count
RESAMPLES = 200


@dataclass(frozen=True)
class Segmentation:
    """Maps of classes. ignored: the number of pixels that do not count."""

    ignored: int = IGNORED
    chosen: Chosen = field(default_factory=Chosen)
    name: str = "segmentation"
    main: str = "iou"
    percent: bool = True

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """As of Task."""
        _, count = _classes(model, self.chosen.of(model, answers))
        if count and data.classes and len(data.classes) != count:
            raise DataError(f"{model.name}: has {count} classes, but there are names for {len(data.classes)}; --labels F names all")

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """Pixels by right class and by the model's, [[right, found, pixels], ...]; the answer is scaled to the mask's pixels."""
        output = self.chosen.of(model, answers)
        found, count = _classes(model, output)
        mask = np.asarray(target)
        counted = mask != self.ignored
        if counted.any() and mask[counted].min() < 0:
            raise DataError(
                f"a mask has class {int(mask[counted].min())}; classes are numbers from 0 up, and pixels that do not count have "
                f"the number {self.ignored} (--ignored)"
            )
        if count and counted.any() and mask[counted].max() >= count:
            raise DataError(
                f"{model.name}: a mask has class {int(mask[counted].max())}, but the model has {count} (0 to {count - 1}); pixels "
                f"that do not count have the number {self.ignored}"
            )
        near = found[_nearest(found.shape[0], mask.shape[0])[:, None], _nearest(found.shape[1], mask.shape[1])[None, :]]
        pairs, pixels = np.unique(np.stack([mask[counted], near[counted]]).astype(np.int64), axis=1, return_counts=True)
        record = {"pixels": [[*map(int, pair), int(number)] for pair, number in zip(pairs.T, pixels, strict=True)]}
        return {**record, "nan": True} if output.dtype.kind == "f" and np.isnan(output).any() else record

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """Of each sample, the mean over the classes that are in its mask or in the answer."""
        return {"iou": np.array([_mean_iou(*_sums([record])) for record in records])}

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """mIoU over the pixels of all samples, and the share of pixels that are right."""
        size = 1 + max((max(right, found) for record in records for right, found, _ in record["pixels"]), default=0)
        shared, united = (np.stack(one) for one in zip(*(_sums([record], size) for record in records), strict=True))
        right = shared.sum(axis=1)
        every = np.array([sum(pixels for _, _, pixels in record["pixels"]) for record in records])

        def miou(numbers: NDArray[np.int64]) -> float:
            return _mean_iou(shared[numbers].sum(axis=0), united[numbers].sum(axis=0))

        def pixels(numbers: NDArray[np.int64]) -> float:
            return float(right[numbers].sum() / every[numbers].sum()) if every[numbers].sum() else np.nan

        return {"miou": Whole(miou, RESAMPLES), "pixels": Whole(pixels, RESAMPLES)}

    def alike(self, record: Record, other: Record) -> float | None:
        """Nothing: a record does not say where pixels lie."""
        return None

    def words(self, record: Record, data: Targets) -> str:
        """The sample's IoU, and the classes that cost most of it."""
        shared, united = _sums([record])
        worst = [n for n in np.argsort(shared - united, kind="stable") if united[n] > shared[n]][:2]
        parts = [f"{data.class_name(int(n))} {shared[n] / united[n]:.0%}" for n in worst]
        value = _mean_iou(shared, united)
        costly = f" ({', '.join(parts)})" if parts else ""
        return f"IoU {value:.1%}{costly}" if np.isfinite(value) else "nothing that counts"

    def right(self, target: Any, data: Targets) -> str:
        """The classes in the mask, those with most pixels first."""
        numbers, pixels = np.unique(np.asarray(target), return_counts=True)
        order = [int(numbers[n]) for n in np.argsort(-pixels, kind="stable") if numbers[n] != self.ignored]
        return ", ".join(data.class_name(number) for number in order[:4])

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """Nothing."""
        return []


def _classes(model: Asked, output: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """The class of each pixel [H, W], and how many classes there are; 0: the model does not say. The lowest class wins ties.

    DataError: the output is no map of classes.
    """
    inside = output[0] if output.ndim == 4 and len(output) == 1 else output
    if output.dtype.kind in "iub":
        maps = inside.reshape(inside.shape[-2:]) if inside.ndim > 2 and inside.size == np.prod(inside.shape[-2:]) else inside
        if maps.ndim == 2:
            if maps.size and maps.min() < 0:
                raise DataError(f"{model.name}: answers class {int(maps.min())}; classes are numbers from 0 up")
            return maps.astype(np.int64), 0
    axis = 2 if model.channels_last else 0
    if output.dtype.kind != "f" or inside.ndim != 3 or inside.shape[axis] < 2:
        raise DataError(
            f"{model.name}: an output of {output.dtype} {list(output.shape)} has no map of scores for each of two or more classes; "
            "--output names another, or --metric judges it"
        )
    scores = np.where(np.isnan(inside), -np.inf, inside)
    return scores.argmax(axis=axis), inside.shape[axis]


def _nearest(own: int, wanted: int) -> NDArray[np.int64]:
    """The row (or column) of a map of `own` for each of `wanted` that cover the same picture."""
    return np.minimum((np.arange(wanted) + 0.5) * own // wanted, own - 1).astype(np.int64)


def _sums(records: Sequence[Record], size: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pixels in both, and in one or the other, by class."""
    entries = [entry for record in records for entry in record["pixels"]]
    count = size or 1 + max((max(right, found) for right, found, _ in entries), default=0)
    shared, united = np.zeros(count), np.zeros(count)
    for right, found, pixels in entries:
        united[right] += pixels
        if right == found:
            shared[right] += pixels
        else:
            united[found] += pixels
    return shared, united


def _mean_iou(shared: NDArray[np.float64], united: NDArray[np.float64]) -> float:
    """The mean over the classes that are there; NaN: none is."""
    there = united > 0
    return float((shared[there] / united[there]).mean()) if there.any() else np.nan
