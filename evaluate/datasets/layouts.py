"""Finds the layout of the data that a user names, and reads it for a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnna.evaluate.datasets.array_file import read_class_array, read_plain_array
from cnna.evaluate.datasets.class_folder import is_class_folder, read_class_folder
from cnna.evaluate.datasets.csv_file import read_csv
from cnna.evaluate.datasets.dataset import Dataset
from cnna.spec.errors import DataError, UserError

ARRAYS, TABLES = (".npz", ".npy"), (".csv", ".tsv", ".txt")
CLASSIFICATION, EMBEDDING, OWN = "classification", "embedding", "own"


@dataclass(frozen=True)
class Reading:
    """How data are read. labels: names of classes. columns: of a CSV."""

    labels: tuple[str, ...] | None = None
    columns: Sequence[str] | None = None


def read_data(path: Path, task: str, reading: Reading) -> Dataset:
    """The data for a task. DataError: they have no layout that the task knows, or are faulty."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    return _read_classes(path, task, reading)


def _read_classes(path: Path, task: str, reading: Reading) -> Dataset:
    """Samples that have a class each."""
    if reading.columns and path.suffix.lower() not in TABLES:
        raise UserError(f"--columns names columns of a CSV file, and {path} is none")
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
