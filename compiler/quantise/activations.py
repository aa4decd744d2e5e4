"""Chooses the quantisation of each tensor of the accelerator's part from what samples put there."""

from collections.abc import Collection, Iterable, Mapping

from cnna.compiler.graph.float_ops import MOVES, Chain, Clip, Concat, Join, Maximum, Minimum, Pad
from cnna.compiler.graph.ir import Graph, Quant
from cnna.compiler.graph.pointwise import lively
from cnna.compiler.quantise.calibrate import Statistics
from cnna.compiler.quantise.heads import apart, span_of
from cnna.compiler.quantise.outliers import limited, unseen_lows
from cnna.compiler.quantise.ranges import METHODS, quant_of

FAR = 32.0  # times a range that a curve's lively part must have, to be looked at again within it
UNSEEN = 0.25  # of a step of int8: what a chain's value may change by beyond the range of its input


def activation_quants(graph: Graph, body: Graph, statistics: Mapping[str, Statistics], method: str) -> dict[str, Quant]:
    """A quantisation for each tensor but those of `_float_ends`; one for all of those that `_tied` ties together.

    What only a Chain reads needs no range where that is flat, and what only a Maximum or Minimum reads none beyond the result's.
    What only limits read needs none beyond theirs. What only max pools read needs none below their results, if that makes it much
    shorter.
    """
    unseen = unseen_lows(graph, body)

    def reach(name: str) -> tuple[float, float]:
        low, high = METHODS[method](statistics[name])
        if name in unseen:
            shown = min(METHODS[method](statistics[made])[0] for made in unseen[name])
            low = shown if apart(span_of([(shown, high)]), span_of([(low, high)])) else low
        return low, high

    floating = _float_ends(body, statistics, method)
    cut = limited(graph, body) | {
        name for node in body.nodes if isinstance(node.op, Maximum | Minimum) for name in node.inputs[1:] if body.uses(name) == 1
    }
    quants: dict[str, Quant] = {}
    for names in _tied(body, statistics, method, floating):
        lows, highs = zip(*(reach(name) for name in names if name not in cut), strict=True)
        limits = (min(lows), max(highs))
        reader = next((node for node in body.nodes if names[0] in node.inputs), None) if len(names) == 1 else None
        if reader and isinstance(reader.op, Chain) and body.uses(names[0]) == 1:
            low, high = METHODS[method](statistics[reader.output])
            before, limits = limits, lively(reader.op, *limits, (high - low) / 255 * UNSEEN)
            while span_of([limits]) * FAR < span_of([before]):  # a mask's range, in which the first look finds little of the curve
                before, limits = limits, lively(reader.op, *limits, (high - low) / 255 * UNSEEN)
        quants.update(dict.fromkeys(names, quant_of(limits)))
    return {name: quants[name] for name in body.tensors if name not in floating}


def _tied(body: Graph, statistics: Mapping[str, Statistics], method: str, floating: Collection[str]) -> Iterable[list[str]]:
    """The tensors in groups. An operator that only moves values, and a Clip, has one quantisation for inputs and output.

    The second input and the output of a Maximum or Minimum share one too: the second input may be the first one times a slope. A
    Pad's input and output do if the value lies within the input's range, for it would widen that.
    """
    leader = {name: name for name in body.tensors}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for node in body.nodes:
        if node.output in floating:
            continue
        if isinstance(node.op, Pad):
            low, high = METHODS[method](statistics[node.inputs[0]])
            if min(low, 0.0) <= node.op.value <= max(high, 0.0):
                leader[find(node.inputs[0])] = find(node.output)
        if isinstance(node.op, (*MOVES, Clip, Maximum, Minimum)):
            for name in node.inputs[1:] if isinstance(node.op, Maximum | Minimum) else node.inputs:
                leader[find(name)] = find(node.output)
    groups: dict[str, list[str]] = {}
    for name in body.tensors:
        groups.setdefault(find(name), []).append(name)
    return groups.values()


def _float_ends(body: Graph, statistics: Mapping[str, Statistics], method: str) -> set[str]:
    """Tensors at the ends of the body, behind a concatenation of parts whose ranges are too different, such as boxes and scores.

    With one scale for all, the part with the narrowest range would have few steps. In float, each part keeps its own scale.
    """

    def span(names: Iterable[str]) -> float:
        return span_of([METHODS[method](statistics[name]) for name in names])

    readers = {name: [node for node in body.nodes if name in node.inputs] for name in body.tensors}
    last: set[str] = set()  # what nothing reads but moves towards the end
    for node in reversed(body.nodes):
        if all(isinstance(reader.op, MOVES) and reader.output in last for reader in readers[node.output]):
            last.add(node.output)
    floating: set[str] = set()
    for node in body.nodes:
        if node.output in last and isinstance(node.op, MOVES):
            narrow = [own for name in node.inputs if (own := span([name])) > 0]
            mixed = isinstance(node.op, Concat | Join) and narrow and apart(min(narrow), span(node.inputs))
            if mixed or floating & {*node.inputs}:
                floating.add(node.output)
    if all(node.output in floating for node in body.nodes):
        return set()  # otherwise nothing would be left to quantise
    unread = {name for name in body.inputs if readers[name] and all(node.output in floating for node in readers[name])}
    return floating | unread  # nothing on the accelerator reads these, so rounding them would only lose
