"""`labels.json`: names of the classes of a version's outputs, for the classification extension and the console.

{"logits": ["zero", "one", ...]}: for each output that has classes, a name for each of its values for a sample.
`cnna publish --labels F` writes it from a file with one name a line, or with a list in JSON.
"""

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from cnna.serve.runtimes.interface import Tensor
from cnna.spec.counts import many
from cnna.spec.errors import DataError, UserError
from cnna.spec.files import read_bytes

FILE = "labels.json"
MOST_LETTERS = 200  # of a name: answers hold it as often as they are asked for its class
MOST_BYTES = 64 << 20
LIST = re.compile(r"\s*\[\s*([\"\]\[{\d-]|null|true|false|$)")  # how a list in JSON begins; a name may have brackets, such as [unk]
Labels = Mapping[str, Sequence[str]]  # by output


def read_names(path: Path) -> list[str]:
    """The names in a user's file. UserError: it cannot be read. DataError: it holds no names, or one that cannot be shown."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not text in UTF-8 ({error.reason} at byte {error.start:,}); one name a line is") from None
    if path.suffix == ".json" or LIST.match(text):
        try:
            names = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: not JSON: {error}; a list of names is, or a file with one name a line") from None
        if not isinstance(names, list):
            raise DataError(f"{path}: must be a list of names in JSON, or have one name a line")
        where = "entry"
    else:
        names, where = [line.strip() for line in text.rstrip().split("\n")], "line"
    if wrong := wrong_names(names, where):
        raise DataError(f"{path}: {wrong}")
    return names


def wrong_names(names: object, where: str = "entry") -> str | None:
    """What is wrong with names. where: what holds one of them in its file."""
    if not isinstance(names, list) or names in ([], [""]):
        return "holds no names of classes"
    for number, name in enumerate(names, 1):
        if not isinstance(name, str) or not name.strip():
            return f"{where} {number:,} has no name; each class has one"
        if len(name) > MOST_LETTERS or not name.isprintable():
            rule = f"at most {MOST_LETTERS} letters, and none that cannot be shown"
            return f"{where} {number:,}: {name[:20]!r} is no name of a class; one has {rule}"
    return None


def of_outputs(names: Sequence[str], outputs: Sequence[Tensor], source: str) -> dict[str, list[str]]:
    """The names for each output that has so many values for a sample. source: the file. DataError: there is no such output."""
    found = {tensor.name: list(names) for tensor in outputs if classes_of(tensor) == len(names)}
    if not found:
        there = ", ".join(f"{one.name} has {classes_of(one) or 'an open number'}" for one in outputs)
        raise DataError(f"{source}: {many(len(names), 'name')}, but no output has so many values for a sample: {there}")
    return found


def classes_of(tensor: Tensor) -> int | None:
    """How many classes the classification extension ranks for a sample; None: the size is not fixed."""
    if tensor.classes is not None:
        return tensor.classes
    sizes = [size for size in tensor.shape if size is not None]
    return prod(sizes) if len(sizes) == len(tensor.shape) else None


def write(folder: Path, labels: Labels) -> None:
    """Adds the names to a version that is being published."""
    (folder / FILE).write_text(json.dumps(labels, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def stored(folder: Path, outputs: Sequence[Tensor]) -> Labels:
    """The names that a version stores; none where it has no such file. UserError: they do not fit its outputs."""
    path, again = folder / FILE, "mend it, or publish the version again with --labels"
    if not path.is_file():
        return {}
    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: has more than {MOST_BYTES:,} bytes; {again}")
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error}; {again}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: must be an object with a list of names for each output; {again}")
    sizes = {tensor.name: classes_of(tensor) for tensor in outputs}
    for name, names in found.items():
        if name not in sizes:
            raise UserError(f"{path}: there is no output {name!r}, but {', '.join(sizes)}; {again}")
        if wrong := wrong_names(names):
            raise UserError(f"{path}: output {name}: {wrong}; {again}")
        if len(names) != sizes[name]:
            raise UserError(f"{path}: output {name}: {many(len(names), 'name')} for {sizes[name]} values of a sample; {again}")
    return found
