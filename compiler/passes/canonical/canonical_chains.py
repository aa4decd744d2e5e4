"""Element-wise nodes that make one map of one other become a Chain: Sigmoid, x * Sigmoid(x), GELU as exporters spell it.

In a model that came with Q and DQ, a Chain begins at a rounded tensor and ends before one. Roundings in between are part of it. It
may also begin at the sum of a layer that nothing else reads, for which `quantise_before` chooses a quantisation. In a float model,
it begins behind the arithmetic and the limits that a layer can take. There it must also be gentle, because nobody has chosen to
round its input (`pointwise.is_gentle`).

Requires: Q and DQ joined to Requantise (`pair_quantisation`), typed views and copies, typed convolutions.
Ensures: a Chain makes each tensor that leaves a group of such nodes. It reads the nearest tensor that is kept anyway and through
which all of its value comes, or else the first tensor of the group.
Leaves alone: arithmetic with constants and limits, if there is nothing else, which `canonical_elementwise` knows; constants that
are not one number; steep functions of a float model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import MOVERS, MOVES, VIEWS, Chain, Conv, Onnx, Pad, Requantise
from cnna.compiler.graph.ir import AnyNode, Graph
from cnna.compiler.graph.pointwise import POINTWISE, is_gentle
from cnna.compiler.passes.canonical.typed_operators import put_framed

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Sum")
LIMITS = ("Relu", "Clip", "Min", "Max")
SIMPLE = (*ARITHMETIC, *LIMITS, "HardSigmoid", "Identity")  # with one computed operand, what other passes make typed operators of
LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization")


class Stretch(NamedTuple):
    """A tensor that all of another's value depends on, and the nodes between the two, in order."""

    tensor: str
    nodes: tuple[AnyNode, ...]


def canonical_chains(graph: Graph) -> Graph:
    """Returns the graph with Chains."""
    edit = Editor(graph)
    groups = _Groups.of(edit, graph)
    rounded = any(isinstance(node.op, Requantise) for node in graph.nodes)
    for tensor in groups.exits:
        end = tensor
        while end in groups.members and isinstance(groups.members[end].op, Requantise):
            end = groups.members[end].inputs[0]
        if end in groups.members and (not rounded or _is_rounded(groups, end)):
            chain = _chain(edit, groups, end, rounded)
            if chain is not None:
                put_framed(edit, groups.members[end], chain, (chain.source,))
    return edit.finish()


@dataclass(frozen=True)
class _Groups:
    """The element-wise nodes of a graph, those of one group depending on one tensor.

    members: by output, in order. exits: outputs that other nodes read, or the user. readers: of each tensor.
    """

    edit: Editor
    members: dict[str, AnyNode]
    exits: tuple[str, ...]
    readers: dict[str, list[AnyNode]]
    position: dict[str, int]

    @classmethod
    def of(cls, edit: Editor, graph: Graph) -> "_Groups":
        roots: dict[str, str] = {}
        members: dict[str, AnyNode] = {}
        readers: dict[str, list[AnyNode]] = {}
        for node in graph.nodes:
            for name in {*node.inputs}:
                readers.setdefault(name, []).append(node)
            found = {roots.get(name, name) for name in _maps(edit, node)}
            if len(found) == 1 and _is_pointwise(edit, node):
                roots[node.output] = found.pop()
                members[node.output] = node
        outside = [name for name in members if name in graph.outputs or any(r.output not in members for r in readers.get(name, ()))]
        return cls(edit, members, tuple(outside), readers, {name: number for number, name in enumerate(members)})

    def cuts(self, end: str) -> Iterator[Stretch]:
        """The cuts of a member's output, from the nearest to the first tensor of its group."""
        open_, nodes = {end}, []
        while not open_ - self.members.keys() or len(open_) > 1:
            latest = max(open_, key=lambda name: self.position.get(name, -1))
            node = self.members[latest]
            nodes.append(node)
            open_ = open_ - {latest} | set(_maps(self.edit, node))
            if len(open_) == 1:
                yield Stretch(next(iter(open_)), tuple(reversed(nodes)))


def _maps(edit: Editor, node: AnyNode) -> list[str]:
    """What a node reads that is no constant."""
    return [name for name in dict.fromkeys(node.inputs) if name and name not in edit.constants]


def _is_pointwise(edit: Editor, node: AnyNode) -> bool:
    if isinstance(node.op, Requantise):
        return True
    op, shape = node.op, edit.shape(node.output)
    if not isinstance(op, Onnx) or op.domain or op.kind not in POINTWISE or not edit.is_real(node) or any(op.more_outputs):
        return False
    if len(shape) < 2 or shape[0] != 1 or min(shape) < 1 or op.attributes.get("training_mode"):
        return False
    maps = _maps(edit, node)
    first = node.inputs[0] in maps or op.kind in (*ARITHMETIC, "Min", "Max", "Pow")
    return (
        first
        and all(edit.shape(name) == shape for name in maps)
        and all(name in maps or not name or _number(edit, name) is not None for name in node.inputs)
    )


