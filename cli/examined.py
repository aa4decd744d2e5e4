"""`cnna quantize --report F`: measures what quantisation costs, layer by layer and, with labels, in right answers."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cnna.cli.arrays import CLASSES, Arrays
from cnna.cli.options import counter
from cnna.cli.row_files import NPY, ZIPS, rows_in
from cnna.host.model import pictures
from cnna.spec.errors import DataError, UserError, about_model
from cnna.spec.files import read_bytes, write_text

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.quantise.quantise import Calibrated, Report

PAGE, FIGURES = ".html", ".json"


@dataclass(frozen=True)
class Found:
    """What was measured, as the report has it."""

    figures: dict[str, Any]

    def write(self, args: argparse.Namespace) -> None:
        """Writes the reports, each in the form that its suffix names, and prints the results."""
        print(said(self.figures))
        for path in args.report:
            if path.suffix.lower() == FIGURES:
                write_text(path, json.dumps(self.figures, indent=1) + "\n")
            else:
                from cnna.compiler.report.noise_page import noise_page

                write_text(path, noise_page(self.figures))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--report",
        action="append",
        type=Path,
        default=[],
        metavar="F",
        help="write what quantisation costs, layer by layer, as F.html (a page) or F.json; may be given for both",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="F",
        help="the right class of each sample, for the report: .npy, .npz (y) or text with one number a line (default: the "
        f"array {CLASSES} beside the samples, if there is one)",
    )


def check(args: argparse.Namespace) -> None:
    """UserError: the options cannot be what the user means."""
    for path in args.report:
        if path.suffix.lower() not in (PAGE, FIGURES):
            raise UserError(f"--report {path}: its name must end in {PAGE} or {FIGURES}, which says what is written")
    if args.labels and not args.report:
        raise UserError(f"--labels {args.labels}: labels are for the report; give --report F as well")


def run(
    args: argparse.Namespace, images: Arrays, calibrate: Callable[[Arrays], "Calibrated"]
) -> tuple["ModelProto", "Report", Found]:
    """Quantises, and measures on the calibration samples. UserError: the model does not run, or labels do not fit."""
    from cnna.compiler.quantise.examine import Examiner, Measured

    count = len(next(iter(images.values())))
    labels = _labels(args, [*images], count)
    with about_model(args.model):
        calibrated = calibrate(images)
        model, report = calibrated.quantised(refining=counter("refining"))
        with _about_labels(labels):
            examiner = Examiner(calibrated, Measured(images, count, labels.classes if labels else None), counter)
        examined = examiner.examined(model, report)
    return model, report, Found({"model": str(args.model), **examined.figures()})


@dataclass(frozen=True, eq=False)
class _Labels:
    """The right class of each sample, and what error messages call them."""

    name: str
    classes: NDArray[np.int64]


def _labels(args: argparse.Namespace, inputs: Sequence[str], count: int) -> _Labels | None:
    """Those of `--labels`, or else those beside the samples. DataError: they are no whole numbers, or not one for each sample."""
    if args.labels:
        name, given = str(args.labels), _read(args.labels)
    elif CLASSES in inputs or pictures.are_pictures(args.calib) or CLASSES not in (there := rows_in(args.calib)):
        return None
    else:
        name, given = f"{args.calib}: array {CLASSES}", there[CLASSES].whole()
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise DataError(f"{name}: {given.dtype} {list(given.shape)} is not one whole number, the class, for each sample")
    if len(given) != count:
        raise DataError(f"{name}: there are {len(given)} labels for {count} samples")
    return _Labels(name, given.astype(np.int64))


def _read(path: Path) -> NDArray[Any]:
    """The array of a .npy, that called `y` or the only one of a .npz, or the numbers in the lines of a text."""
    data = read_bytes(path)
    if data.startswith((NPY, *ZIPS)):
        arrays = rows_in(path)
        if CLASSES not in arrays and len(arrays) != 1:
            raise DataError(f"{path}: has arrays {', '.join(arrays) or 'none'}, but none called {CLASSES}, for the labels")
        return arrays.get(CLASSES, next(iter(arrays.values()))).whole()
    try:
        return np.array([int(line) for line in data.decode().split()], np.int64)
    except (ValueError, OverflowError):
        raise DataError(f"{path}: not labels: .npy, .npz, or text with one class number a line") from None


@contextmanager
def _about_labels(labels: _Labels | None) -> Iterator[None]:
    """Puts the file's name in front of what is wrong with the labels."""
    try:
        yield
    except DataError as error:
        raise (DataError(f"{labels.name}: {error}") if labels else error) from None


def said(figures: Mapping[str, Any]) -> str:
    """The results in a line."""
    on = "samples held out" if figures["held_out"] else "calibration samples"
    parts = []
    if figures["agreement"] is not None:
        parts.append(f"agreement with float {figures['agreement']:.2%}")
    if figures["float_top1"] is not None:
        parts.append(f"top-1 {figures['int8_top1']:.2%}, float {figures['float_top1']:.2%}")
    if figures["worst"]:
        parts.append(f"the costliest layer is {figures['worst'][0]}")
    return f"measured on {figures['samples']} {on}: {'; '.join(parts) or 'no class scores to compare'}"
