"""What a DPU's users bring: `overlay.load_model("m.cnna")` and a runner like VART's. Thin: a session does the work.

overlay = cnna.Overlay("cnna.bit")
runner = overlay.load_model("m.cnna")
outputs = [numpy.empty(tensor.dims, tensor.dtype) for tensor in runner.get_output_tensors()]
runner.wait(runner.execute_async([x], outputs))
"""

import itertools
import math
import os
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.overlay import open_overlay
from cnna.host.model.answers import NodeArg
from cnna.host.model.session import BIT, InferenceSession
from cnna.spec.artifact import Artifact, Holder, Source
from cnna.spec.errors import DataError


@dataclass(frozen=True)
class Tensor:
    """An input or output. dims: sizes, the model's batch in the place of 'N'; dtype: numpy's name of the type."""

    name: str
    dims: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.dims)

    def get_element_num(self) -> int:
        """Elements of the array."""
        return math.prod(self.dims)

    def get_data_size(self) -> int:
        """Bytes of the tensor in int8, as a DPU holds it: programs take it for the number of elements."""
        return self.get_element_num()


class Runner:
    """A session with VART's methods, for arrays that the caller has allocated."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        batch = session.manifest["batch"]
        self._inputs = [_tensor(one, batch) for one in session.get_inputs()]
        self._outputs = [_tensor(one, batch) for one in session.get_outputs()]
        self._jobs: dict[int, tuple[Future[list[Any]], Sequence[NDArray[Any]]]] = {}
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        return f"<cnna runner of {self.session!r}>"

    def get_input_tensors(self) -> list[Tensor]:
        """The inputs, in the order that `execute_async` wants."""
        return list(self._inputs)

    def get_output_tensors(self) -> list[Tensor]:
        """The outputs, in the order that `execute_async` fills."""
        return list(self._outputs)

    def execute_async(self, inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> int:
        """Begins a run and returns its number for `wait`, which fills `outputs`. DataError: arrays that do not fit."""
        for what, given, wanted in (("inputs", inputs, self._inputs), ("outputs", outputs, self._outputs)):
            if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str | bytes):
                raise DataError(f"{self.session.name}: {what} is a list of arrays, not {type(given).__name__}")
            if len(given) != len(wanted):
                names = ", ".join(tensor.name for tensor in wanted)
                raise DataError(f"{self.session.name}: {len(given)} {what} are given, but it has {len(wanted)}: {names}")
        for tensor, array in zip(self._outputs, outputs, strict=True):
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise DataError(f"output {tensor.name} needs a numpy array that can be written, to be filled")
            if array.shape != tensor.dims or array.dtype != tensor.dtype:
                has, fits = f"{array.dtype} {list(array.shape)}", f"{tensor.dtype} {list(tensor.dims)}"
                raise DataError(f"output {tensor.name} is {has}, but the model gives {fits}")
        for tensor, array in zip(self._inputs, inputs, strict=True):
            if np.shape(array)[:1] != tensor.dims[:1]:
                raise DataError(f"input {tensor.name} has shape {list(np.shape(array))}, but the model wants {list(tensor.dims)}")
        feed = {tensor.name: array for tensor, array in zip(self._inputs, inputs, strict=True)}
        number = next(self._numbers)
        self._jobs[number] = self.session.run_async(None, feed), outputs
        return number

    def wait(self, number: int, timeout_seconds: float | None = None) -> int:
        """Fills the outputs of a run and returns 0. Errors as of `run`; TimeoutError: not ended yet; wait again."""
        if not isinstance(number, int) or number not in self._jobs:
            raise DataError(f"{self.session.name}: there is no run {number}, or it was waited for already")
        answer, outputs = self._jobs[number]
        try:
            found = answer.result(timeout_seconds)
        finally:
            if answer.done():
                self._jobs.pop(number, None)
        for output, own in zip(outputs, found, strict=True):
            output[...] = own
        return 0


class Overlay:
    """A bitstream that loads models: the path of a cnna.bit, or any other device of `InferenceSession`.

    It has all attributes of the `pynq.Overlay` that it opens. `runner` is that of the model that was loaded last.
    """

    def __init__(self, device: Any) -> None:
        named = isinstance(device, str | os.PathLike) and Path(device).suffix == BIT
        self._device = open_overlay(Path(device)) if named else device
        self.runner: Runner | None = None

    def load_model(self, path_or_artifact: Source | Artifact | Holder, **options: Any) -> Runner:
        """Closes the model that was loaded before and opens this one. `options`: as of `InferenceSession`."""
        self.close()
        self.runner = Runner(InferenceSession(path_or_artifact, self._device, **options))
        return self.runner

    def close(self) -> None:
        """Closes the model that was loaded last."""
        if self.runner is not None:
            self.runner.session.close()
            self.runner = None

    def __enter__(self) -> "Overlay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cnna.Overlay {self._device!r}, {'no model' if self.runner is None else self.runner.session.name!r} loaded>"

    def __getattr__(self, name: str) -> Any:
        """What a `pynq.Overlay` has."""
        if name == "_device":  # before `__init__` has set it
            raise AttributeError(name)
        return getattr(self._device, name)


def _tensor(node: NodeArg, batch: int) -> Tensor:
    """DataError: its size depends on the data, so that no caller can allocate it."""
    dims = []
    shape: list[int | str | None] = [None] if node.shape is None else list(node.shape)
    if batch > 1 and node.shape is not None and not any(isinstance(size, str) for size in shape):
        shape = ["N", *shape]  # answers to several samples are stacked
    for size in shape:
        if size is None:
            raise DataError(
                f"{node.name} has a size that depends on the data, so nobody can allocate it before the run: use a session"
            )
        dims.append(size if isinstance(size, int) else int(size.removesuffix("N").removesuffix("*") or 1) * batch)
    kind = node.type.removeprefix("tensor(").removesuffix(")")
    return Tensor(node.name, tuple(dims), {"float": "float32"}.get(kind, kind))
