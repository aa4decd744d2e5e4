"""A folder of classes: a folder for each class, with its pictures. `D/cat/1.jpg` is a sample of the class cat."""

from pathlib import Path

from cnna.evaluate.datasets.dataset import CUT, Dataset, Pictures
from cnna.evaluate.datasets.labels import identity_of, number_of
from cnna.host.samples.pictures import KINDS, OTHERS
from cnna.spec.errors import DataError
from cnna.spec.names import in_line


def is_class_folder(path: Path) -> bool:
    """Whether a folder has folders with pictures."""
    return path.is_dir() and any(_pictures(inner) for inner in _folders(path))


def read_class_folder(path: Path, labels: tuple[str, ...] | None) -> Dataset:
    """The samples of all classes, folder by folder. labels: names of the classes by number.

    Without labels, folders whose names are all numbers are those classes; other folders are numbered in the order of their names.
    DataError: there is no picture, or a folder is no class.
    """
    folders = _folders(path)
    names = [folder.name for folder in folders]
    numbers = {name: number for number, name in enumerate(names)}
    plain = all(name.isdecimal() and name.isascii() for name in names)
    if labels or plain:
        numbers = {name: number_of(name, labels, f"{path / name}") for name in names}
    files = [file for folder in folders for file in _pictures(folder)]
    if not files:
        raise DataError(
            f"{path}: its folders have no {', '.join(KINDS)} files; save the pictures of each class in a folder of its name"
        )
    others = [folder for folder in folders if any(file.suffix.lower() in OTHERS for file in folder.iterdir())]
    notes = [f"{path}: ignoring files in {in_line(one.name for one in others)} that are no {', '.join(KINDS)}"] if others else []
    numbered = not labels and not plain
    if numbered:
        notes.append(f"{path}: its folders are numbered in the order of their names, {names[0]} is 0; --labels F says otherwise")
    return Dataset(
        layout="a folder for each class",
        path=str(path),
        names=[f"{file.parent.name}/{file.name}" for file in files],
        targets=[numbers[file.parent.name] for file in files],
        source=Pictures(files, CUT),
        identity=identity_of(files, repr(sorted(numbers.items())).encode()),
        classes=labels or (tuple(names) if numbered else None),
        grouped=True,
        notes=tuple(notes),
    )


def _folders(path: Path) -> list[Path]:
    return sorted(inner for inner in path.iterdir() if inner.is_dir() and not inner.name.startswith("."))


def _pictures(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in KINDS and not file.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
