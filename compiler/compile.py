"""The compiler's entry points: an int8 graph to a register program, and a quantised ONNX model to an artifact."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from cnna.compiler.cost import cost
from cnna.compiler.frontend.cpu_trial import try_part
from cnna.compiler.frontend.preprocess import stored
from cnna.compiler.frontend.quantised_import import QuantisedModel, import_quantised
from cnna.compiler.graph import ir
from cnna.compiler.graph.dump import GraphWriter, describe_program
from cnna.compiler.lower.kernels import ConvKernel, Lowered
from cnna.compiler.lower.lower import lower, macs_of
from cnna.compiler.passes.pipeline import Dump
from cnna.compiler.plan.allocate import Allocation, activation_bytes
from cnna.compiler.plan.command import Command
from cnna.compiler.plan.fold import Fold, fold_inputs
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import plan
from cnna.compiler.predict.prediction import Prediction, predict
from cnna.spec.artifact import Artifact
from cnna.spec.config import Config, as_dict
from cnna.spec.errors import ModelError
from cnna.spec.planned import PLANNED, DdrSpeed
from cnna.spec.regmap import VERSION, command_fields

SMALL_CONSTANT = 64  # elements: shapes, the k of a top-k
MAX_BATCH = command_fields("conv")["images"].limits[1]


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled int8 graph; the fields are those of docs/artifact.md. `inputs`, `outputs`: ports in the graph's order.

    What is predicted is not in `layers` and `commands`: it takes time, and not everybody asks for it.
    """

    graph: ir.Graph
    config: Config
    batch: int
    program: bytes
    constants: bytes
    segments: Mapping[str, int]
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    layers: tuple[dict[str, Any], ...]
    tensors: Mapping[str, dict[str, Any]]
    commands: tuple[dict[str, Any], ...]
    activations: Mapping[str, int]

    @property
    def macs(self) -> int:
        """Of one image."""
        return sum(layer["macs"] for layer in self.layers) // self.batch

    def predicted(self, memory: DdrSpeed = PLANNED) -> Prediction:
        """What the program takes with that DDR behind it."""
        return predict(self.program, self.config, self.commands, len(self.layers), memory)

    def manifest(self) -> dict[str, Any]:
        """The manifest's entries that the accelerator's part gives; those of the model around it are set as if there were none."""
        found = self.predicted()
        return {
            "isa": list(VERSION),
            "config": as_dict(self.config),
            "name": self.graph.name,
            "batch": self.batch,
            "program_writes": len(self.program) // 8,
            "segments": dict(self.segments),
            "activation_bytes": dict(self.activations),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "macs": self.macs,
            "predicted": found.total(),
            "layers": [{**e, "predicted_cycles": clocks} for e, clocks in zip(self.layers, found.layers, strict=True)],
            "tensors": dict(self.tensors),
            "commands": [
                {**e, "predicted": [bar.begin, bar.end, *bar.held]} for e, bar in zip(self.commands, found.bars, strict=True)
            ],
        }


def compile_graph(graph: ir.Graph, config: Config, batch: int = 1, dump: Dump | None = None) -> Program:
    """Compiles an int8 graph for `batch` images a run. `dump` gets the graph with its inputs folded.

    ModelError: it does not fit; names node, limit and remedy.
    """
    if not 1 <= batch <= MAX_BATCH:
        raise ModelError(f"{graph.name}: a batch of {batch} is not within 1..{MAX_BATCH}")
    folded, folds = fold_inputs(graph, config)
    if dump:
        dump("fold_inputs", folded)
    made = plan(set_pitches(lower(folded, config, batch), config), config, graph.name)
    lowered, allocation, commands = made.lowered, made.allocation, made.commands
    tensors = _tensors(graph, lowered)
    return Program(
        graph,
        config,
        batch,
        made.program,
        made.constants,
        {"constant": len(made.constants), **allocation.segments},
        tuple(_port(graph, name, name, lowered, allocation, folds.get(name)) for name in graph.inputs),
        tuple(_port(graph, *names, lowered, allocation) for names in zip(graph.outputs, lowered.outputs, strict=True)),
        _layers(graph, lowered, commands, config, batch),
        tensors,
        tuple(_command(command, tensors) for command in commands),
        activation_bytes(lowered, config),
    )


def _port(
    graph: ir.Graph, tensor: str, map_: str, lowered: Lowered, allocation: Allocation, fold: Fold | None = None
) -> dict[str, Any]:
    """How the host finds a tensor in its segment, and how an input is folded."""
    place, quant = allocation.ddr[map_], graph.tensors[tensor].quant
    assert quant is not None, f"'{tensor}' has no quantisation"
    return {
        "name": tensor,
        "tensor": tensor,
        "shape": list(graph.tensors[tensor].shape),
        "scale": quant.scale,
        "zero": quant.zero,
        "segment": place.segment,
        "offset": place.offset,
        "image_bytes": place.image_bytes,
        "block_bytes": place.block_bytes,
        "row_bytes": place.row_bytes,
        "fold": fold.port() if fold else None,
    }


def _tensors(graph: ir.Graph, lowered: Lowered) -> dict[str, dict[str, Any]]:
    """Every tensor that a kernel writes, and the inputs that loads write."""
    written = {kernel.tensor for kernel in lowered.kernels} | set(graph.inputs)
    found = {}
    for name, tensor in graph.tensors.items():
        if name in written and tensor.quant:
            found[name] = {"shape": list(tensor.shape), "scale": tensor.quant.scale, "zero": tensor.quant.zero}
    return found


