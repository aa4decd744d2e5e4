"""A CSV file with a line for each sample: the picture's file, relative to the CSV's folder, and its class."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from cnna.evaluate.datasets.dataset import CUT, Dataset, Pictures
from cnna.evaluate.datasets.labels import identity_of, number_of
from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes
from cnna.spec.names import in_line

FILES = ("file", "filename", "path", "image", "picture")  # names of columns, any case
LABELS = ("label", "class", "target", "y")
SEPARATORS = ",;\t"


def read_csv(path: Path, labels: tuple[str, ...] | None, columns: Sequence[str] | None = None) -> Dataset:
    """The samples in their order. columns: names of the two columns; None: those of FILES and LABELS.

    DataError: the file is no CSV of text, lacks a header, a column or a sample, or names a class that there is not.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file in UTF-8; save it again as CSV") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise DataError(f"{path}: is empty; its first line names the columns, such as {FILES[0]},{LABELS[0]}")
    separator = max(SEPARATORS, key=lines[0].count)
    try:
        reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
        numbered = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise DataError(f"{path}: not CSV: {error}") from None
    (first, head), *rows = ((number, row) for number, row in numbered if any(cell.strip() for cell in row))
    file_at, label_at = _columns(f"{path}: line {first}", [name.strip() for name in head], columns)
    names, targets = [], []
    for number, row in rows:
        where = f"{path}: line {number}"
        if max(file_at, label_at) >= len(row):
            raise DataError(f"{where}: has {len(row)} cells, but the header has {len(head)}")
        if not row[file_at].strip():
            raise DataError(f"{where}: names no file")
        names.append(row[file_at].strip())
        targets.append(number_of(row[label_at], labels, where))
    files = [path.parent / name for name in names]
    if not files:
        raise DataError(f"{path}: has a header, but no sample below it")
    return Dataset(
        layout="CSV",
        path=str(path),
        names=names,
        targets=targets,
        source=Pictures(files, CUT),
        identity=identity_of(files, text.encode(), repr(labels).encode()),
        classes=labels,
    )


def _columns(where: str, head: Sequence[str], columns: Sequence[str] | None) -> tuple[int, int]:
    """The places of both columns. DataError: there is none of that name."""
    lower = [name.lower() for name in head]
    found = []
    for what, names in zip(("file", "label"), ([columns[0]], [columns[1]]) if columns else (FILES, LABELS), strict=True):
        places = [lower.index(name.lower()) for name in names if name.lower() in lower]
        if not places:
            wanted = f"called {names[0]}" if columns else f"for the {what} ({', '.join(names)})"
            remedy = "" if columns else "; its first line must name the columns, or --columns FILE,LABEL name them"
            raise DataError(f"{where} ({in_line(head)}) has no column {wanted}{remedy}")
        found.append(places[0])
    return found[0], found[1]
