"""The options that say how a picture becomes an input, and the line that says what is done to it (docs/preprocess.md)."""

import argparse
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from cnna.jobs.data import checked_table, prepared
from cnna.spec.samples.preprocess import COLOURS, LAYOUTS, NORMALISATION


def add_picture_options(parser: argparse.ArgumentParser, when: str) -> None:
    """Adds the options to a command; `when` says what they are for."""
    group = parser.add_argument_group(f"how pictures become the input, (x * scale - mean) / std: {when}")
    group.add_argument(
        "--size", type=_whole, metavar="H,W", help="scale pictures to so much, or with one number their shorter side"
    )
    group.add_argument("--crop", type=_whole, metavar="H,W", help="cut so much out of the middle (default: what the model takes)")
    group.add_argument("--scale", type=_number, metavar="S", help="default: 1; 1/255 makes 0 to 1")
    group.add_argument("--mean", type=_one_of_many, nargs="+", metavar="M", help="one value, or one a channel (default: 0)")
    group.add_argument("--std", type=_one_of_many, nargs="+", metavar="D", help="one value, or one a channel (default: 1)")
    group.add_argument("--layout", choices=LAYOUTS, help="of the model's input: channels first (default) or last")
    group.add_argument("--colour", choices=COLOURS, help="the order of the model's channels (default: rgb)")


def _number(text: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number; 0.5 and 1/255 are") from None


def _one_of_many(text: str) -> float:
    numbers = text.replace(",", " ").split()
    if len(numbers) > 1:  # as other tools write them, and --size here
        raise argparse.ArgumentTypeError(f"{text!r} is no number; write a space between numbers: {' '.join(numbers)}")
    return _number(text)


def _whole(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace("x", ",").split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; 256 and 256,320 (rows, columns) are") from None


def given_preprocess(args: argparse.Namespace) -> dict[str, Any]:
    """The options as a table. ModelError: a value that does not exist."""
    names = ("size", "crop", *NORMALISATION, "layout", "colour")
    return checked_table({name: value for name in names if (value := getattr(args, name)) is not None})


def say_preparation(
    path: Path,
    inputs: Mapping[str, Sequence[int | None]],
    types: Mapping[str, str],
    table: Mapping[str, Any],
    limit: int | None = None,
) -> dict[str, Any]:
    """Prints in a line what `open_samples` does to the pictures of a folder or file; nothing for arrays. Figures for `--json`."""
    found = prepared(path, inputs, types, table, limit)
    if found is None:
        return {}
    print(f"{path}: {found}")
    return {"pictures": found.figures()}
