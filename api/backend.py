"""cnna behind ONNX's own interface for backends (`onnx.backend.base`): `prepare`, `run_model`, `run_node`, `supports_device`.

    import cnna.backend as backend
    answers = backend.prepare(model).run([x])

Inputs that an operator takes as parameters (weights, axes, sizes, limits) become constants when the model first runs; other values
compile it again. A float model is then quantised with those inputs as calibration. A model that is quantised already, or that reads
integers alone, stays as it is. Then it is compiled for a configuration and run on an execution of `cnna.host.model`. A model that
does not run raises the UserError that `cnna quantize`, `compile` or `run` would show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.model_ports import model_inputs
from cnna.compiler.frontend.onnx_import import read
from cnna.compiler.frontend.onnx_model.input_shapes import inputs_of, sizes_of
from cnna.compiler.frontend.source_model import Readable
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.host.samples.rows import shared
from cnna.spec.artifact import Artifact, CpuPiece
from cnna.spec.config import PRESETS
from cnna.spec.errors import DataError

FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
ROUNDING = ("QuantizeLinear", "DequantizeLinear")
INTEGER_OPERATORS = (*ROUNDING, "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")
# The newest opset that has been released.
NEWEST = max(version for domain, version in helper.OP_SET_ID_VERSION_MAP if domain == "ai.onnx")
Inputs = Mapping[str, Any] | Sequence[Any]


def runs_as_it_is(model: ModelProto) -> bool:
    """Whether a model has nothing to quantise: it computes with integers, or no input is a float."""
    kinds = {node.op_type for node in model.graph.node}
    types = {value.type.tensor_type.elem_type for value in inputs_of(model)}
    return not types & FLOATS or any(kind in INTEGER_OPERATORS or kind.startswith("QLinear") for kind in kinds)


@dataclass(frozen=True)
class Placement:
    """Where the operators of a compiled model run. `layers`: the accelerator's.

    `macs`, `cpu_macs`: multiply-accumulates of one image on the accelerator and on the CPU. `cpu`: the CPU's operators, without
    those that only round.
    """

    layers: int
    macs: int
    cpu_macs: int
    cpu: tuple[str, ...]

    @property
    def accelerated(self) -> bool:
        """Whether the accelerator computes anything at all."""
        return self.layers > 0


def placement_of(artifact: Artifact) -> Placement:
    """The placement in an artifact's manifest. A layer without an engine only orders what others read."""
    layers = [layer for piece in artifact.programs for layer in piece.manifest["layers"] if layer["engine"] != "none"]
    cpu = [piece.manifest for piece in artifact.pieces if isinstance(piece, CpuPiece)]
    operators = tuple(operator["op"] for entry in cpu for operator in entry["operators"] if operator["op"] not in ROUNDING)
    return Placement(len(layers), artifact.manifest["macs"], artifact.manifest["cpu_macs"], operators)


