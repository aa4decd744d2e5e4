"""Which task it is, by its name or by the data, and the task with the options that it takes."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cnna.evaluate.datasets.dataset import CORNER, FITS, LETTERBOX, WHOLE, Dataset
from cnna.evaluate.datasets.labels import digest_of_file, read_labels
from cnna.evaluate.datasets.layouts import (
    CLASSIFICATION,
    DETECTION,
    EMBEDDING,
    KEYPOINTS,
    OWN,
    SEGMENTATION,
    Reading,
    task_of_data,
)
from cnna.evaluate.options import Options
from cnna.evaluate.tasks import decoding, detection
from cnna.evaluate.tasks.classification import Classification
from cnna.evaluate.tasks.coco_figures import check_installed
from cnna.evaluate.tasks.embedding import Embedding
from cnna.evaluate.tasks.keypoints import COORDINATES, OF_PICTURE, PIXELS, Keypoints
from cnna.evaluate.tasks.own import Own, function_of
from cnna.evaluate.tasks.segmentation import IGNORED, Segmentation
from cnna.evaluate.tasks.task import Chosen, Task
from cnna.spec.errors import UserError
from cnna.spec.names import in_line

TASKS = (CLASSIFICATION, DETECTION, SEGMENTATION, KEYPOINTS, EMBEDDING, OWN)
OF = {  # option: the default, and the tasks that it is for
    "top": (5, (CLASSIFICATION,)),
    "offset": (0, (CLASSIFICATION, DETECTION)),
    "decode": (None, (DETECTION,)),
    "min_score": (decoding.LEAST, (DETECTION,)),
    "overlap": (decoding.OVERLAP, (DETECTION,)),
    "ignored": (IGNORED, (SEGMENTATION,)),
    "coordinates": (PIXELS, (KEYPOINTS,)),
}


@dataclass(frozen=True)
class Choice:
    """The options of tasks, as of `Options`; for those of OF, None stands for the default."""

    judged: str | None = None
    metric: str | Callable[..., Any] | None = None
    top: int | None = None
    offset: int | None = None
    decode: str | Callable[..., Any] | None = None
    min_score: float | None = None
    overlap: float | None = None
    ignored: int | None = None
    coordinates: str | None = None

    def about(self) -> dict[str, Any]:
        """For the journal: whatever a record depends on."""
        values = {name: self.value(name) for name in OF}
        return {"output": self.judged, **values, "metric": _text_of(self.metric), "decode": _text_of(self.decode)}

    def value(self, option: str) -> Any:
        """An option, or its default."""
        given = getattr(self, option)
        return OF[option][0] if given is None else given

    def of_heads(self, task: str) -> dict[str, Any] | None:
        """The limits of `Detector`, for models that know their heads; None: no boxes are wanted, or another decodes them."""
        if task != DETECTION or self.decode is not None:
            return None
        return {"least": self.value("min_score"), "overlap": self.value("overlap"), "most": decoding.MOST}

    def check(self, task: str) -> None:
        """UserError: an option is for other tasks, or has a value that there is not."""
        for name, (_, tasks) in OF.items():
            if getattr(self, name) is not None and task not in tasks:
                raise UserError(f"--{name.replace('_', '-')} is for {' and '.join(tasks)}, not for {task}")
        if self.judged is not None and task in (DETECTION, OWN):
            raise UserError(f"--output names one output, but {task} takes all of them")
        for name, least in (("top", 1), ("offset", 0), ("min_score", 0), ("overlap", 0)):
            value = self.value(name)
            if not value >= least or (least == 0 and isinstance(value, float) and value > 1):
                raise UserError(f"--{name.replace('_', '-')} {value}: must be {f'at least {least}' if value < least else '0 to 1'}")
        if self.value("coordinates") not in COORDINATES:
            raise UserError(f"--coordinates {self.coordinates}: there are {', '.join(COORDINATES)}")


def choice_of(options: Options) -> Choice:
    """Those of the options that are for tasks."""
    given: Mapping[str, Any] = {**options}
    return Choice(**{field.name: given.get(field.name) for field in fields(Choice)})


def reading_of(options: Options) -> Reading:
    """Those that are for data. DataError: the labels cannot be read. UserError: an option has a value that there is not."""
    labels, images = options.get("labels"), options.get("images")
    names, folder = None if labels is None else read_labels(Path(labels)), None if images is None else Path(images)
    skip = options.get("skip_unreadable") or False
    return Reading(names, columns_of(options.get("columns")), folder, fit_of(options.get("fit")), skip)


def _text_of(function: str | Callable[..., Any] | None) -> str | None:
    """What tells one function from another: its file's content, or its source."""
    if function is None or isinstance(function, str):
        file = (function or "").rpartition(":")[0]
        return f"{function} {digest_of_file(Path(file))}" if file else function
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # of a function that was typed in
        return repr(function)


