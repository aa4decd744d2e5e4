"""The compiler's entry points: an int8 graph to a register program, and a quantised ONNX model to an artifact."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnna.compiler import cost, ir
from cnna.compiler.allocate import Allocation, allocate
from cnna.compiler.emit import emit
from cnna.compiler.hazards import add_waits
from cnna.compiler.kernels import ConvKernel, Lowered
from cnna.compiler.lower import lower, macs_of
from cnna.compiler.schedule import Command, Context, schedule, stream_keys
from cnna.compiler.weights import constant_segment
from cnna.host.errors import ModelError
from cnna.hw.config import Config, as_dict
from cnna.hw.regmap import VERSION, command_fields

MAX_BATCH = command_fields("conv")["images"].limits[1]


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled int8 graph; the fields are those of docs/artifact.md. `inputs`, `outputs`: ports in the graph's order."""

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

    @property
    def macs(self) -> int:
        """Of one image."""
        return sum(layer["macs"] for layer in self.layers) // self.batch

    def manifest(self) -> dict[str, Any]:
        """The manifest's entries that the accelerator's part gives; those of the model around it are set as if there were none."""
        return {
            "isa": list(VERSION),
            "config": as_dict(self.config),
            "name": self.graph.name,
            "batch": self.batch,
            "program_writes": len(self.program) // 8,
            "segments": dict(self.segments),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "macs": self.macs,
            "layers": list(self.layers),
            "tensors": dict(self.tensors),
            "commands": list(self.commands),
        }


def compile_graph(graph: ir.Graph, config: Config, batch: int = 1) -> Program:
    """Compiles an int8 graph for `batch` images a run. ModelError: it does not fit; names node, limit and remedy."""
    if not 1 <= batch <= MAX_BATCH:
        raise ModelError(f"{graph.name}: a batch of {batch} is not within 1..{MAX_BATCH}")
    lowered = lower(graph, config)
    allocation = allocate(lowered, config, batch, graph.name)
    keys = stream_keys(lowered)
    constants, offsets = constant_segment([lowered.kernels[kernel].parts[part].stream for kernel, part in keys])
    plain = schedule(Context(lowered, allocation, dict(zip(keys, offsets, strict=True)), config, batch))
    commands = add_waits(plain, allocation.segments, config)
    return Program(
        graph,
        config,
        batch,
        emit(commands),
        constants,
        {"constant": len(constants), **allocation.segments},
        tuple(_port(graph, name, name, lowered, allocation) for name in graph.inputs),
        tuple(_port(graph, *names, lowered, allocation) for names in zip(graph.outputs, lowered.outputs, strict=True)),
        _layers(graph, lowered, commands, config, batch),
        _tensors(graph, lowered),
        tuple(_command(command, config) for command in commands),
    )


def _port(graph: ir.Graph, tensor: str, map_: str, lowered: Lowered, allocation: Allocation) -> dict[str, Any]:
    """How the host finds a tensor in its segment."""
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
    }


def _tensors(graph: ir.Graph, lowered: Lowered) -> dict[str, dict[str, Any]]:
    """Every tensor that a kernel writes, and the inputs that loads write."""
    written = {kernel.tensor for kernel in lowered.kernels} | set(graph.inputs)
    found = {}
    for name, tensor in graph.tensors.items():
        if name in written and tensor.quant:
            found[name] = {"shape": list(tensor.shape), "scale": tensor.quant.scale, "zero": tensor.quant.zero}
    return found


def _command(command: Command, config: Config) -> dict[str, Any]:
    return {
        "engine": command.engine,
        "layer": command.layer,
        "tensor": command.tensor,
        "origin": list(command.origin),
        "predicted_cycles": cost.predicted_cycles(command.engine, command.fields, config),
    }


def _layers(
    graph: ir.Graph, lowered: Lowered, commands: Sequence[Command], config: Config, batch: int
) -> tuple[dict[str, Any], ...]:
    """One entry a node of the graph; predicted cycles are those of the engine that computes it."""
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
                "predicted_cycles": sum(cost.predicted_cycles(engine, c.fields, config) for c in own if c.engine == engine),
                "ddr_read_bytes": sum(size for written, size in moved if not written),
                "ddr_write_bytes": sum(size for written, size in moved if written),
            }
        )
    return tuple(layers)
