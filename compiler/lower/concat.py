"""Decides where every tensor is stored: in a map of its own, or inside the map of the concatenation or mosaic that takes it.

A tensor that only one concatenation needs at a whole block is written there by its producer and never copied; chains of
concatenations (DenseNet) end in one map. `lower` makes kernels for what must be copied.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cnna.compiler.graph.ir import Channels, Concat, Graph, Mosaic, Node
from cnna.compiler.lower.kernels import Map, View


@dataclass(frozen=True)
class Storage:
    """Maps by name, the view of each tensor, and what each concatenation still needs.

    copies[output]: (tensor, view to copy it to). stacks[output]: the view in which all inputs of a concatenation that is not
    aligned to blocks lie side by side, each padded to whole blocks.
    """

    maps: Mapping[str, Map]
    views: Mapping[str, View]
    copies: Mapping[str, tuple[tuple[str, View], ...]]
    stacks: Mapping[str, View]


def blocks_of(graph: Graph, tensor: str, ci: int) -> int:
    """Channel blocks of a tensor."""
    return -(-graph.tensors[tensor].shape[0] // ci)


def store_tensors(graph: Graph, ci: int) -> Storage:
    """Storage of every tensor of the graph, with `ci` channels in a block."""
    parents: dict[str, tuple[str, int]] = {}  # tensor: the tensor or stack that it lies in, and from which block on
    copies: dict[str, list[tuple[str, str, int]]] = {}
    stacks: dict[str, int] = {}
    for node in reversed(graph.nodes):
        if isinstance(node.op, Concat):
            _place_inputs(graph, node, ci, parents, copies, stacks)
        elif isinstance(node.op, Mosaic):  # the kernels write between each other's pixels
            parents.update(dict.fromkeys(node.inputs, (node.output, 0)))
    for node in graph.nodes:
        if isinstance(node.op, Channels) and node.op.first % ci == 0 and node.output not in (*graph.outputs, *parents):
            parents[node.output] = (node.inputs[0], node.op.first // ci)
    views = {name: _resolve(parents, name, blocks_of(graph, name, ci)) for name in graph.tensors}
    maps = {}
    for name, view in views.items():
        if view.map == name:
            maps[name] = _map(graph, name, name, view.blocks)
    for output, blocks in stacks.items():
        maps[_stack(output)] = _map(graph, _stack(output), output, blocks)
    resolved = {}
    for output, todo in copies.items():
        views_in = [(tensor, _resolve(parents, into, blocks_of(graph, tensor, ci)), block) for tensor, into, block in todo]
        resolved[output] = tuple((tensor, replace(view, block=view.block + block)) for tensor, view, block in views_in)
    return Storage(maps, views, resolved, {output: View(_stack(output), 0, blocks) for output, blocks in stacks.items()})


def _map(graph: Graph, name: str, tensor: str, blocks: int) -> Map:
    """A map of the size of a tensor, rows without a gap."""
    _, height, width = graph.tensors[tensor].shape
    return Map(name, blocks, height, width, width)


def _stack(output: str) -> str:
    return f"{output}:inputs"


def _resolve(parents: Mapping[str, tuple[str, int]], name: str, blocks: int) -> View:
    block = 0
    while name in parents:
        name, step = parents[name]
        block += step
    return View(name, block, blocks)


def _place_inputs(
    graph: Graph,
    node: Node,
    ci: int,
    parents: dict[str, tuple[str, int]],
    copies: dict[str, list[tuple[str, str, int]]],
    stacks: dict[str, int],
) -> None:
    """Gives the inputs of one concatenation their parents, or notes the copies it needs."""
    channels = [graph.tensors[name].shape[0] for name in node.inputs]
    aligned = all(count % ci == 0 for count in channels[:-1])
    into = node.output if aligned else _stack(node.output)
    starts = [0]
    for name in node.inputs:
        starts.append(starts[-1] + blocks_of(graph, name, ci))
    if aligned and node.output not in (*graph.outputs, *parents) and (place := _already_there(parents, node.inputs, starts)):
        parents[node.output] = place
        return
    if not aligned:
        stacks[node.output] = starts[-1]
    copies[node.output] = []
    for name, start in zip(node.inputs, starts, strict=False):
        if name in graph.inputs or name in graph.outputs or name in parents:
            copies[node.output].append((name, into, start))
        else:
            parents[name] = (into, start)


def _already_there(parents: Mapping[str, tuple[str, int]], inputs: tuple[str, ...], starts: list[int]) -> tuple[str, int] | None:
    """Where the inputs already lie one after another in one map, if they do: its name and the first block."""
    views = [_resolve(parents, name, 0) for name in inputs]
    if any(name not in parents for name in inputs):
        return None
    first = views[0]
    together = all(v.map == first.map and v.block == first.block + s for v, s in zip(views, starts, strict=False))
    return (first.map, first.block) if together else None
