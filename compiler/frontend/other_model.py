"""Runs any ONNX model in onnxruntime, as its user would, and shows those tensors inside it that a caller asks for.

It shares nothing with the import except the reading of the file, so that it can show where an import went wrong.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

from cnna.compiler.frontend.scaled_channels import stored
from cnna.spec.cpu_ops import onnxruntime_errors, session_options
from cnna.spec.errors import DataError, ModelError, about_model, reason_of
from cnna.spec.names import differences

Arrays = dict[str, NDArray[Any]]
TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64", "tensor(bool)": "bool"}


class OtherModel:
    """A model, run one sample at a time. `wanted`: names of tensors to show; those that no node makes are left out.

    scaled: its tensors whose channels a quantiser has scaled. Such a one is shown too if its name before is wanted.

    If the model itself quantises a tensor, its value behind the DequantizeLinear is shown, since that is what all readers see.
    optimised: whether onnxruntime may rewrite the graph, as far as that changes no rounding. ModelError: onnxruntime cannot run the
    model; the message begins with `name`.
    """

    def __init__(self, model: ModelProto, name: str, wanted: Collection[str], optimised: bool = True) -> None:
        self.name, self._model = name, model
        with about_model(name):
            self.scaled = stored(model)
        wanted = {*wanted, *(tensor for tensor, one in self.scaled.items() if one.name in wanted)}
        copy = ModelProto()
        copy.CopyFrom(model)
        self.outputs = [value.name for value in copy.graph.output]
        rounded = _rounded(copy)
        made = dict.fromkeys(output for node in copy.graph.node for output in node.output)
        seen = {tensor: rounded.get(tensor, tensor) for tensor in made if tensor in wanted and tensor not in self.outputs}
        self._seen = {**{output: output for output in self.outputs}, **seen}  # by name: the tensor to ask onnxruntime for
        extra = dict.fromkeys(tensor for tensor in seen.values() if tensor not in self.outputs)
        copy.graph.output.extend(ValueInfoProto(name=tensor) for tensor in extra)
        options = session_options(ort)
        if not optimised:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = ort.InferenceSession(copy.SerializeToString(), options, ["CPUExecutionProvider"], enable_fallback=0)
        except onnxruntime_errors() as error:
            raise self._refused(error) from None

    def showing(self, wanted: Collection[str] | None = None) -> "OtherModel":
        """The same model with other tensors to show; None: all of them. ModelError: as of the class."""
        every = {output for node in self._model.graph.node for output in node.output if output}
        return OtherModel(self._model, self.name, every if wanted is None else wanted)

    def check_inputs(self, names: Collection[str]) -> None:
        """DataError: the inputs are others than these. The name of a single input does not matter."""
        own = [entry.name for entry in self._session.get_inputs()]
        if not len(own) == len(names) == 1 and (wrong := differences(own, names)):
            raise DataError(f"{self.name}: not the same model: the .cnna {wrong}")

    def run(self, sample: Mapping[str, NDArray[Any]]) -> Arrays:
        """The outputs and the tensors to show, for one sample, [1, ...] by input. ModelError: as of the class."""
        feeds, batch, asked = {}, 1, list(dict.fromkeys(self._seen.values()))
        for entry in self._session.get_inputs():
            x = sample[entry.name] if entry.name in sample else next(iter(sample.values()))
            first = entry.shape[0] if len(entry.shape) == x.ndim else None
            if len(entry.shape) == x.ndim - 1:  # the model's input has no batch
                x = np.asarray(x[0])  # an array even where the input is a single number
            elif isinstance(first, int) and first > 1:
                batch, x = first, np.repeat(x, first, axis=0)
            feeds[entry.name] = x.astype(TYPES.get(entry.type, entry.type[len("tensor(") : -1]), copy=False)
        try:
            made = dict(zip(asked, self._session.run(asked, feeds), strict=True))
        except onnxruntime_errors() as error:
            raise self._refused(error) from None
        arrays = {name: made[tensor] for name, tensor in self._seen.items() if isinstance(made[tensor], np.ndarray)}
        return arrays if batch == 1 else {n: y[:1] if y.ndim and len(y) == batch else y for n, y in arrays.items()}

    def _refused(self, error: Exception) -> ModelError:
        return ModelError(f"{self.name}: onnxruntime cannot run it: {reason_of(error)[:200]}")


def _rounded(model: ModelProto) -> dict[str, str]:
    """For each tensor that a QuantizeLinear reads, the name of its value behind the DequantizeLinear."""
    back = {node.input[0]: node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    return {
        node.input[0]: back[node.output[0]]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and node.output[0] in back
    }
