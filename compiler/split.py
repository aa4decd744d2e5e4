"""Cuts a float graph into head (CPU), body (accelerator) and tail (CPU)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cnna.compiler import support
from cnna.compiler.editor import Editor, outputs_of
from cnna.compiler.float_ops import Conv
from cnna.compiler.ir import Graph, Node
from cnna.host.errors import ModelError


@dataclass(frozen=True)
class Parts:
    """`body` reads graph inputs and outputs of `head`; `tail` reads any of the three. None: no such part."""

    head: Graph | None
    body: Graph
    tail: Graph | None


def split(graph: Graph, limit: Callable[[Node, Graph], str | None]) -> Parts:
    """What `limit` refuses goes to the head or the tail with all before or behind it.

    A refused node has layers of the accelerator before and behind it: ModelError that names it, why, and what would help.
    """
    reasons = {node.output: limit(node, graph) for node in graph.nodes}
    runs = [node for node in graph.nodes if reasons[node.output] is None]
    anchors = {node.output for node in runs if isinstance(node.op, Conv)} or {node.output for node in runs}
    if not anchors:
        raise ModelError(f"{graph.name}: nothing in it runs on the accelerator; {_first_refusal(graph, reasons)}")
    after, before = _behind(graph, anchors), _before(graph, anchors)
    head: set[str] = set()
    tail: set[str] = set()
    for node in graph.nodes:
        reason = reasons[node.output]
        if reason is None:
            continue
        if node.output in after and node.output in before:
            raise ModelError(support.refusal(node, reason))
        (tail if node.output in after else head).add(node.output)
    head = _before(graph, head)
    tail = _behind(graph, tail) - head
    body = {node.output for node in graph.nodes} - head - tail
    return Parts(_part(graph, head, "head"), _body(graph, body), _part(graph, tail, "tail"))


def _first_refusal(graph: Graph, reasons: dict[str, str | None]) -> str:
    for node in graph.nodes:
        if reason := reasons[node.output]:
            return support.refusal(node, reason)
    return "it has no operators"


def _behind(graph: Graph, start: set[str]) -> set[str]:
    """`start` and all nodes that depend on it."""
    made_by = {name: node.output for node in graph.nodes for name in outputs_of(node)}
    reached = set(start)
    for node in graph.nodes:
        if any(made_by.get(name) in reached for name in node.inputs):
            reached.add(node.output)
    return reached


def _before(graph: Graph, start: set[str]) -> set[str]:
    """`start` and all nodes that it depends on."""
    made_by = {name: node.output for node in graph.nodes for name in outputs_of(node)}
    reached = set(start)
    for node in reversed(graph.nodes):
        if node.output in reached:
            reached.update(made_by[name] for name in node.inputs if name in made_by)
    return reached


def _part(graph: Graph, chosen: set[str], suffix: str) -> Graph | None:
    """The subgraph of `chosen` nodes: its inputs are what it reads, its outputs what others read of it."""
    nodes = tuple(node for node in graph.nodes if node.output in chosen)
    if not nodes:
        return None
    made = [name for node in nodes for name in outputs_of(node)]
    others = {name for node in graph.nodes if node.output not in chosen for name in node.inputs}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name in graph.tensors and name not in made)
    outputs = tuple(name for name in made if name in others or name in graph.outputs)
    part = replace(graph, name=f"{graph.name}-{suffix}", inputs=tuple(read), outputs=outputs, nodes=nodes)
    return Editor(part).finish()


def _body(graph: Graph, chosen: set[str]) -> Graph:
    part = _part(graph, chosen, "body")
    if part is None:
        raise ModelError(f"{graph.name}: nothing is left for the accelerator between its CPU parts")
    return replace(part, name=graph.name)
