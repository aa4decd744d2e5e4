"""mIoU and pixel accuracy beside a count of every pixel, masks of another size, and pixels that do not count."""

from typing import Any

import numpy as np
import pytest

from cnna.evaluate.standard_errors import whole
from cnna.evaluate.tasks.segmentation import Segmentation
from cnna.evaluate.tasks.task import Asked, Targets
from cnna.spec.errors import DataError

CLASSES, SIDE = 4, 12


def one_hot(classes: np.ndarray) -> dict[str, Any]:
    """Scores [1, C, H, W] whose greatest are those classes."""
    return {"y": np.stack([classes == number for number in range(CLASSES)])[None].astype(np.float32)}


def brute_force(masks: list[np.ndarray], found: list[np.ndarray]) -> tuple[float, float]:
    """mIoU and the share of right pixels, class by class over all pixels at once."""
    right, ours = np.concatenate([mask.ravel() for mask in masks]), np.concatenate([one.ravel() for one in found])
    right, ours = right[right != 255], ours[right != 255]
    ious = []
    for number in range(CLASSES):
        union = np.logical_or(right == number, ours == number).sum()
        if union:
            ious.append(np.logical_and(right == number, ours == number).sum() / union)
    return float(np.mean(ious)), float((right == ours).mean())


def test_miou_is_that_of_all_pixels_together() -> None:
    """A mean of pictures' IoUs is another figure than the one that papers give."""
    random = np.random.default_rng(0)
    masks = [random.choice([0, 1, 2, 3, 255], (SIDE, SIDE), p=[0.4, 0.3, 0.2, 0.05, 0.05]) for _ in range(6)]
    found = [np.where(random.random(mask.shape) < 0.7, mask % 255, random.integers(0, CLASSES, mask.shape)) for mask in masks]
    task, data = Segmentation(), Targets(masks, ["s"] * 6)
    records = [task.record(Asked("m"), one_hot(ours), mask) for ours, mask in zip(found, masks, strict=True)]
    wholes = task.wholes(records, data)
    everything = np.arange(6)
    assert (wholes["miou"].of(everything), wholes["pixels"].of(everything)) == pytest.approx(brute_force(masks, found))
    twice = np.array([2, 2, 5])
    expected = brute_force([masks[n] for n in twice], [found[n] for n in twice])
    assert (wholes["miou"].of(twice), wholes["pixels"].of(twice)) == pytest.approx(expected)
    per_sample = [brute_force([mask], [ours])[0] for mask, ours in zip(masks, found, strict=True)]
    assert task.scores(records, data)["iou"] == pytest.approx(per_sample)
    error = whole(wholes["miou"], 6).standard_error
    assert error is not None
    assert 0 < error < 0.2


def test_an_answer_is_scaled_to_the_pixels_of_the_mask() -> None:
    """Networks answer at a quarter of the picture's size; each of their pixels stands for sixteen."""
    small = np.random.default_rng(1).integers(0, CLASSES, (3, 4))
    mask = np.kron(small, np.ones((4, 4), int))
    task = Segmentation()
    record = task.record(Asked("m"), one_hot(small), mask)
    assert task.scores([record], Targets([mask], ["s"]))["iou"].tolist() == [1.0]


def test_channels_last_and_maps_of_classes_are_the_same_answer() -> None:
    """A model of TensorFlow's, or one that ends with an ArgMax, would be read along the wrong axis."""
    classes = np.random.default_rng(2).integers(0, CLASSES, (5, 6))
    task, first = Segmentation(), one_hot(classes)
    wanted = task.record(Asked("m"), first, classes)
    last = {"y": np.moveaxis(first["y"], 1, -1)}
    assert task.record(Asked("m", None, True), last, classes) == wanted
    for shape in ((5, 6), (1, 5, 6), (1, 1, 5, 6)):
        assert task.record(Asked("m"), {"y": classes.reshape(shape)}, classes) == wanted


def test_what_is_no_map_and_classes_that_do_not_exist_are_one_line() -> None:
    """A class that the model lacks can never be right: the mask is of another data set."""
    task = Segmentation()
    with pytest.raises(DataError, match="has no map of scores for each of two or more classes"):
        task.record(Asked("m"), {"y": np.zeros((1, 10), np.float32)}, np.zeros((2, 2), int))
    with pytest.raises(DataError, match=r"a mask has class 7, but the model has 4 \(0 to 3\)"):
        task.record(Asked("m"), one_hot(np.zeros((2, 2), int)), np.full((2, 2), 7))