def _command(command: Command, tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "engine": command.engine,
        "layer": command.layer,
        "tensor": command.tensor if command.tensor in tensors else None,  # a concatenation that its parts were written into
        "origin": list(command.origin),
    }


def _layers(
    graph: ir.Graph, lowered: Lowered, commands: Sequence[Command], config: Config, batch: int
) -> tuple[dict[str, Any], ...]:
    """One entry a node of the graph."""
    engines = {kernel.layer: "conv" if isinstance(kernel, ConvKernel) else "vector" for kernel in lowered.kernels}
    layers = []
    for number, node in enumerate(graph.nodes):
        engine, own = engines.get(number, "none"), [c for c in commands if c.layer == number]
        moved = [(c.engine == "store", cost.ddr_bytes(c.engine, c.fields, config)) for c in own]
        layers.append(
            {
                "name": node.name,
                "op": type(node.op).__name__,
                "engine": engine,
                "output": node.output,
                "macs": macs_of(graph, node) * batch,
                "node_names": [node.name],
                "ddr_read_bytes": sum(size for written, size in moved if not written),
                "ddr_write_bytes": sum(size for written, size in moved if written),
            }
        )
    return tuple(layers)


def compile_model(
    model: ModelProto,
    config: Config,
    batch: int = 1,
    dump: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Artifact:
    """Compiles a quantised ONNX model. dump: a folder for the graph after each pass; progress: called with each step's name.

    ModelError: the model is not quantised, or has a node or size that does not run, be it on the CPU.
    """
    say = progress or (lambda step: None)
    writer = GraphWriter(Path(dump)) if dump is not None else None
    say("import")
    parts = import_quantised(model, writer)
    say("compile")
    program = compile_graph(parts.graph, config, batch, writer)
    if writer:
        writer.text("program", describe_program(program.commands, program.program))
    preprocess = stored(model)
    ends = {name: _operators(part) for name, part in (("head", parts.head), ("tail", parts.tail))}
    for name, part in (("head", parts.head), ("tail", parts.tail)):
        if part is not None:
            try_part(part, ends[name])
    manifest = {
        **program.manifest(),
        "version": version("cnna"),
        "model_inputs": _inputs(model),
        "model_outputs": _outputs(model, parts),
        "cpu_head": ends["head"],
        "cpu_tail": ends["tail"],
        "preprocess": {**asdict(preprocess), "mean": list(preprocess.mean), "std": list(preprocess.std)} if preprocess else None,
    }
    head, tail = (part.SerializeToString(deterministic=True) if part else None for part in (parts.head, parts.tail))
    return Artifact(manifest, program.program, program.constants, model.SerializeToString(deterministic=True), head, tail)


def _inputs(model: ModelProto) -> list[dict[str, Any]]:
    """Name, shape without the batch axis (None where it is not fixed) and numpy type of the inputs that a user gives."""
    weights = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in weights]
    return [{"name": value.name, "shape": _dims(value)[1:], "dtype": _dtype(value)} for value in values]


def _outputs(model: ModelProto, parts: QuantisedModel) -> list[dict[str, Any]]:
    """Name, shape of the answer to one sample (None where it depends on the data), numpy type and batch axis of the outputs.

    Where ONNX cannot infer a shape, the model's own word is taken, if its sizes but for the batch are fixed.
    """
    found = []
    batches = {dims[0].dim_param for value in model.graph.input if (dims := value.type.tensor_type.shape.dim)} - {""}
    for value in model.graph.output:
        shape: list[int | None] | None = [size or None for size in parts.shapes[value.name]]
        axis, declared = parts.axes[value.name], _dims(value)
        names = [dim.dim_param in batches for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape") and (not shape or None in shape):
            told = [1 if batch else size for size, batch in zip(declared, names, strict=True)]
            shape = told if not shape or None not in told else shape
            axis = names.index(True) if axis is None and sum(names) == 1 else axis
        elif not shape:
            shape = None
        fixed = shape is not None and None not in shape
        entry = {"name": value.name, "shape": shape, "dtype": _dtype(value), "batch_axis": axis if fixed else None}
        found.append(entry)
    names = [entry["name"] for entry in found]
    for entry in found:
        numbered = re.compile(re.escape(entry["name"]) + r"\.\d+")
        if (entry["shape"] is None or None in entry["shape"]) and (taken := next(filter(numbered.fullmatch, names), None)):
            remedy = "rename one of them"
            raise ModelError(
                f"output '{entry['name']}' of several samples would be called '{taken}', as another output is; {remedy}"
            )
    return found


def _dims(value: ValueInfoProto) -> list[int | None]:
    """The sizes that a model says, None where it says none."""
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]


def _dtype(value: ValueInfoProto) -> str:
    return str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _operators(part: ModelProto | None) -> list[dict[str, Any]]:
    """The operators of a CPU part; attributes that are no numbers or words, and large constants, are left to the ONNX file."""
    operators = []
    small = {t.name: numpy_helper.to_array(t) for t in (part.graph.initializer if part else ()) if prod(t.dims) <= SMALL_CONSTANT}
    for node in part.graph.node if part else ():
        plain = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = {key: value.decode() if isinstance(value, bytes) else value for key, value in plain.items()}
        attributes = {key: value for key, value in plain.items() if isinstance(value, int | float | str)}
        lists = {key: list(value) for key, value in plain.items() if isinstance(value, list | tuple) and _numbers(value)}
        operators.append(
            {
                "name": node.name,
                "op": node.op_type,
                "inputs": list(node.input),
                "outputs": list(node.output),
                "attributes": {**attributes, **lists},
                "constants": {n: {"dtype": str(small[n].dtype), "values": small[n].tolist()} for n in node.input if n in small},
            }
        )
    return operators


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)
