"""Cuts a float graph into pieces, in the order in which they run: each runs on the accelerator or on the CPU.

`placed` says for each node on which side it runs and why; `cut` makes the pieces. docs/pieces.md explains both.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cnna.compiler.frontend.pieces import support
from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import VIEWS, Conv, Transpose, float_macs
from cnna.compiler.graph.ir import AnyNode, Graph, Node
from cnna.compiler.graph.node_names import kind_in
from cnna.spec.errors import ModelError
from cnna.spec.manifest import ACCELERATOR, CPU

Limit = Callable[[Node, Graph], str | None]
Reasons = Mapping[str, str | None]  # by a node's output: why it runs on the CPU; None: it runs on the accelerator

ISLAND = "no convolution on the accelerator is joined to it, so the way there and back costs more than it gains"


@dataclass(frozen=True)
class Piece:
    """A part of a float graph that runs on one side. kind: ACCELERATOR or CPU."""

    kind: str
    graph: Graph


def placed(graph: Graph, limit: Limit) -> dict[str, str | None]:
    """Why each node runs on the CPU: `limit` gives the reason, or it lies on an island without a convolution. None: it does not.

    A model without any convolution for the accelerator runs there as far as it can.
    """
    reasons = {node.output: limit(node, graph) for node in graph.nodes}
    groups = _joined(graph, reasons)
    if any(isinstance(node.op, Conv) for group in groups for node in group):
        for group in groups:
            if not any(isinstance(node.op, Conv) for node in group):
                reasons |= {node.output: ISLAND for node in group}
    return reasons


def _joined(graph: Graph, reasons: Reasons) -> list[list[AnyNode]]:
    """The accelerator's nodes in groups: nodes that read each other's results are in one group."""
    groups: dict[str, list[AnyNode]] = {}
    for node in graph.nodes:
        if reasons[node.output] is not None:
            continue
        mine = [node]
        for group in {id(groups[name]): groups[name] for name in node.inputs if name in groups}.values():
            mine = [*group, *mine]
        groups |= {member.output: mine for member in mine}
    return list({id(group): group for group in groups.values()}.values())


def cut(graph: Graph, reasons: Reasons) -> list[Piece]:
    """The pieces.

    A node's stage is the highest stage that it reads from, plus one where the side changes; each stage is a piece.
    """
    stages: dict[str, int] = {}
    for node in graph.nodes:
        here = int(reasons[node.output] is None)  # the accelerator's stages are odd
        before = [stages[name] for name in node.inputs if name in stages]
        stage = max((stage + (stage % 2 != here) for stage in before), default=here)
        stages |= dict.fromkeys(outputs_of(node), stage)
    pieces = []
    for stage in sorted({stages[node.output] for node in graph.nodes}):
        kind = ACCELERATOR if stage % 2 else CPU
        chosen = {node.output for node in graph.nodes if stages[node.output] == stage}
        pieces.append(Piece(kind, part_of(graph, chosen, f"{graph.name}-{stage}")))
    return pieces


def part_of(graph: Graph, chosen: Collection[str], name: str) -> Graph:
    """The subgraph of the nodes with these outputs. Its inputs are what it reads; its outputs are what others read of it."""
    nodes = tuple(node for node in graph.nodes if node.output in chosen)
    made = [name for node in nodes for name in outputs_of(node)]
    others = {name for node in graph.nodes if node.output not in chosen for name in node.inputs}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name in graph.tensors and name not in made)
    outputs = tuple(name for name in made if name in others or name in graph.outputs)
    part = replace(graph, name=name, inputs=tuple(read), outputs=outputs, nodes=nodes)
    return Editor(part).finish()


def check_without_cpu(graph: Graph, reasons: Reasons) -> None:
    """Checks that the CPU has nothing but a head and a tail without multiplications.

    ModelError: it has more, or all of the model; the message names the node, why it cannot run on the accelerator, and what helps.
    """
    here = {output for output, reason in reasons.items() if reason is None}
    if not here:
        if foreign := support.foreign_quantisation(graph):
            raise ModelError(f"{graph.name}: nothing in it runs on the accelerator; {foreign}")
        raise ModelError(f"{graph.name}: nothing in it runs on the accelerator; {_first_refusal(graph, reasons)}")
    after, before = _behind(graph, here), _before(graph, here)
    refused = [node for node in graph.nodes if reasons[node.output]]
    between = [node for node in refused if node.output in after and node.output in before]
    for nodes in (between, [node for node in refused if float_macs(node, graph)]):
        if nodes:
            node = min(nodes, key=lambda node: (reasons[node.output] == ISLAND, _innocence(node, graph)))
            raise ModelError(support.refusal(node, reasons[node.output] or "", graph))


def _first_refusal(graph: Graph, reasons: Reasons) -> str:
    """The line about the node that most likely causes everything to run on the CPU: one whose operator runs in another form."""
    if not graph.nodes:
        return "it has no operators"
    node = min(graph.nodes, key=lambda node: kind_in(node, graph) not in support.RUNS)
    return support.refusal(node, reasons[node.output] or "", graph)


def _innocence(node: Node, graph: Graph) -> int:
    """How unlikely a refused node is to be the cause: a view may be there only for its neighbour."""
    if not isinstance(node.op, VIEWS):
        return 0
    if kind_in(node, graph) in support.VIEW_KINDS:
        return 2  # a view of the model's own
    # Around a constant along another axis; else around a tensor with more or fewer axes.
    return 1 if isinstance(node.op, Transpose) else 3


def _behind(graph: Graph, start: Iterable[str]) -> set[str]:
    """`start` and all nodes that depend on it."""
    made_by = {name: node.output for node in graph.nodes for name in outputs_of(node)}
    reached = set(start)
    for node in graph.nodes:
        if any(made_by.get(name) in reached for name in node.inputs):
            reached.add(node.output)
    return reached


def _before(graph: Graph, start: Iterable[str]) -> set[str]:
    """`start` and all nodes that it depends on."""
    made_by = {name: node.output for node in graph.nodes for name in outputs_of(node)}
    reached = set(start)
    for node in reversed(graph.nodes):
        if node.output in reached:
            reached.update(made_by[name] for name in node.inputs if name in made_by)
    return reached
