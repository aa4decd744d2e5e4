"""Finds the layout of the data that a user names, and reads it for a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import exists, isdir, isfile
from pathlib import Path

from cnna.evaluate.datasets.array_file import POINTS, read_class_array, read_mask_array, read_plain_array, read_point_array
from cnna.evaluate.datasets.class_folder import is_class_folder, read_class_folder
from cnna.evaluate.datasets.coco_file import read_boxes, read_points
from cnna.evaluate.datasets.csv_file import read_csv
from cnna.evaluate.datasets.dataset import LETTERBOX, Dataset
from cnna.evaluate.datasets.mask_folder import IMAGES, MASKS, is_mask_folder, read_masks
from cnna.host.samples.row_files import rows_in
from cnna.spec.errors import DataError, UserError

ARRAYS, TABLES, COCO = (".npz", ".npy"), (".csv", ".tsv", ".txt"), ".json"
CLASSIFICATION, DETECTION, SEGMENTATION = "classification", "detection", "segmentation"
KEYPOINTS, EMBEDDING, OWN = "keypoints", "embedding", "own"


@dataclass(frozen=True)
class Reading:
    """How data are read. labels: names of classes. columns: of a CSV. images: the folder of COCO's pictures. fit: of whole ones.

    skip: whether samples whose files are not there are left out later; else they are faults.
    """

    labels: tuple[str, ...] | None = None
    columns: Sequence[str] | None = None
    images: Path | None = None
    fit: str = LETTERBOX
    skip: bool = False


def task_of_data(path: Path) -> str:
    """The task that data suit. UserError: they cannot be read."""
    if path.suffix.lower() == COCO:
        return DETECTION
    if isdir(path):
        return SEGMENTATION if is_mask_folder(path) else CLASSIFICATION
    if path.suffix.lower() in ARRAYS and isfile(path):
        found = rows_in(path)
        if POINTS in found:
            return KEYPOINTS
        if "y" in found and found["y"].ndim == 3:
            return SEGMENTATION
    return CLASSIFICATION


def read_data(path: Path, task: str, reading: Reading) -> Dataset:
    """The data for a task. DataError: they have no layout that the task knows, or are faulty."""
    if not exists(path):
        raise DataError(f"{path}: no such file or folder")
    if reading.columns and path.suffix.lower() not in TABLES:
        raise UserError(f"--columns names columns of a CSV file, and {path} is none")
    if reading.images is not None and path.suffix.lower() != COCO:
        raise UserError(f"--images names the folder of the pictures of a COCO file, and {path} is none")
    if task == DETECTION:
        return read_boxes(_coco(path, task), reading.labels, reading.images, reading.fit, reading.skip)
    if task == KEYPOINTS:
        return (
            read_point_array(path)
            if path.suffix.lower() in ARRAYS
            else read_points(_coco(path, task), reading.images, reading.skip)
        )
    if task == SEGMENTATION:
        return _read_masks(path, reading)
    return _read_classes(path, task, reading)


def _coco(path: Path, task: str) -> Path:
    if path.suffix.lower() != COCO:
        raise DataError(f"{path}: {task} takes a JSON file as COCO has it{', or an .npz' if task == KEYPOINTS else ''}")
    return path


def _read_masks(path: Path, reading: Reading) -> Dataset:
    if path.suffix.lower() in ARRAYS:
        return read_mask_array(path, reading.labels)
    if not is_mask_folder(path):
        raise DataError(
            f"{path}: {SEGMENTATION} takes a folder with the folders {IMAGES} and {MASKS}, or an .npz with x and y [N, H, W]"
        )
    return read_masks(path, reading.labels, reading.skip)


def _read_classes(path: Path, task: str, reading: Reading) -> Dataset:
    """Samples that have a class each."""
    if path.is_dir():
        if not is_class_folder(path):
            raise DataError(
                f"{path}: has no folder with pictures; {task} takes a folder with a folder of pictures for each class, a CSV file "
                "with the columns file and label, or an .npz with x and y"
            )
        return read_class_folder(path, reading.labels)
    if path.suffix.lower() in TABLES:
        return read_csv(path, reading.labels, reading.columns)
    if path.suffix.lower() in ARRAYS:
        return read_plain_array(path, reading.labels) if task == OWN else read_class_array(path, reading.labels)
    raise DataError(f"{path}: {task} takes a folder with a folder for each class, a .csv or an .npz file")
