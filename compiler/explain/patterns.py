"""Finds activations that a model spells with several nodes, such as SiLU: x * Sigmoid(x). Only the whole is worth replacing."""

from collections.abc import Iterator
from dataclasses import dataclass

from cnna.compiler.frontend.node_names import kind_of
from cnna.compiler.frontend.pieces.partition import Reasons
from cnna.compiler.graph.float_ops import Affine, Clip, Onnx
from cnna.compiler.graph.ir import AnyNode, Graph

# ONNX's operators of one map, pixel by pixel, beside those with a constant
POINTWISE = ("Sigmoid", "Tanh", "Softplus", "Erf", "HardSigmoid", "Exp", "Neg", "Add", "Sub", "Mul", "Div", "Clip")
KNOWN = {"Sigmoid": "SiLU", "HardSigmoid": "HardSwish", "Softplus Tanh": "Mish"}  # by the operators in front of the product


@dataclass(frozen=True)
class Pattern:
    """The product of a map and of what point-wise nodes make of the same map; the product is the last node."""

    nodes: tuple[AnyNode, ...]

    @property
    def last(self) -> AnyNode:
        """The product."""
        return self.nodes[-1]

    @property
    def name(self) -> str:
        """What the activation is called, where it has a name."""
        before = [kind_of(node) for node in self.nodes[:-1]]
        return "GELU" if "Erf" in before else KNOWN.get(" ".join(before), "this activation")


def patterns(graph: Graph, reasons: Reasons) -> list[Pattern]:
    """Those whose product runs on the CPU, in the order of the graph."""
    found = []
    for node in graph.nodes:
        maps = _maps(node, graph)
        if kind_of(node) == "Mul" and reasons[node.output] is not None and len(maps) == 2:
            chains = [list(_chain(name, graph)) for name in maps]
            starts = [[name, *(before.inputs[0] for before in chain)] for name, chain in zip(maps, chains, strict=True)]
            if common := next((name for name in starts[0] if name in starts[1]), None):
                nodes = [one for chain, names in zip(chains, starts, strict=True) for one in chain[: names.index(common)][::-1]]
                if nodes:
                    found.append(Pattern((*nodes, node)))
    return found


def _maps(node: AnyNode, graph: Graph) -> list[str]:
    """What it reads that is no constant."""
    return [name for name in dict.fromkeys(node.inputs) if name in graph.tensors]


def _chain(name: str, graph: Graph) -> Iterator[AnyNode]:
    """The point-wise nodes of one map behind which a tensor lies, the last first; each is read by the next one alone."""
    node = graph.producer(name)
    while node is not None and graph.uses(node.output) == 1 and len(_maps(node, graph)) == 1 and _pointwise(node):
        yield node
        node = graph.producer(node.inputs[0])


def _pointwise(node: AnyNode) -> bool:
    return isinstance(node.op, Affine | Clip) or (isinstance(node.op, Onnx) and node.op.kind in POINTWISE)
