"""`examine` and `search` of `cnna.quantize`: what quantisation costs, layer by layer and, with labels, in right answers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples import pictures
from cnna.host.samples.arrays import CLASSES, Arrays
from cnna.host.samples.row_files import NPY, ZIPS, rows_in
from cnna.jobs.data import Data, called
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.options.metrics import first_of, metric_of
from cnna.jobs.search import searched
from cnna.spec.errors import DataError, UserError, about_model
from cnna.spec.files import read_bytes
from cnna.spec.names import in_line
from cnna.spec.verdicts import TOP1

if TYPE_CHECKING:
    from cnna.compiler.frontend.source_model import SourceModel
    from cnna.compiler.quantise.examine import Counter, Measured
    from cnna.compiler.quantise.quantise import Calibrated, Report

GivenLabels: TypeAlias = str | PathLike[str] | NDArray[Any]  # a file, or the right class of each sample
DEFAULT = "zcu102"  # the configuration
THIRD = 3  # every third sample is held out
MOST_POINTS = 100


@dataclass(frozen=True)
class Examination:
    """What is measured beside quantising. report: layer by layer. search: the points that may be lost; None: no search.

    metrics: by output, as of `metrics_given`. config: what a search predicts the speed for.
    """

    report: bool = False
    search: float | None = None
    labels: GivenLabels | None = None
    metrics: Mapping[str, str] | None = None
    config: GivenConfig | None = None

    @property
    def wanted(self) -> bool:
        """Whether more than quantising is asked for."""
        return self.report or self.search is not None

    def check(self, judges: bool) -> None:
        """UserError: what is given cannot be what the user means. judges: whether quantising itself judges outputs."""
        if self.search is not None and not 0 <= self.search <= MOST_POINTS:
            raise UserError(f"--search {self.search:g}: is no number of points, 0 to {MOST_POINTS}; 0.5 is")
        if self.labels is not None and not self.wanted:
            name = f"--labels {self.labels}" if isinstance(self.labels, str | PathLike) else "--labels"
            raise UserError(f"{name}: labels are for --report F and --search LOSS; give one of them as well")
        if self.metrics and not self.wanted and not judges:
            choices = "--report F, --search LOSS or --fc-bits auto"
            raise UserError(f"--metric {first_of(self.metrics)}: it says how outputs are judged; give {choices} as well")
        if self.config is not None and self.search is None:
            raise UserError(f"--config {self.config}: only --search predicts a speed; cnna compile takes the configuration")


@dataclass(frozen=True, eq=False)
class Examined:
    """A quantised network and what was measured of it. figures: as the report has them. lines: of a search."""

    model: "SourceModel"
    report: "Report"
    figures: dict[str, Any]
    lines: tuple[str, ...]


def examined(
    wanted: Examination,
    name: str,
    data: Data,
    images: Arrays,
    calibrate: Callable[[Arrays], "Calibrated"],
    counter: "Counter",
) -> Examined:
    """Quantises, measures and, if asked to, searches. UserError: the model does not run, or labels do not fit.

    name: what errors call the model. calibrate: with the samples that are not held out. counter: makes callbacks of progress.
    """
    config = config_of(DEFAULT if wanted.config is None else wanted.config)
    from cnna.compiler.quantise.examine import Examiner

    labels = labels_of(wanted.labels, data, images)
    seen, on = _split(wanted.search is not None, called(data), images, labels)
    with about_model(name):
        calibrated = calibrate(seen)
        outputs = calibrated.graph.outputs
        metrics = {each: metric for each in outputs if (metric := metric_of(each, wanted.metrics or {}, outputs))}
        model, report = calibrated.source(refining=counter("refining"))
        with _about_labels(labels):
            examiner = Examiner(calibrated, on, counter, metrics)
        noise = examiner.noise(model.proto, report)
        lines, more = tuple[str, ...](), dict[str, Any]()
        if wanted.search is None:
            measured = examiner.examined(model.proto, report, noise)
        else:
            found = searched(examiner, wanted.search, (model, report), noise, config, wanted.config is None, counter)
            model, report, more, lines = found.model, found.report, {"search": found.figures}, found.lines
            costs = found.costs or (examiner.costs(noise) if wanted.report else {})
            kept = found.figures["kept"]
            measured = examiner.examined(model.proto, report, None if kept else noise, costs, kept)
    return Examined(model, report, {"model": name, "name": model.proto.graph.name, **measured.figures(), **more}, lines)


def _split(search: bool, name: str, images: Arrays, labels: "Labels | None") -> tuple[Arrays, "Measured"]:
    """The samples to calibrate with, and those to measure on: all, or for a search every third, held out of the calibration.

    DataError: there are too few.
    """
    from cnna.compiler.quantise.examine import Measured

    count, classes = len(next(iter(images.values()))), labels.classes if labels else None
    if not search:
        return images, Measured(images, count, classes)
    if count < THIRD:
        raise DataError(f"{name}: --search holds a third of the samples out and needs at least {THIRD}; there are {count}")
    held = np.arange(count) % THIRD == THIRD - 1
    apart = {name: array[held] for name, array in images.items()}
    on = Measured(apart, int(held.sum()), None if classes is None else classes[held], held_out=True)
    return {name: array[~held] for name, array in images.items()}, on


@dataclass(frozen=True, eq=False)
class Labels:
    """The right class of each sample, and what error messages call them."""

    name: str
    classes: NDArray[np.int64]


def labels_of(labels: GivenLabels | None, data: Data, images: Arrays) -> Labels | None:
    """Those that are given, or else those beside the samples. DataError: they are no whole numbers, or not one for each sample."""
    if isinstance(labels, str | PathLike):
        name, given = str(labels), _read(Path(labels))
    elif labels is not None:
        name, given = "labels", np.asarray(labels)
    elif CLASSES in images or (there := _beside(data)) is None:
        return None
    else:
        name, given = f"{called(data)}: array {CLASSES}", there
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise DataError(f"{name}: {given.dtype} {list(given.shape)} is not one whole number, the class, for each sample")
    if len(given) != (count := len(next(iter(images.values())))):
        raise DataError(f"{name}: there are {len(given)} labels for {count} samples")
    return Labels(name, given.astype(np.int64))


def _beside(data: Data) -> NDArray[Any] | None:
    """The classes that lie beside the samples, if there are any."""
    if isinstance(data, str | PathLike):
        if pictures.are_pictures(Path(data)) or CLASSES not in (there := rows_in(Path(data))):
            return None
        return there[CLASSES].whole()
    return np.asarray(data[CLASSES]) if isinstance(data, Mapping) and CLASSES in data else None


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
def _about_labels(labels: Labels | None) -> Iterator[None]:
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
