"""An .npz (or .npy) with samples, and with what is right for them in other arrays: `y` for most tasks, `keypoints` for points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.datasets.dataset import ArrayFile, Dataset
from cnna.evaluate.datasets.labels import digest_of_file
from cnna.host.samples.row_files import rows_in
from cnna.spec.errors import DataError
from cnna.spec.names import in_line

RIGHT = "y"  # what is right for each sample
POINTS, AREAS = "keypoints", "areas"


def read_class_array(path: Path, labels: tuple[str, ...] | None) -> Dataset:
    """Samples and their classes, `y` [N]. DataError: there is no `y`, or it does not hold whole numbers from 0 up."""
    y = _right(path, RIGHT)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "iuf" or not (np.isfinite(y) & (y == np.rint(y)) & (y >= 0)).all():
        raise DataError(f"{path}: y is {y.dtype} {list(y.shape)}; it must hold the number of one class a sample, [N], from 0 up")
    return _dataset(path, [int(value) for value in y], (RIGHT,), labels)


def read_mask_array(path: Path, labels: tuple[str, ...] | None) -> Dataset:
    """Samples and their maps of classes, `y` [N, H, W]. DataError: there is none, or it does not hold whole numbers."""
    y = _right(path, RIGHT)
    if y.ndim != 3 or y.dtype.kind not in "iub":
        raise DataError(f"{path}: y is {y.dtype} {list(y.shape)}; it must hold the class of each pixel as an integer, [N, H, W]")
    return _dataset(path, list(y), (RIGHT,), labels)


def read_point_array(path: Path) -> Dataset:
    """Samples and their points, `keypoints` [N, K, 2 or 3], in pixels of the input; the third number is 0 where a point is unknown.

    `areas` [N] of the objects, in pixels; without them, the areas of the boxes around the points that are known.
    """
    points = _numbers(path, POINTS, _right(path, POINTS))
    if points.ndim != 3 or points.shape[2] not in (2, 3):
        raise DataError(
            f"{path}: {POINTS} is {list(points.shape)}; it must be [N, K, 2] or [N, K, 3]: x, y, and whether it is known"
        )
    if points.shape[2] == 2:
        points = np.concatenate([points, np.ones((*points.shape[:2], 1))], axis=2)
    if not np.isfinite(points[points[..., 2] > 0]).all() or not np.isfinite(points[..., 2]).all():
        raise DataError(f"{path}: {POINTS} has a point that is not finite; a third number of 0 says that a point is not known")
    found = rows_in(path)
    areas = _numbers(path, AREAS, found[AREAS].whole()) if AREAS in found else None
    if areas is not None and not (np.isfinite(areas) & (areas >= 0)).all():
        raise DataError(f"{path}: {AREAS} has a number that is no area from 0 up")
    if areas is not None and areas.shape != (len(points),):
        raise DataError(f"{path}: {AREAS} is {list(areas.shape)}; it must be [{len(points)}], the area of each object")
    targets = [
        {"points": one.tolist(), "area": None if areas is None else float(areas[number])} for number, one in enumerate(points)
    ]
    return _dataset(path, targets, (POINTS, AREAS), None)


def read_plain_array(path: Path, labels: tuple[str, ...] | None = None) -> Dataset:
    """Samples for a function of the user's own: what is right is `y`, or None where there is none."""
    found = rows_in(path)
    if RIGHT in found:
        y = found[RIGHT].whole()
        return _dataset(path, list(y), (RIGHT,), labels)
    several = [rows for rows in found.values() if rows.ndim]
    return _dataset(path, [None] * (len(several[0]) if several else 0), (), labels)


def _numbers(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype.kind not in "iuf":
        raise DataError(f"{path}: {name} is {array.dtype}; it must hold numbers")
    return array.astype(np.float64)


def _right(path: Path, name: str) -> NDArray[Any]:
    found = rows_in(path)
    if name not in found:
        raise DataError(f"{path}: has arrays {in_line(found)}, but none called {name}, which says what is right for each sample")
    return found[name].whole()


def _dataset(path: Path, targets: Sequence[Any], beside: tuple[str, ...], labels: tuple[str, ...] | None) -> Dataset:
    if not targets:
        raise DataError(f"{path}: has no sample")
    counts = {name: rows.shape[0] for name, rows in rows_in(path).items() if name not in beside and rows.ndim}
    if counts and len(targets) not in counts.values():
        raise DataError(
            f"{path}: {beside[0]} is for {len(targets)} samples, but the arrays have {in_line(map(str, counts.values()))}"
        )
    return Dataset(
        layout="arrays",
        path=str(path),
        names=[f"sample {number}" for number in range(len(targets))],
        targets=targets,
        source=ArrayFile(path, beside),
        identity=digest_of_file(path),
        classes=labels,
    )
