"""Cuts a float graph into head (CPU), body (accelerator) and tail (CPU)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cnna.compiler.frontend import support
from cnna.compiler.frontend.node_names import kind_in
from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import VIEWS, Conv, Transpose
from cnna.compiler.graph.ir import Graph, Node
from cnna.spec.errors import ModelError


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
    between = [node for node in graph.nodes if reasons[node.output] and node.output in after and node.output in before]
    if between:
        node = min(between, key=lambda node: _innocence(node, graph))
        raise ModelError(support.refusal(node, reasons[node.output] or "", graph))
    head: set[str] = set()
    tail: set[str] = set()
    for node in graph.nodes:
        reason = reasons[node.output]
        if reason is None:
            continue
        (tail if node.output in after else head).add(node.output)
    head = _before(graph, head)
    tail = _behind(graph, tail) - head
    body = {node.output for node in graph.nodes} - head - tail
    return Parts(_part(graph, head, "head"), _body(graph, body), _part(graph, tail, "tail"))


def _innocence(node: Node, graph: Graph) -> int:
    """The less, the more likely it is that a refused node is the cause: a view may be there only for what stands beside it."""
    if not isinstance(node.op, VIEWS):
        return 0
    if kind_in(node, graph) in support.VIEW_KINDS:
        return 2  # the model's own
    return 1 if isinstance(node.op, Transpose) else 3  # around a constant along another axis; around what has more or fewer axes


def _first_refusal(graph: Graph, reasons: dict[str, str | None]) -> str:
    refused = sorted((n for n in graph.nodes if reasons[n.output]), key=lambda n: kind_in(n, graph) not in support.RUNS)
    return support.refusal(refused[0], reasons[refused[0].output] or "", graph) if refused else "it has no operators"


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
