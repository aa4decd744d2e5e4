"""What counts as a detection of a detector that is served: `detector` of model.yaml, and what a request says for itself.

detector: {least: 0.4, overlap: 0.5, labels: best, names: [person, bicycle, car]}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnna.host.model.detector import Settings as Wanted
from cnna.host.model.detector import settings_of
from cnna.serve.models.answering import USUAL
from cnna.serve.models.labels import wrong_names
from cnna.serve.models.signature import CLASSES, Signature
from cnna.spec.counts import many
from cnna.spec.errors import DataError, UserError

__all__ = ["KEYS", "NAMES", "USUAL", "Detecting", "Wanted", "check", "detecting_of", "of_request", "with_own"]

KEYS = ("least", "overlap", "labels")  # as of `cnna.Detector`
NAMES = "names"
MOST_LETTERS = 40  # of a wrong value that is shown


@dataclass(frozen=True)
class Detecting:
    """What model.yaml says of a detector. names: of its classes; () where it says none."""

    wanted: Wanted = USUAL
    names: tuple[str, ...] = ()


def detecting_of(path: Path, key: str, value: Any) -> Detecting:
    """The entry of a model.yaml. UserError: it has an unknown key, or a value out of range."""
    if not isinstance(value, dict):
        raise UserError(f"{path}: {key}: {str(value)[:MOST_LETTERS]!r} must be like {{least: 0.4, overlap: 0.5, labels: best}}")
    if unknown := [name for name in value if name not in (*KEYS, NAMES)]:
        raise UserError(f"{path}: {key}: unknown key {unknown[0]!r}; there are {', '.join((*KEYS, NAMES))}")
    names = value.get(NAMES, ())
    if NAMES in value and (wrong := wrong_names(names)):
        raise UserError(f"{path}: {key}: {NAMES}: {wrong}; give a list with a name for each class")
    try:
        return Detecting(with_own(USUAL, {name: value[name] for name in KEYS if name in value}), tuple(names))
    except DataError as error:
        raise UserError(f"{path}: {key}: {error}") from None


def with_own(base: Wanted, own: Mapping[str, Any]) -> Wanted:
    """Settings with some of their own values. DataError: one is out of range."""
    return settings_of(**{**base._asdict(), **own})


def of_request(model: str, signature: Signature, base: Wanted, own: Mapping[str, Any]) -> Wanted | None:
    """What counts in a request; None: no detections, or the usual. DataError: `own` is out of range, or for another model."""
    if not signature.detects:
        if own:
            raise DataError(f"model {model} answers no boxes, so the parameter {next(iter(own))} has no meaning: leave it out")
        return None
    try:
        found = with_own(base, own)
    except DataError as error:
        raise DataError(f"parameter {error}") from None
    return None if found == USUAL else found


def check(path: Path, detecting: Detecting, signature: Signature, version: str) -> Mapping[str, Sequence[str]]:
    """The names that model.yaml gives the classes of a version, by output. UserError: they, or anything, are for another one."""
    if not signature.detects:
        raise UserError(f"{path}: detector: version {version} answers no boxes; publish it with --detector auto, or remove the key")
    classes = next(tensor.classes for tensor in signature.outputs if tensor.name == CLASSES)
    if detecting.names and len(detecting.names) != classes:
        raise UserError(
            f"{path}: detector: names: {many(len(detecting.names), 'name')}, but version {version} has {classes} classes"
        )
    return {CLASSES: detecting.names} if detecting.names else {}