def task_name(task: str | None, data: Path, metric: Any) -> str:
    """The task. UserError: there is none of that name, or it takes no function."""
    if task is not None and task not in TASKS:
        raise UserError(f"--task {task}: there is no such task; there are {', '.join(TASKS)}")
    if metric is not None and task not in (None, OWN):
        raise UserError(f"--metric is a task of its own; leave --task {task} out")
    if metric is None and task == OWN:
        raise UserError("--task own: give the function, --metric FILE.py:NAME")
    return OWN if metric is not None else task or task_of_data(data)


def fit_of(fit: str | None) -> str:
    """How whole pictures meet a detector's input. UserError: there is no such way."""
    if fit is not None and fit not in FITS[:3]:
        raise UserError(f"--fit {fit}: there are {LETTERBOX}, {CORNER} and {WHOLE}")
    return fit or LETTERBOX


def columns_of(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The two columns of a CSV, of a text or a list. UserError: it does not name two."""
    if not given:
        return None
    columns = tuple(given.split(",") if isinstance(given, str) else given)
    if len(columns) != len(("file", "label")) or not all(isinstance(name, str) and name for name in columns):
        raise UserError(
            f"--columns {given if isinstance(given, str) else in_line(map(str, columns))}: name two columns, as in file,label"
        )
    return columns


def task_of(name: str, choice: Choice, data: Dataset) -> Task:
    """The task with its options. UserError: a function or a package cannot be had."""
    choice.check(name)
    chosen = Chosen(choice.judged)
    if name == OWN:
        return _own(choice)
    if name == DETECTION:
        check_installed()
        return detection.Detection(_decode(choice, data), choice.value("offset"))
    if name == SEGMENTATION:
        return Segmentation(choice.value("ignored"), chosen)
    if name == KEYPOINTS:
        if OF_PICTURE in data.targets[0]:
            check_installed()
        return Keypoints(choice.value("coordinates"), chosen)
    if name == EMBEDDING:
        return Embedding(chosen)
    return Classification(choice.value("top"), choice.value("offset"), chosen)


def _own(choice: Choice) -> Task:
    metric = choice.metric
    function = function_of(metric, "--metric") if isinstance(metric, str) else metric
    assert function is not None
    main = metric.rpartition(":")[2] if isinstance(metric, str) else getattr(function, "__name__", "metric")
    return Own(function, f"--metric {metric if isinstance(metric, str) else main}", main)


def _decode(choice: Choice, data: Dataset) -> decoding.Decode:
    """What makes boxes of outputs."""
    given = choice.decode
    if given is None or given in decoding.FORMS:
        return decoding.decoder(given, len(data.classes or ()), choice.value("min_score"), choice.value("overlap"))
    function = function_of(given, "--decode") if isinstance(given, str) else given
    return decoding.own_decoder(f"--decode {given if isinstance(given, str) else getattr(given, '__name__', 'function')}", function)
