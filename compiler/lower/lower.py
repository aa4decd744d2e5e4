"""Turns the int8 graph into kernels: which engine runs each node, with which parameters, on which part of which map.

`OPERATORS` is the table of what runs where; `array`, `vector` and `bilinear` make the kernels. Limits that do not depend on memory
are checked here (ModelError).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from cnna.compiler.graph import ir
from cnna.compiler.lower.array import conv, select
from cnna.compiler.lower.bilinear import bilinear
from cnna.compiler.lower.context import Lowering
from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, Part, Phase, View, with_parts
from cnna.compiler.lower.vector import (
    affine,
    average_pool,
    channels,
    combine,
    copy,
    depthwise,
    max_pool,
    maximum,
    pixels,
    product,
    table,
)
from cnna.spec.config import Config
from cnna.spec.errors import ModelError
from cnna.spec.regmap import command_fields

Sides = tuple[int, int]


def lower(graph: ir.Graph, config: Config, batch: int = 1) -> Lowered:
    """The kernels of a graph, in the graph's order; each kernel computes all images of a batch.

    ModelError: a node exceeds the accelerator's limits; the message has node, limit and value.
    """
    lowering = Lowering(graph, config, batch)
    kernels: list[Kernel] = []
    without = _without_table(graph)
    for layer, node in enumerate(graph.nodes):
        if _is_mosaic(node):
            kernels = _mosaic(graph, kernels, node, layer)
            continue
        if type(node.op) not in OPERATORS:
            raise ModelError(f"{graph.name}: node '{node.name}' ({type(node.op).__name__}) does not run on the accelerator")
        made = OPERATORS[type(node.op)](lowering, _plain(node) if node.output in without else node, layer)
        for kernel in made:
            _check_limits(graph, kernel, lowering)
        kernels += made
    maps = {name: replace(map_, images=lowering.images, depth=config.depth) for name, map_ in lowering.storage.maps.items()}
    views, outputs = lowering.storage.views, []
    for name in graph.outputs:  # a graph output that is an input too is copied: ports never share a map
        output = name
        if name in graph.inputs:
            output = f"{name}:copy"
            if output not in maps:
                maps[output] = replace(maps[name], name=output)
                kernels.append(copy(lowering, name, View(output, 0, maps[name].blocks), len(graph.nodes) - 1, name))
        outputs.append(output)
    return Lowered(tuple(kernels), maps, views, graph.inputs, tuple(outputs))


def macs_of(graph: ir.Graph, node: ir.Node) -> int:
    """Multiply-accumulates of a node for one image, padding included: convolutions and fully connected layers; 0 for the rest."""
    if not isinstance(node.op, ir.Conv | ir.Depthwise):
        return 0
    weights = graph.constants[node.op.weights]
    _, height, width = graph.tensors[node.output].shape
    return int(weights.size) * height * width


def graph_macs(graph: ir.Graph) -> int:
    """Those of all nodes."""
    return sum(macs_of(graph, node) for node in graph.nodes)


def _concat(low: Lowering, node: ir.Node[ir.Concat], layer: int) -> list[Kernel]:
    """Copies of the inputs that could not be written in place and, off block boundaries, the selection of channels."""
    stack = low.storage.stacks.get(node.output)
    todo = low.storage.copies.get(node.output, ())
    whole = low.storage.views[node.output]
    kernels = []
    for tensor, view in todo:
        made = copy(low, tensor, view, layer, node.name)
        if stack is None:
            made = replace(made, tensor=node.output, tensor_block=view.block - whole.block)
        kernels.append(made)
    return kernels if stack is None else [*kernels, select(low, node, layer)]


def _is_mosaic(node: ir.AnyNode) -> TypeGuard[ir.Node[ir.Mosaic]]:
    return isinstance(node.op, ir.Mosaic)


def _in_order(mosaic: ir.Node[ir.Mosaic]) -> list[tuple[str, tuple[Sides, Sides]]]:
    """The inputs of a mosaic with their places, the one with the first row first: every tiling begins with it."""
    return sorted(zip(mosaic.inputs, mosaic.op.places, strict=True), key=lambda part: part[1][0])


def _without_table(graph: ir.Graph) -> set[str]:
    """The parts of mosaics whose stream has no table in front: all but the first, because a kernel loads its table once."""
    mosaics = [node for node in graph.nodes if _is_mosaic(node)]
    later = {name for mosaic in mosaics for name, _ in _in_order(mosaic)[1:]}
    return {node.output for node in graph.nodes if node.output in later and getattr(node.op, "table", None) is not None}


def _plain(node: ir.Node) -> ir.Node:
    return replace(node, op=replace(node.op, table=None))


def _mosaic(graph: ir.Graph, kernels: list[Kernel], node: ir.Node[ir.Mosaic], layer: int) -> list[Kernel]:
    """Joins the kernels of a mosaic's inputs into one kernel, of which they become phases. Its tiles then hold whole rows."""
    made = {kernel.tensor: kernel for kernel in kernels if kernel.tensor in node.inputs}
    inputs = _in_order(node)
    first = made[inputs[0][0]]
    parts: list[Part] = []
    for name, (start, step) in inputs:
        own, (_, height, width) = made[name], graph.tensors[name].shape
        same = (own.source, own.dest, own.second, own.pad, own.out) == (first.source, first.dest, None, first.pad, first.out)
        same = same and (own is first or not own.table)
        assert same, f"'{name}' cannot be part of '{node.output}'"
        phase = Phase(own.name, own.layer, name, own.window, start, step, (height, width))
        parts += [replace(part, phase=phase) for part in own.parts]
    joined = with_parts(replace(first, name=node.name, layer=layer, tensor=None), parts)
    return [*(kernel for kernel in kernels if kernel.tensor not in made), joined]