_BEHIND_THE_FIRST = frozenset(range(1, 9))
PARAMETERS: dict[str, frozenset[int]] = dict.fromkeys(  # operator: the operands that an accelerator must know beforehand
    (
        *("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "InstanceNormalization", "LayerNormalization", "PRelu"),
        *("Resize", "Upsample", "Clip", "Pad", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Expand", "Tile", "TopK"),
        *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "Dropout"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    ),
    _BEHIND_THE_FIRST,
) | {"QLinearMatMul": _BEHIND_THE_FIRST - {3}}


def parameters_of(model: ModelProto) -> list[str]:
    """The inputs of a model from which only parameters are made; never its first input, which is the data."""
    names = [value.name for value in inputs_of(model)]
    data = set(names[:1])
    for node in model.graph.node:
        taken = PARAMETERS.get(node.op_type, frozenset()) if not node.domain else frozenset()
        data |= {name for place, name in enumerate(node.input) if place not in taken}
    return [name for name in names if name not in data]


def _with_constants(model: ModelProto, values: Mapping[str, Any]) -> ModelProto:
    """The model with some inputs turned into initialisers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    kept = [value for value in copy.graph.input if value.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in values.items())
    return copy


class Prepared(BackendRep):
    """A model that is compiled when it first runs. `config`: a preset's name; `execution`: as `device` of `Model`."""

    def __init__(self, model: ModelProto, config: str = "tiny", execution: str = "emulator") -> None:
        if config not in PRESETS:
            raise DataError(f"there is no configuration '{config}'; there are {', '.join(PRESETS)}")
        self.source = self.model = read(model, model.graph.name or "the model")
        self.config, self.execution = PRESETS[config], execution
        self.names = [entry["name"] for entry in model_inputs(self.model)]
        self.constants: dict[str, NDArray[Any]] = {}
        self.artifact: Artifact | None = None

    def compiled(self, inputs: Mapping[str, Any]) -> tuple[Artifact, dict[str, Any]]:
        """The artifact, compiled now if these parameters are new, and the inputs that it takes."""
        constants = {name: np.asarray(inputs[name]) for name in parameters_of(self.source.proto) if inputs.get(name) is not None}
        data = {name: value for name, value in inputs.items() if name not in constants}
        if self.artifact is None or not _same(constants, self.constants):
            name = self.source.proto.graph.name or "the model"
            self.model, self.constants = read(_with_constants(self.source.proto, constants), name), constants
            as_it_is = runs_as_it_is(self.model.proto)
            model: Readable = self.model if as_it_is else quantise(self.model, self._batches(data))[0]
            self.artifact = compile_model(model, self.config)
        return self.artifact, self._batches(data)

    def _batches(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs; those without a batch in the model get one."""
        shapes = {entry["name"]: entry["shape"] for entry in model_inputs(self.model)}  # without the batch
        if set(inputs) != set(shapes):
            return dict(inputs)  # the model refuses them
        found = shared({name: np.asarray(x) for name, x in inputs.items()}, shapes)
        return {name: x[None] if x.ndim == len(shapes[name]) else x for name, x in found.items()}

    def run(self, inputs: Inputs, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the model's order. `inputs`: in the model's order, or by name."""
        artifact, given = self.compiled(self.named(inputs))
        with Model(artifact, self.execution, **kwargs) as model:
            answers = model.run(given)
        kinds = [value.type.tensor_type.elem_type or TensorProto.FLOAT for value in self.model.proto.graph.output]
        samples = len(next(iter(given.values()), ()))
        found = [_answer(value, answers, samples) for value in self.model.proto.graph.output]
        return tuple(y.astype(helper.tensor_dtype_to_np_dtype(kind), copy=False) for y, kind in zip(found, kinds, strict=True))

    def named(self, inputs: Inputs) -> dict[str, Any]:
        """Inputs by name. DataError: there are too many or too few."""
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if not isinstance(inputs, Mapping) and len(values) != len(self.names):
            raise DataError(f"the model has the inputs {', '.join(self.names)}; {len(values)} arrays were given")
        return dict(inputs) if isinstance(inputs, Mapping) else dict(zip(self.names, values, strict=True))

    @property
    def placement(self) -> Placement:
        """Where the model's operators run. DataError: it has not run yet, so nothing has been compiled."""
        if self.artifact is None:
            raise DataError("the model is compiled when it first runs, and it has not run yet")
        return placement_of(self.artifact)


class CnnaBackend(Backend):
    """The interface as classmethods; the functions of this module are the same ones. Keywords are those of `Prepared`."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """A model that can be run. ModelError: the model is unsound."""
        return Prepared(model, **kwargs)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Inputs, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The model's answers to one set of inputs."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Sequence[NDArray[Any]],
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The answers of a model of this single node. The keyword `opset_version` names another opset than the newest."""
        version = kwargs.pop("opset_version", NEWEST)
        return cls.run_model(_model_of(node, inputs, outputs_info, version), inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU alone: the accelerator is simulated on it."""
        return device.partition(":")[0] == "CPU"


def _answer(output: ValueInfoProto, answers: Mapping[str, NDArray[Any]], samples: int) -> NDArray[Any]:
    """The answer to all samples. DataError: each sample has an answer of a size of its own.

    An artifact says nothing of a size of 0, so answers without elements come one by one; the model says how long they are together.
    """
    if output.name in answers:
        return answers[output.name]
    sizes = sizes_of(output)
    if 0 in sizes and None not in sizes and not any(answers[f"{output.name}.{number}"].size for number in range(samples)):
        return np.zeros([size or 0 for size in sizes], np.float32)
    raise DataError(f"output '{output.name}' has a size of its own for each of the {samples} samples; give one at a time")


def _same(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(value, other[name]) for name, value in one.items())


def _model_of(
    node: NodeProto, inputs: Sequence[NDArray[Any]], outputs: Sequence[tuple[Any, tuple[int, ...]]] | None, opset: int
) -> ModelProto:
    """A model of one node. Unknown types and shapes of its outputs are inferred when the model is loaded."""
    names = [name for name in dict.fromkeys(node.input) if name]
    values = [helper.make_tensor_value_info(n, _type_of(x.dtype), x.shape) for n, x in zip(names, inputs, strict=True)]
    made = [name for name in node.output if name]
    answers = [helper.make_empty_tensor_value_info(name) for name in made]
    if outputs is not None:
        answers = [helper.make_tensor_value_info(n, _type_of(t), shape) for n, (t, shape) in zip(made, outputs, strict=True)]
    graph = helper.make_graph([node], node.op_type, values, answers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _type_of(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


prepare, run_model, run_node = CnnaBackend.prepare, CnnaBackend.run_model, CnnaBackend.run_node
supports_device, is_compatible = CnnaBackend.supports_device, CnnaBackend.is_compatible
