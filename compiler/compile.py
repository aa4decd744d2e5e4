"""The compiler's entry points: an int8 graph to a register program, and a quantised ONNX model to an artifact."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cnna.compiler.choose.choices import Choices as Choices
from cnna.compiler.choose.choices import ProgramChoices as ProgramChoices
from cnna.compiler.choose.choices import choices_of as choices_of
from cnna.compiler.choose.choose import Choose, fastest_plan
from cnna.compiler.cost import cost
from cnna.compiler.frontend.model_ports import model_inputs, model_outputs
from cnna.compiler.frontend.onnx_import import source_of
from cnna.compiler.frontend.pieces.cpu_parts import operators_of, try_part
from cnna.compiler.frontend.pieces.crossings import cheaper, cpu_seconds
from cnna.compiler.frontend.pieces.partition import Reasons, check_without_cpu
from cnna.compiler.frontend.pieces.refusals import check_cpu
from cnna.compiler.frontend.preprocess import stored
from cnna.compiler.frontend.quantised_import import ImportedPiece, import_quantised
from cnna.compiler.frontend.source_model import Readable
from cnna.compiler.graph import ir
from cnna.compiler.graph.dump import GraphWriter
from cnna.compiler.lower.kernels import ConvKernel, Lowered
from cnna.compiler.lower.lower import graph_macs, macs_of
from cnna.compiler.lower.weights import ConstantSegment
from cnna.compiler.passes.pipeline import Dump
from cnna.compiler.plan.allocate import Allocation, activation_bytes
from cnna.compiler.plan.command import PlannedCommand
from cnna.compiler.plan.emit import describe_program
from cnna.compiler.plan.fold import Fold
from cnna.compiler.predict.predict import Count, PredictedSpan, predicted_spans
from cnna.compiler.predict.timeline import Prediction, prediction
from cnna.compiler.prepared import Prepared, prepared
from cnna.spec.artifact import Artifact, ProgramPiece, artifact_of
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config, as_dict
from cnna.spec.cpu_ops import numpy_suffices, only_views
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.errors import ModelError
from cnna.spec.garbage import held_back
from cnna.spec.machine import MOST_BATCH
from cnna.spec.manifest import (
    ACCELERATOR,
    CPU,
    CommandEntry,
    CommonEntries,
    CpuEntry,
    LayerWork,
    ModelEntries,
    PieceEntry,
    Port,
    ProgramEntry,
    TensorEntry,
)
from cnna.spec.regmap import program_version


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled int8 graph; the fields are those of docs/artifact.md. `inputs`, `outputs`: ports in the graph's order.

    What is predicted is not in `layers` and `commands`: it takes time, and not everybody asks for it. spans: when each command
    works with the planned DDR, if that had to be predicted to choose the plan.
    """

    graph: ir.Graph
    config: Config
    batch: int
    program: bytes
    packed: ConstantSegment
    segments: Mapping[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    layers: tuple[LayerWork, ...]
    tensors: Mapping[str, TensorEntry]
    commands: tuple[CommandEntry, ...]
    activations: Mapping[str, int]
    spans: Sequence[PredictedSpan] | None = None

    @property
    def constants(self) -> bytes:
        """The constant segment. It is packed when somebody asks for it: those who only predict do not."""
        return self.packed.data

    @property
    def macs(self) -> int:
        """Of one image."""
        return sum(layer["macs"] for layer in self.layers) // self.batch

    @property
    def crossing(self) -> ProgramEntry:
        """Of the entry what the host's work follows from."""
        found: Any = {"kind": ACCELERATOR, "inputs": list(self.inputs), "outputs": list(self.outputs)}
        made: ProgramEntry = found
        return made

    def predicted(self, memory: DdrSpeed | None = None, count: Count | None = None) -> Prediction:
        """What the program takes with that DDR behind it; None: its board's. count: as of `predicted_spans`."""
        memory = memory or ddr_of(self.config)
        spans = self.spans if memory == PLANNED else None
        spans = spans or predicted_spans(self.program, self.config, memory, count)
        return prediction(spans, self.commands, len(self.layers), memory)

    def entry(self, count: Count | None = None, memory: DdrSpeed | None = None) -> ProgramEntry:
        """The entry of the piece in the manifest. count: as of `predicted_spans`; memory: as of `predicted`."""
        found = self.predicted(memory, count)
        return {
            "kind": ACCELERATOR,
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

    def piece(self) -> ProgramPiece:
        """It as a piece of a model."""
        common: CommonEntries = {
            "isa": [*program_version(self.config.codebook)],
            "config": as_dict(self.config),
            "name": self.graph.name,
            "batch": self.batch,
        }
        return ProgramPiece({**common, **self.entry()}, self.program, self.constants)


def check_batch(batch: int, name: str) -> None:
    """ModelError: no run of a program takes so many images."""
    if not 1 <= batch <= MOST_BATCH:
        raise ModelError(f"{name}: a batch of {batch} is not within 1..{MOST_BATCH}; run several batches")


@held_back()
def compile_graph(
    graph: ir.Graph,
    config: Config,
    batch: int = 1,
    dump: Dump | None = None,
    count: Count | None = None,
    choose: Choose = fastest_plan,
    choices: ProgramChoices | None = None,
    ready: Prepared | None = None,
) -> Program:
    """Compiles an int8 graph for `batch` images a run. `dump` gets the graph with its inputs folded; count: as of `fastest_plan`.

    choose: chooses the plan of the lowered kernels. choices: what of it is chosen already. ready: the graph, if it is prepared for
    this configuration and batch. ModelError: it does not fit; names node, limit and remedy.
    """
    check_batch(batch, graph.name)
    ready = ready or prepared(graph, config, batch)
    if dump:
        dump("fold_inputs", ready.folded)
    if choices is not None:
        choose = choices.chooser(graph.name, [node.name for node in ready.folded.nodes], graph_macs(graph))
    made, spans = choose(ready.lowered, config, graph.name, count)
    lowered, allocation, commands = made.lowered, made.allocation, made.commands
    tensors = written_tensors(graph, lowered)
    return Program(
        graph,
        config,
        batch,
        made.program,
        made.constants,
        {"constant": made.constants.size, **allocation.segments},
        tuple(_port(graph, name, name, lowered, allocation, ready.folds.get(name)) for name in graph.inputs),
        tuple(_port(graph, *names, lowered, allocation) for names in zip(graph.outputs, lowered.outputs, strict=True)),
        _layers(graph, lowered, commands, config, batch),
        tensors,
        tuple(_command(command, tensors) for command in commands),
        activation_bytes(lowered, config),
        spans,
    )


def _port(graph: ir.Graph, tensor: str, map_: str, lowered: Lowered, allocation: Allocation, fold: Fold | None = None) -> Port:
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


def written_tensors(graph: ir.Graph, lowered: Lowered) -> dict[str, TensorEntry]:
    """Every tensor that a kernel writes, and the inputs that loads write."""
    written = {kernel.tensor for kernel in lowered.kernels} | set(graph.inputs)
    found: dict[str, TensorEntry] = {}
    for name, tensor in graph.tensors.items():
        if name in written and tensor.quant:
            found[name] = {"shape": list(tensor.shape), "scale": tensor.quant.scale, "zero": tensor.quant.zero}
    return found


def _command(command: PlannedCommand, tensors: Mapping[str, TensorEntry]) -> CommandEntry:
    entry: CommandEntry = {
        "engine": command.engine,
        "layer": command.layer,
        "tensor": command.tensor if command.tensor in tensors else None,  # a concatenation that its parts were written into
        "origin": list(command.origin),
    }
    return entry if command.step == (1, 1) else {**entry, "step": list(command.step)}


def _layers(
    graph: ir.Graph, lowered: Lowered, commands: Sequence[PlannedCommand], config: Config, batch: int
) -> tuple[LayerWork, ...]:
    """One entry a node of the graph."""
    engines = {kernel.layer: "conv" if isinstance(kernel, ConvKernel) else "vector" for kernel in lowered.kernels}
    layers: list[LayerWork] = []
    for number, node in enumerate(graph.nodes):
        engine, own = engines.get(number, "none"), [c for c in commands if c.layer == number]
        moved = [(c.engine == "store", cost.ddr_bytes(c.engine, c.fields, config)) for c in own]
        layers.append(
            {
                "name": node.name,
                "op": type(node.op).__name__,
                "engine": engine,
                "inputs": list(node.inputs),
                "output": node.output,
                "macs": macs_of(graph, node) * batch,
                "node_names": [node.name],
                "ddr_read_bytes": sum(size for written, size in moved if not written),
                "ddr_write_bytes": sum(size for written, size in moved if written),
            }
        )
    return tuple(layers)


def compile_model(
    model: Readable,
    config: Config,
    batch: int = 1,
    dump: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    cpu: bool = True,
    count: Count | None = None,
    choices: Choices | None = None,
) -> Artifact:
    """Compiles a quantised ONNX model. dump: a folder for the graph after each pass; progress: called with each step's name.

    count: called with how many plans or commands of how many are done, and what is done with them.
    choices: of the plans; None leaves them to the compiler.
    cpu: whether nodes with multiplications, and nodes between layers of the accelerator, may run on the CPU. ModelError: they may
    not but there are some, the model is not quantised, or a node or size does not run, be it on the CPU.
    """
    source = source_of(model)
    check_batch(batch, source.proto.graph.name)
    say = progress or (lambda step: None)
    writer = GraphWriter(Path(dump)) if dump is not None else None
    say("import")
    found = import_quantised(source, writer, decide=cheaper(config) if cpu else _nothing_else)
    say("compile")
    made: list[tuple[PieceEntry, Sequence[bytes]]] = []
    if choices is not None:
        choices.check(sum(piece.cpu is None for piece in found.pieces))
    numbers = iter(range(len(found.pieces)))
    for piece in found.pieces:
        if piece.cpu is not None:
            made.append(cpu_piece(piece))
        else:
            own = None if choices is None else choices.of(next(numbers))
            made.append(program_piece(piece, config, batch, writer, count, own))
    preprocess = stored(source.proto)
    manifest: ModelEntries = {
        "version": version("cnna"),
        "isa": [*program_version(config.codebook)],
        "config": as_dict(config),
        "name": found.whole.name,
        "batch": batch,
        "model_inputs": model_inputs(source),
        "model_outputs": model_outputs(source.proto, found.shapes, found.axes),
        "preprocess": preprocess.entry() if preprocess else None,
        "macs": sum(entry["macs"] for entry, _ in made if entry["kind"] == ACCELERATOR),
        "cpu_macs": sum(entry["macs"] for entry, _ in made if entry["kind"] == CPU),
    }
    return artifact_of(manifest, made, source.proto.SerializeToString(deterministic=True))


def _nothing_else(graph: ir.Graph, reasons: Reasons) -> Reasons:
    """ModelError: the CPU would have to do more than a head and a tail without multiplications."""
    check_without_cpu(graph, reasons)
    return reasons


def program_piece(
    piece: ImportedPiece,
    config: Config,
    batch: int,
    writer: GraphWriter | None = None,
    count: Count | None = None,
    choices: ProgramChoices | None = None,
) -> tuple[PieceEntry, Sequence[bytes]]:
    """Entry and files of a piece on the accelerator. count: as of `compile_model`. ModelError: it does not fit."""
    assert piece.integer is not None
    program = compile_graph(piece.integer, config, batch, writer, count, choices=choices)
    if writer:
        writer.text("program", describe_program(program.commands, program.program))
    return {**program.entry(count), "nodes": piece.nodes}, (program.program, program.constants)


def cpu_piece(piece: ImportedPiece) -> tuple[PieceEntry, Sequence[bytes]]:
    """Entry and file of a piece on the CPU, tried once. ModelError: onnxruntime cannot run it."""
    assert piece.cpu is not None
    operators = operators_of(piece.cpu)
    try:
        try_part(piece.cpu, operators)
    except ModelError:
        check_cpu(piece.source)  # it names the node, if one alone is the cause
        raise
    numpy = numpy_suffices(operators, {value.name for value in piece.cpu.graph.input})
    entry: CpuEntry = {
        "kind": CPU,
        "operators": operators,
        "numpy": numpy,
        "macs": piece.float_macs,
        "seconds": cpu_seconds(piece.source, numpy and only_views(operators)),
    }
    return entry, (piece.cpu.SerializeToString(deterministic=True),)
