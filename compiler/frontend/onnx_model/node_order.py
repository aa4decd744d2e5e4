"""Puts nodes into an order in which each comes behind what it reads: ONNX asks for one, onnxruntime and other writers do not."""

import heapq
from collections.abc import Sequence

from onnx import GraphProto, NodeProto

from cnna.compiler.frontend.onnx_model.subgraphs import captured, graphs_of
from cnna.compiler.graph.node_names import place_of
from cnna.spec.errors import ModelError


def sort_nodes(graph: GraphProto) -> None:
    """Sorts a graph and the graphs inside its nodes, in place; nodes that are in order stay. ModelError: a cycle."""
    for node in graph.node:
        for inner in graphs_of(node):
            sort_nodes(inner)
    nodes = list(graph.node)
    order = _order(nodes)
    if order != sorted(order):
        del graph.node[:]
        graph.node.extend(nodes[number] for number in order)


def _order(nodes: Sequence[NodeProto]) -> list[int]:
    """The nodes' numbers; of several that are ready, the least comes first."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in (*node.input, *captured(node)) if name in makers} for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for number, before in enumerate(needs):
        for other in before:
            after[other].append(number)
    waiting = [len(before) for before in needs]
    ready = [number for number, count in enumerate(waiting) if not count]
    order = []
    while ready:
        order.append(number := heapq.heappop(ready))
        for other in after[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, other)
    if len(order) < len(nodes):
        first = next(number for number, count in enumerate(waiting) if count)
        raise ModelError(
            f"{place_of(nodes[first])} reads what depends on its own output: the nodes form a cycle; export the model again"
        )
    return order
