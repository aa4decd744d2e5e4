"""`cnna quantize --report F` and `--search LOSS`: what quantisation costs, layer by layer and, with labels, in right answers."""

import argparse
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cnna.cli import searched
from cnna.cli.main import FAILED
from cnna.cli.metric_options import add_metric_option, given_metrics, metric_of
from cnna.cli.options import CONFIG_HELP, configuration
from cnna.cli.progress import counter
from cnna.host.samples import pictures
from cnna.host.samples.arrays import CLASSES, Arrays
from cnna.host.samples.row_files import NPY, ZIPS, rows_in
from cnna.spec.errors import DataError, UserError, about_model
from cnna.spec.files import read_bytes, write_text
from cnna.spec.json_text import json_text
from cnna.spec.names import in_line
from cnna.spec.verdicts import TOP1

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.quantise.examine import Measured
    from cnna.compiler.quantise.quantise import Calibrated, Report

PAGE, FIGURES = ".html", ".json"
DEFAULT = "zcu102"  # the configuration
THIRD = 3  # every third sample is held out


@dataclass(frozen=True)
class Examination:
    """What was measured, as the report has it."""

    figures: dict[str, Any]

    @property
    def search(self) -> dict[str, Any]:
        """The figures of the search, if there was one."""
        return {name: self.figures[name] for name in ("search",) if name in self.figures}

    @property
    def exit_code(self) -> int:
        """FAILED if the loss that was asked for cannot be met."""
        return 0 if all(found["met"] for found in self.search.values()) else FAILED

    def write(self, args: argparse.Namespace) -> None:
        """Writes the reports, each in the form that its suffix names, and prints the results."""
        print(said(self.figures))
        for path in args.report:
            if path.suffix.lower() == FIGURES:
                write_text(path, json_text(self.figures, indent=1) + "\n")
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
        "--search",
        type=_points,
        metavar="LOSS",
        help="keep the worst layers in float, on the CPU, until no more than LOSS points of top-1 (without labels: of agreement "
        "with float; of outputs without classes: by --metric) are lost on a third of the samples, which calibration does not see",
    )
    add_metric_option(parser)
    parser.add_argument("--config", metavar="C", help=f"what --search predicts the speed for (default: {DEFAULT}): {CONFIG_HELP}")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="F",
        help="the right class of each sample, for --report and --search: .npy, .npz (y) or text with one number a line (default: "
        f"the array {CLASSES} beside the samples, if there is one)",
    )


def _points(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points, 0 to 100; 0.5 is")
    return found


def metrics_of(args: argparse.Namespace, outputs: Collection[str]) -> dict[str, str]:
    """The metrics that the user has chosen, by output. UserError: they name an output that is not there."""
    return {name: metric for name in outputs if (metric := metric_of(name, given_metrics(args), outputs))}


def wanted(args: argparse.Namespace) -> bool:
    """Whether more than quantising is asked for."""
    return bool(args.report) or args.search is not None


def check(args: argparse.Namespace) -> None:
    """UserError: the options cannot be what the user means."""
    for path in args.report:
        if path.suffix.lower() not in (PAGE, FIGURES):
            raise UserError(f"--report {path}: its name must end in {PAGE} or {FIGURES}, which says what is written")
    if args.labels and not wanted(args):
        raise UserError(f"--labels {args.labels}: labels are for --report F and --search LOSS; give one of them as well")
    if given_metrics(args) and not wanted(args) and args.fc_bits != "auto":
        choices = "--report F, --search LOSS or --fc-bits auto"
        raise UserError(f"--metric {args.metric[0]}: it says how outputs are judged; give {choices} as well")
    if args.config and args.search is None:
        raise UserError(f"--config {args.config}: only --search predicts a speed; cnna compile takes the configuration")


def run(
    args: argparse.Namespace, images: Arrays, calibrate: Callable[[Arrays], "Calibrated"]
) -> tuple["ModelProto", "Report", Examination]:
    """Quantises, measures and, if asked to, searches. UserError: the model does not run, or labels do not fit."""
    config = configuration(args.config or DEFAULT)
    from cnna.compiler.quantise.examine import Examiner

    labels = _labels(args, images)
    seen, on = _split(args, images, labels)
    with about_model(args.model):
        calibrated = calibrate(seen)
        outputs = calibrated.graph.outputs
        metrics = metrics_of(args, outputs)
        model, report = calibrated.quantised(refining=counter("refining"))
        with _about_labels(labels):
            examiner = Examiner(calibrated, on, counter, metrics)
        noise = examiner.noise(model, report)
        if args.search is None:
            examined, more = examiner.examined(model, report, noise), {}
        else:
            found = searched.run(args, examiner, (model, report), noise, config)
            model, report, more = found.model, found.report, {"search": found.figures}
            costs = found.costs or (examiner.costs(noise) if args.report else {})
            kept = found.figures["kept"]
            examined = examiner.examined(model, report, None if kept else noise, costs, kept)
    return model, report, Examination({"model": str(args.model), "name": model.graph.name, **examined.figures(), **more})


def _split(args: argparse.Namespace, images: Arrays, labels: "_Labels | None") -> tuple[Arrays, "Measured"]:
    """The samples to calibrate with, and those to measure on: all, or for a search every third, held out of the calibration.

    DataError: there are too few.
    """
    from cnna.compiler.quantise.examine import Measured

    count, classes = len(next(iter(images.values()))), labels.classes if labels else None
    if args.search is None:
        return images, Measured(images, count, classes)
    if count < THIRD:
        raise DataError(f"{args.calib}: --search holds a third of the samples out and needs at least {THIRD}; there are {count}")
    held = np.arange(count) % THIRD == THIRD - 1
    apart = {name: array[held] for name, array in images.items()}
    on = Measured(apart, int(held.sum()), None if classes is None else classes[held], held_out=True)
    return {name: array[~held] for name, array in images.items()}, on


@dataclass(frozen=True, eq=False)
class _Labels:
    """The right class of each sample, and what error messages call them."""

    name: str
    classes: NDArray[np.int64]


def _labels(args: argparse.Namespace, images: Arrays) -> _Labels | None:
    """Those of `--labels`, or else those beside the samples. DataError: they are no whole numbers, or not one for each sample."""
    if args.labels:
        name, given = str(args.labels), _read(args.labels)
    elif CLASSES in images or pictures.are_pictures(args.calib) or CLASSES not in (there := rows_in(args.calib)):
        return None
    else:
        name, given = f"{args.calib}: array {CLASSES}", there[CLASSES].whole()
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise DataError(f"{name}: {given.dtype} {list(given.shape)} is not one whole number, the class, for each sample")
    if len(given) != (count := len(next(iter(images.values())))):
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
        parts.append(f"agreement with float {figures['agreement']:.2%} (the greatest class of {in_line(figures['classified'])})")
    parts += [
        f"output {one['name']}: {one['said']} on {one['samples']} of them, {one['verdict']} ({one['why']})"
        for one in figures["outputs"]
        if one["metric"] != TOP1
    ]
    if figures["float_top1"] is not None:
        parts.append(f"top-1 {figures['int8_top1']:.2%}, float {figures['float_top1']:.2%}")
    if figures["worst"] and not figures.get("search", {}).get("kept"):
        parts.append(f"the costliest layer is {figures['worst'][0]}")
    return f"measured on {figures['samples']} {on}: {'; '.join(parts) or 'no answers to compare'}"
