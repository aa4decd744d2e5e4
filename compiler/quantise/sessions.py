"""Runs models in onnxruntime, and feeds them samples one at a time."""

from collections.abc import Iterator, Mapping

import numpy as np
import onnxruntime as ort

from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.ir import Graph
from cnna.spec.cpu_ops import onnxruntime_errors, session_options
from cnna.spec.errors import DataError, ModelError, reason_of


class Session:
    """A model that can be run; Q and DQ round where they stand. ModelError: onnxruntime cannot run it; `name` begins the line.

    model: its bytes, so that a caller who needs nothing else has it only once in memory.
    """

    def __init__(self, model: bytes, name: str) -> None:
        self._name = name
        try:
            self._session = ort.InferenceSession(model, session_options(ort), providers=["CPUExecutionProvider"])
        except onnxruntime_errors() as error:
            raise self._refused(error) from None
        self.outputs = [value.name for value in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name, in the model's order. ModelError: as of the class."""
        try:
            answers: list[np.ndarray] = self._session.run(None, dict(feeds))
        except onnxruntime_errors() as error:
            raise self._refused(error) from None
        return dict(zip(self.outputs, answers, strict=True))

    def _refused(self, error: Exception) -> ModelError:
        return ModelError(f"{self._name}: onnxruntime cannot run it: {reason_of(error)[:200]}")


def feeds_of(
    graph: Graph, samples: Mapping[str, np.ndarray], count: int, preprocess: Preprocess | None
) -> Iterator[dict[str, np.ndarray]]:
    """The first `count` samples as the network behind the preprocessing takes them, one at a time. DataError: as of `calibrate`."""
    for number in range(count):
        feeds = {}
        for name in graph.inputs:
            value = samples[name][number : number + 1]
            if name in graph.types:
                feeds[name] = value.astype(graph.types[name])
                continue
            with np.errstate(over="ignore"):  # refused below
                feeds[name] = preprocess.apply(value) if value.dtype == np.uint8 and preprocess else value.astype(np.float32)
            if np.isnan(feeds[name]).any():  # infinity may be a mask's, for the CPU alone
                raise DataError(f"calibration set: sample {number} of '{name}' holds NaN; leave it out")
            if (np.isfinite(value) & np.isinf(feeds[name])).any():
                raise DataError(f"calibration set: sample {number} of '{name}' holds numbers beyond float32; leave it out")
        yield feeds
