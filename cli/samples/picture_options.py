"""Reads the pictures and arrays that a user gives, and the options that turn a picture into an input (docs/preprocess.md)."""

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.cli.samples.arrays import Arrays, open_rows, read_once
from cnna.host.model import pictures
from cnna.host.model.preparation import preparation
from cnna.host.model.rows import Rows
from cnna.spec.errors import DataError, ModelError
from cnna.spec.files import read_bytes
from cnna.spec.samples.preprocess import COLOURS, LAYOUTS, NORMALISATION, Preprocess, channels_of, from_entry

FILE = "preprocess.json"  # beside a model


def add_picture_options(parser: argparse.ArgumentParser, when: str) -> None:
    """Adds the options to a command; `when` says what they are for."""
    group = parser.add_argument_group(f"how pictures become the input, (x * scale - mean) / std: {when}")
    group.add_argument(
        "--size", type=_whole, metavar="H,W", help="scale pictures to so much, or with one number their shorter side"
    )
    group.add_argument("--crop", type=_whole, metavar="H,W", help="cut so much out of the middle (default: what the model takes)")
    group.add_argument("--scale", type=_number, metavar="S", help="default: 1; 1/255 makes 0 to 1")
    group.add_argument("--mean", type=_number, nargs="+", metavar="M", help="one value, or one a channel (default: 0)")
    group.add_argument("--std", type=_number, nargs="+", metavar="D", help="one value, or one a channel (default: 1)")
    group.add_argument("--layout", choices=LAYOUTS, help="of the model's input: channels first (default) or last")
    group.add_argument("--colour", choices=COLOURS, help="the order of the model's channels (default: rgb)")


def _number(text: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number; 0.5 and 1/255 are") from None


def _whole(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace("x", ",").split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; 256 and 256,320 (rows, columns) are") from None


def given_preprocess(args: argparse.Namespace) -> dict[str, Any]:
    """The options as a table. ModelError: a value that does not exist."""
    names = ("size", "crop", *NORMALISATION, "layout", "colour")
    found = {name: value for name in names if (value := getattr(args, name)) is not None}
    for name, value in found.items():
        from_entry({name: value}, f"--{name}")
    if not all(value > 0 for value in found.get("std", ())):
        raise ModelError(f"--std {' '.join(f'{value:g}' for value in found['std'])}: must be above 0 and finite")
    return found


def beside(model: Path) -> dict[str, Any]:
    """The table in a `preprocess.json` beside a model; empty if there is none. ModelError: the file is no such table."""
    path = model.parent / FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(read_bytes(path))
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a JSON object with keys such as scale, mean and std (docs/preprocess.md)")
    from_entry(found, str(path))
    return found


def read_samples(
    path: Path, inputs: Mapping[str, Sequence[int | None]], types: Mapping[str, str], table: Mapping[str, Any]
) -> Arrays:
    """`open_samples`, all of them."""
    return {name: rows[:] for name, rows in open_samples(path, inputs, types, table).items()}


def open_samples(
    path: Path,
    inputs: Mapping[str, Sequence[int | None]],
    types: Mapping[str, str],
    table: Mapping[str, Any],
    limit: int | None = None,
) -> dict[str, Rows]:
    """The first `limit` samples: arrays of a file as of `open_rows`, or pictures of a folder or file as uint8 in the model's
    layout.

    types: those of integer inputs. table: how pictures become the input; empty if nothing says so. DataError: as of
    `pictures.read`, or nothing says how pictures become floats.
    """
    if not pictures.are_pictures(path):
        return open_rows(path, inputs, allow_uint8=bool(table), types=types, limit=limit)
    if len(inputs) != 1:
        raise DataError(f"{path}: pictures are for models of one input; this one has {', '.join(inputs)}: give an .npz")
    ((name, shape),) = inputs.items()
    if name not in types and not any(key in table for key in NORMALISATION):
        raise DataError(
            f"{path}: nothing says how pictures become floats: give --scale, --mean and --std (--scale 1/255 makes 0 to 1), or "
            f"write a {FILE} beside the model"
        )
    how = from_entry(table, str(path), strict=False)
    try:
        pictures.frame(shape, how)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    files = pictures.find(path)[:limit]
    if not path.is_dir() and path.suffix.lower() not in pictures.KINDS:
        raise DataError(f"{path}: a picture in another format than {', '.join(pictures.KINDS)}; save it in one of them")
    if path.is_dir() and (rest := pictures.left_out(path)):
        print(f"note: {path}: ignoring {rest}; pictures are {', '.join(pictures.KINDS)} files in one folder", file=sys.stderr)

    def read(start: int, stop: int) -> NDArray[Any]:
        return pictures.as_input(pictures.read(files[start:stop], shape, how), how)

    return {name: read_once(Rows((len(files), *read(0, 1).shape[1:]), np.dtype(np.uint8), read))}


def say_preparation(
    path: Path,
    inputs: Mapping[str, Sequence[int | None]],
    types: Mapping[str, str],
    table: Mapping[str, Any],
    limit: int | None = None,
) -> dict[str, Any]:
    """Prints in a line what `open_samples` does to the pictures of a folder or file; nothing for arrays. Figures for `--json`."""
    if not pictures.are_pictures(path):
        return {}
    ((name, shape),) = inputs.items()
    files = pictures.find(path)[:limit]
    found = preparation(shape, from_entry(table, str(path), strict=False), name in types, files)
    print(f"{path}: {len(files)} picture{'s' * (len(files) != 1)}: {found.line()}")
    return {"pictures": found.figures()}


def check_channels(how: Preprocess, inputs: Mapping[str, Sequence[int | None]], where: str, given: Collection[str] = ()) -> None:
    """DataError: means or deviations are neither one number nor one for each channel. where: what says them; given: options."""
    for shape in inputs.values():
        channels = channels_of(tuple(shape), how.layout)
        for name, values in (("mean", how.mean), ("std", how.std)):
            if len(values) not in (1, channels):
                said = f"--{name} {' '.join(f'{value:g}' for value in values)}" if name in given else where
                there = f"{channels} channel{'s' * (channels != 1)}"
                raise DataError(f"{said}: {name} has {len(values)} values, but the input has {there}")