def _check_limits(graph: ir.Graph, kernel: Kernel, low: Lowering) -> None:
    """ModelError: a window, map or channel count does not fit the registers."""
    engine = "conv" if isinstance(kernel, ConvKernel) else "vector"
    fields = command_fields(engine)
    source, dest = low.storage.maps[kernel.source.map], kernel.dest
    window = kernel.window
    values = {
        "kernel_height": window.kernel[0],
        "kernel_width": window.kernel[1],
        "stride_y": window.stride[0],
        "stride_x": window.stride[1],
        "stride_dilation_y": window.dilation[0],
        "stride_dilation_x": window.dilation[1],
        "first_y": -max(window.pads[0], 0),
        "first_x": -max(window.pads[1], 0),
        "in_height": source.height,
        "in_width": source.width,
        "blocks": max((part.blocks for part in kernel.parts), default=1) if isinstance(kernel, ConvKernel) else dest.blocks,
    }
    if isinstance(kernel, ConvKernel):
        values["blocks"] = low.config.sets(values["blocks"])
        values["chunks"] = max(part.chunks for part in kernel.parts)
    for name, value in values.items():
        least, most = fields[name].limits
        if not least <= value <= most:
            what = f"{engine} {name.replace('_', ' ')} {value} is not within {least}..{most}"
            raise ModelError(f"{graph.name}: node '{kernel.name}': {what}; {_remedy(name, low.config)}")


def _remedy(field: str, config: Config) -> str:
    """What helps if a command's field cannot hold a layer's size."""
    if field in ("blocks", "chunks"):
        side, size = ("input", f"ci={config.ci}") if field == "blocks" else ("output", f"co={config.co}")
        return f"{config.name} has {size}: use a configuration with more, such as zcu102, or give the layer fewer {side} channels"
    return "make the layer smaller, or cut the model there and run it on the CPU"


OPERATORS: dict[type, Callable[[Lowering, ir.Node, int], list[Kernel]]] = {
    ir.Table: table,
    ir.Conv: conv,
    ir.Depthwise: depthwise,
    ir.MaxPool: max_pool,
    ir.AveragePool: average_pool,
    ir.Bilinear: bilinear,
    ir.Combine: combine,
    ir.Affine: affine,
    ir.Concat: _concat,
    ir.Product: product,
    ir.Maximum: maximum,
    ir.Minimum: maximum,
    ir.Pixels: pixels,
    ir.Channels: channels,
}
