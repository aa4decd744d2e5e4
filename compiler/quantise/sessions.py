"""Runs models in onnxruntime, and feeds them samples one at a time."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_model.hollow import without_weights
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.ir import Graph
from cnna.spec.cpu_ops import onnxruntime_errors, session_options
from cnna.spec.errors import DataError, ModelError, reason_of

UNKNOWN = "is not a registered function/op"  # says onnxruntime of an operator of a domain that it does not have


class Session:
    """A model that can be run; Q and DQ round where they stand. ModelError: onnxruntime cannot run it; `name` begins the line.

    model: its bytes, so that a caller who needs nothing else has it only once in memory. brief: whether it runs few samples;
    then weights are not put in another order first, which takes longer than it saves and holds them twice. shared: weights that
    the model leaves to the caller.
    """

    def __init__(self, model: bytes, name: str, brief: bool = False, shared: Mapping[str, np.ndarray] | None = None) -> None:
        self._name, self._shared = name, dict(shared or {})  # onnxruntime reads the arrays where they are
        options = session_options(ort)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a thread that waits takes no processor time
        if brief:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.add_session_config_entry("session.disable_prepacking", "1")
            options.enable_cpu_mem_arena = False  # an arena keeps what it has once taken
            options.enable_mem_pattern = False  # one block for all that is in memory during a run
            options.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # weights become real just before they are read
        if shared:
            options.add_external_initializers([*shared], [ort.OrtValue.ortvalue_from_numpy(value) for value in shared.values()])
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except onnxruntime_errors() as error:
            raise self._refused(error) from None
        self.outputs = [value.name for value in self._session.get_outputs()]

    @classmethod
    def of(cls, graph: Graph, shown: Sequence[str] = (), brief: bool = False) -> "Session":
        """A float graph, whose great weights are in memory once, in the graph. shown: tensors to answer beside its outputs."""
        shared: dict[str, np.ndarray] = {}
        model = to_model(graph, [name for name in shown if name not in graph.outputs], shared)
        return cls(model.SerializeToString(), graph.name, brief, shared)

    @classmethod
    def as_it_is(cls, model: ModelProto, name: str) -> "Session":
        """A model of a user's, for few samples, whose great weights are in memory twice, and not three times."""
        copy, shared = without_weights(model)
        return cls(copy.SerializeToString(), name, True, shared)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name, in the model's order. ModelError: as of the class."""
        try:
            answers: list[np.ndarray] = self._session.run(None, dict(feeds))
        except onnxruntime_errors() as error:
            raise self._refused(error) from None
        return dict(zip(self.outputs, answers, strict=True))

    def _refused(self, error: Exception) -> ModelError:
        reason = reason_of(error)[:200]
        remedy = "; export it as operators of ONNX, or cut the model there" if UNKNOWN in reason else ""
        return ModelError(f"{self._name}: onnxruntime cannot run it: {reason}{remedy}")


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
