"""Which task it is, by its name or by the data, and the task with the options that it takes."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnna.evaluate.datasets.dataset import Dataset
from cnna.evaluate.datasets.labels import digest_of_file
from cnna.evaluate.datasets.layouts import CLASSIFICATION, OWN, Reading, read_data
from cnna.evaluate.tasks.classification import Classification
from cnna.evaluate.tasks.own import Own, function_of
from cnna.evaluate.tasks.task import Chosen, Task
from cnna.spec.errors import UserError

TASKS = (CLASSIFICATION, OWN)


@dataclass(frozen=True)
class Choice:
    """The options of tasks. metric: a function, or FILE.py:NAME."""

    output: str | None = None
    top: int = 5
    offset: int = 0
    metric: str | Callable[..., Any] | None = None

    def about(self) -> dict[str, Any]:
        """For the journal: whatever a record depends on."""
        return {"output": self.output, "top": self.top, "offset": self.offset, "metric": _text_of(self.metric)}


def _text_of(function: str | Callable[..., Any] | None) -> str | None:
    """What tells one function from another: its file's content, or its source."""
    if function is None:
        return None
    if isinstance(function, str):
        return f"{function} {digest_of_file(Path(function.rpartition(':')[0]))}"
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
    return OWN if metric is not None else task or CLASSIFICATION


def data_for(path: Path, task: str, reading: Reading) -> Dataset:
    """The data, in the layouts of the task. DataError: as of `read_data`."""
    return read_data(path, task, reading)


def task_of(name: str, choice: Choice) -> Task:
    """The task with its options. UserError: the function cannot be had."""
    if name == OWN:
        metric = choice.metric
        function = function_of(metric, "--metric") if isinstance(metric, str) else metric
        assert function is not None
        main = metric.rpartition(":")[2] if isinstance(metric, str) else getattr(function, "__name__", "metric")
        return Own(function, f"--metric {metric if isinstance(metric, str) else main}", main)
    return Classification(choice.top, choice.offset, Chosen(choice.output))
