"""Finds the nodes of a model that together normalise a map by its own mean and spread, such as a LayerNorm over channels.

Exporters write such a normalisation as one operator, or as a mean, a difference, a mean of its squares and a quotient. No engine
computes one, so all its nodes run on the CPU. One remedy helps them all: a normalisation by constants.
"""

from collections.abc import Mapping, Sequence

from onnx import NodeProto

from cnna.compiler.frontend.pieces.hints import NORMALISATIONS

STEPS = 8  # from the difference to the quotient, at most; exporters write five
MEANS, SQUARES, QUOTIENTS = ("ReduceMean", "GlobalAveragePool"), ("Pow", "Mul"), ("Div", "Mul")


def normalisations(nodes: Sequence[NodeProto]) -> dict[int, int]:
    """For each node that is a part of a normalisation, by number, the number of the part that stands for all: its first."""
    found = {number: number for number, node in enumerate(nodes) if node.op_type in NORMALISATIONS}
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(number)
    for number, node in enumerate(nodes):
        if node.op_type in MEANS and number not in found:
            found |= dict.fromkeys(_parts(number, nodes, readers), number)
    return found


def _parts(mean: int, nodes: Sequence[NodeProto], readers: Mapping[str, Sequence[int]]) -> set[int]:
    """The parts of the normalisation that begins with a mean; empty if none does."""
    source, made = nodes[mean].input[0], nodes[mean].output[0]
    less = [number for number in readers.get(made, ()) if nodes[number].op_type == "Sub" and source in nodes[number].input]
    for number in less:
        spread = nodes[number].output[0]
        behind = _behind(less, nodes, readers)
        means = {other for other in behind if nodes[other].op_type in MEANS}
        squared = any(nodes[other].op_type in SQUARES for other in behind)
        after = _behind(means, nodes, readers)
        ends = {other for other in after & set(readers.get(spread, ())) if nodes[other].op_type in QUOTIENTS}
        if squared and ends:
            return {mean, *less} | {other for other in behind if ends & {other, *_behind([other], nodes, readers)}}
    return set()


def _behind(start: Sequence[int] | set[int], nodes: Sequence[NodeProto], readers: Mapping[str, Sequence[int]]) -> set[int]:
    """The nodes that read what these make, within so many steps."""
    reached: set[int] = set()
    front = set(start)
    for _ in range(STEPS):
        front = {number for one in front for name in nodes[one].output for number in readers.get(name, ())} - reached
        reached |= front
    return reached