def _number(edit: Editor, name: str) -> float | None:
    """The number that a constant holds everywhere."""
    value = edit.constants[name]
    if not value.size or value.dtype.kind not in "fiu" or (value != value.reshape(-1)[0]).any():
        return None
    return float(np.float32(value.reshape(-1)[0]))


def _is_rounded(groups: _Groups, tensor: str) -> bool:
    """Whether all that read a tensor do so behind a Requantise, be it one behind moves of its elements."""
    readers = groups.readers.get(tensor, [])
    return (
        bool(readers)
        and tensor not in groups.edit.outputs
        and all(isinstance(node.op, Requantise) or (_moves(node) and _is_rounded(groups, node.output)) for node in readers)
    )


def _moves(node: AnyNode) -> bool:
    if isinstance(node.op, Onnx):
        return node.op.kind in MOVERS and not node.op.domain
    return isinstance(node.op, (*MOVES, *VIEWS, Pad))


def _is_int8(edit: Editor, tensor: str) -> bool:
    """Whether a tensor is rounded, or made of rounded ones by moving their elements."""
    node = edit.producer(tensor)
    if node is None or isinstance(node.op, Requantise):
        return node is not None
    return _moves(node) and all(_is_int8(edit, name) for name in _maps(edit, node))


def _chain(edit: Editor, groups: _Groups, end: str, rounded: bool) -> Chain | None:
    """The longest chain with that end that may be one; None: there is none, or other passes do it as well."""
    cuts: list[Stretch] = []
    for cut in groups.cuts(end):
        cuts.append(cut)
        if cut.tensor in groups.exits and (not rounded or _is_int8(edit, cut.tensor)):
            break
    kinds: tuple[str, ...] = SIMPLE
    whole = [cut for cut in cuts if _is_int8(edit, cut.tensor)] if rounded else []
    if whole:
        cuts, kinds = whole, LIMITS  # behind a rounding, no layer takes arithmetic
    elif rounded and not _is_layers(edit, groups, cuts[-1].tensor):
        return None
    else:
        _leave_to_layer(edit, cuts)
    for cut in reversed(cuts):
        if all(_is_simple(edit, node, kinds) for node in cut.nodes):
            return None
        names = dict.fromkeys(name for node in cut.nodes for name in node.inputs if name in edit.constants)
        numbers = tuple((name, value) for name in names if (value := _number(edit, name)) is not None)
        chain = Chain(cut.nodes, cut.tensor, numbers)
        if rounded or is_gentle(chain):
            return chain
    return None


def _is_layers(edit: Editor, groups: _Groups, tensor: str) -> bool:
    """Whether a layer makes a tensor for element-wise nodes of one group alone."""
    maker, readers = edit.producer(tensor), groups.readers.get(tensor, [])
    layer = maker is not None and (isinstance(maker.op, Conv) or (isinstance(maker.op, Onnx) and maker.op.kind in LAYERS))
    return layer and tensor not in edit.outputs and all(node.output in groups.members for node in readers)


def _leave_to_layer(edit: Editor, cuts: list[Stretch]) -> None:
    """Takes away cuts as long as the first node is arithmetic or a limit that the layer in front can take."""
    if not cuts:
        return
    maker, limited = edit.producer(cuts[-1].tensor), False
    if maker is None or edit.uses(maker.output) > 1:
        return
    if not isinstance(maker.op, Conv) and not (isinstance(maker.op, Onnx) and maker.op.kind in LAYERS):
        return
    while len(cuts) > 1 and len(cuts[-1].nodes) == len(cuts[-2].nodes) + 1 and not limited:
        first = cuts[-1].nodes[0]
        limited = isinstance(first.op, Onnx) and first.op.kind in (*LIMITS, "HardSigmoid")
        if not limited and not (isinstance(first.op, Onnx) and first.op.kind in ARITHMETIC):
            return
        cuts.pop()


def _is_simple(edit: Editor, node: AnyNode, kinds: tuple[str, ...]) -> bool:
    """Whether other passes make a typed operator of a node: one operand is computed, or two that are the same are added."""
    if not isinstance(node.op, Onnx):
        return True
    computed = [name for name in node.inputs if name and name not in edit.constants]
    doubled = node.op.kind in ("Add", "Sum") and len({*computed}) == 1
    return node.op.kind in kinds and (len(computed) == 1 or doubled)
