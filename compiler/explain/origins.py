"""Finds what became of each node of a user's model: the nodes of the rewritten graph that were made from it or that absorbed it.

A rewrite that makes several nodes of one begins their names with its name (`node_names`). A rewrite that folds a node into its
neighbour keeps the name of one and the output of the other. If neither of a node's is left, its neighbour has absorbed it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto

from cnna.compiler.frontend.pieces.partition import Reasons
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.float_ops import VIEWS
from cnna.compiler.graph.ir import AnyNode, Graph
from cnna.compiler.graph.node_names import node_name, source_of

Flow = Mapping[int, Sequence[int]]  # for each node of the model, by number, its neighbours


@dataclass
class Origin:
    """A node of the user's model. rewritten: the nodes of the float graph made from it; made: those of the quantised graph.

    folded: the node of the model that has absorbed it, if it has no node of its own. constant: it depends on no input.
    """

    number: int
    node: NodeProto
    rewritten: list[AnyNode] = field(default_factory=list)
    made: list[AnyNode] = field(default_factory=list)
    folded: int | None = None
    constant: bool = False

    @property
    def name(self) -> str:
        """The node's name in the user's model."""
        return node_name(self.node)

    def main(self) -> list[AnyNode]:
        """The nodes that do its work; views only if there is nothing else."""
        return [node for node in self.made if not isinstance(node.op, VIEWS)] or self.made


def origins(model: ModelProto, rewritten: Graph, whole: Graph, reasons: Reasons) -> list[Origin]:
    """Every node of the model, in its order. rewritten: the float graph. whole: the quantised graph that was made from it.

    `reasons` say why nodes of `whole` run on the CPU.
    """
    found = [Origin(number, node) for number, node in enumerate(model.graph.node)]
    _mark_constants(found, model)
    names = {node.name: "" for node in rewritten.nodes}
    later: dict[str, list[AnyNode]] = {}
    for node in whole.nodes:
        later.setdefault(source_of(node.name, names) or "", []).append(node)
    for number, nodes in _made(found, rewritten.nodes).items():
        found[number].rewritten = nodes
        found[number].made = [new for old in nodes for new in later.get(old.name, ())]
    _fold(found, reasons)
    return found


def _made(found: Sequence[Origin], nodes: Iterable[AnyNode]) -> dict[int, list[AnyNode]]:
    """For each node of the model, by number, the nodes that have its name."""
    numbers: dict[str, int] = {}
    for origin in found:
        numbers.setdefault(origin.name, origin.number)
    sources = dict.fromkeys(numbers, "")
    made: dict[int, list[AnyNode]] = {}
    for node in nodes:
        if (name := source_of(node.name, sources)) is not None:
            made.setdefault(numbers[name], []).append(node)
    return made


def _mark_constants(found: Sequence[Origin], model: ModelProto) -> None:
    known = {tensor.name for tensor in model.graph.initializer} | {""}
    for origin in found:
        inside = any(attribute.HasField("g") for attribute in origin.node.attribute)
        origin.constant = not inside and known.issuperset(origin.node.input)
        if origin.constant:
            known |= set(origin.node.output)


def _fold(found: Sequence[Origin], reasons: Reasons) -> None:
    """Gives each node without nodes of its own the neighbour that now does its work.

    That is the neighbour that makes its output. Otherwise it is one before or behind it, if possible on the accelerator, because
    rewrites fold for the accelerator.
    """
    owner = {name: origin.number for origin in found for node in origin.made for name in outputs_of(node)}
    lost = [origin for origin in found if not origin.made and not origin.constant]
    for origin in lost:
        origin.folded = next((owner[name] for name in origin.node.output if name in owner), None)
    before, behind = _flows(found)
    for only_here in (True, False):
        for flow, order in ((before, lost), (behind, lost[::-1])):  # both directions, so that chains of such nodes are followed
            for origin in order:
                if origin.folded is None:
                    near = (_home(found[number]) for number in flow.get(origin.number, ()))
                    homes = [home for home in near if home is not None]
                    origin.folded = next((home for home in homes if not only_here or _is_here(found[home], reasons)), None)


def _flows(found: Sequence[Origin]) -> tuple[Flow, Flow]:
    """The neighbours before and behind each node, without constants."""
    maker = {name: origin.number for origin in found if not origin.constant for name in origin.node.output}
    before = {origin.number: [maker[name] for name in origin.node.input if name in maker] for origin in found}
    behind: dict[int, list[int]] = {}
    for number, sources in before.items():
        for source in sources:
            behind.setdefault(source, []).append(number)
    return before, behind


def _home(origin: Origin) -> int | None:
    """The number of the model's node that does its work."""
    return origin.number if origin.made else origin.folded


def _is_here(origin: Origin, reasons: Reasons) -> bool:
    return any(reasons[node.output] is None for node in origin.main())
