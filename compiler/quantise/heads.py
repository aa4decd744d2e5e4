"""Splits a detector's last convolutions, so that box regression and class scores have scales of their own.

YOLOv3 and YOLOv5 make both in one tensor: per anchor four numbers that become a box, whose range is narrow, and scores whose range
is wide. With one scale for all, boxes would have few steps. The model itself shows which channels belong together: behind the
convolution it slices the tensor. Such a convolution becomes one for each run of channels, which is the same in float. Their
outputs are joined on the CPU, where the tensor goes anyway.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.pieces.partition import Reasons, cut
from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import VIEWS, Affine, Chain, Channels, Clip, Conv, Onnx, Pixels, Reshape, float_macs
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.graph.pointwise import POINTWISE, evaluate, lively
from cnna.compiler.quantise.calibrate import ChannelStatistics
from cnna.compiler.quantise.sessions import Session
from cnna.spec.manifest import ACCELERATOR

APART = 2.0  # times a range that another must have to be unlike: with the scale of both, the narrower one would lose a bit of eight
TAIL_MACS = 0.001  # share of the model's multiply-accumulates
RUNS = 3  # most runs of channels with unlike ranges in an anchor; more do not look like a detector's
FLAT = 0.25 / 255  # share of the range of a curve's values below which a change does not show
SELECTS = ("Slice", "Split", "Gather", "Squeeze", "Unsqueeze", "Flatten", "Reshape", "Transpose", "Identity", "Cast")

Spans = Sequence[tuple[float, float]]  # of each channel


@dataclass(frozen=True)
class Head:
    """A convolution at the end of what the accelerator runs, and the channels of its output that are used together.

    chain: the curve behind it, if there is one. labels: the group of each channel.
    """

    conv: Node[Any]
    chain: Node[Any] | None
    labels: tuple[int, ...]

    @property
    def output(self) -> str:
        """The tensor that leaves the accelerator."""
        return self.chain.output if self.chain else self.conv.output


def split_heads(graph: Graph, heads: Sequence[Head], seen: Mapping[str, ChannelStatistics]) -> Graph:
    """The float graph with these heads split. seen: what samples say of the convolutions' outputs."""
    edit = Editor(graph)
    for head in heads:
        pattern = _pattern(_narrow(head, _shown(head, seen[head.conv.output])))
        if len(pattern) > 1:
            _split(edit, head, pattern)
    return edit.finish()


def span_of(ranges: Spans) -> float:
    """The length of the range that int8 needs for all of these; 0 is always in it."""
    return max(0.0, *(high for _, high in ranges)) - min(0.0, *(low for low, _ in ranges))


def apart(narrow: float, whole: float) -> bool:
    """Whether ranges of these lengths, one of which is part of the other, should not share a scale."""
    return narrow * APART <= whole


def float_tail(graph: Graph, reasons: Reasons) -> set[str]:
    """The nodes, by output, that could run on the accelerator but hardly multiply: the last pieces, behind what the CPU computes.

    An example is YOLOv8's mean over a softmax, from which it makes boxes. reasons: what runs where (`placed`).
    """
    total = sum(float_macs(node, graph) for node in graph.nodes)
    found: set[str] = set()
    macs = 0
    for piece in reversed([piece for piece in cut(graph, reasons) if piece.kind == ACCELERATOR][1:]):
        macs += sum(float_macs(node, graph) for node in piece.graph.nodes)
        if macs > TAIL_MACS * total:
            break
        found |= {node.output for node in piece.graph.nodes}
    return found


def behind_heads(graph: Graph, reasons: Reasons) -> frozenset[str]:
    """The nodes, by output, that could run on the accelerator but lie behind its greatest piece: a detector's decode."""
    pieces = [piece for piece in cut(graph, reasons) if piece.kind == ACCELERATOR]
    macs = [sum(float_macs(node, graph) for node in piece.graph.nodes) for piece in pieces]
    behind = pieces[macs.index(max(macs)) + 1 :] if pieces else []
    return frozenset(name for piece in behind for node in piece.graph.nodes for name in outputs_of(node))


def heads_of(graph: Graph, body: Graph) -> Iterator[Head]:
    """The convolutions of one group at the end whose channels the CPU slices."""
    for node in body.nodes:
        if not isinstance(node.op, Conv) or node.op.groups != 1:
            continue
        readers = [reader for reader in body.nodes if node.output in reader.inputs]
        chain = readers[0] if len(readers) == 1 and isinstance(readers[0].op, Chain) and graph.uses(node.output) == 1 else None
        last = chain or node
        if (readers and chain is None) or any(last.output in reader.inputs for reader in body.nodes):
            continue
        labels = _labels(graph, last.output)
        if len(set(labels)) > 1:
            yield Head(node, chain, labels)


def _labels(graph: Graph, tensor: str) -> tuple[int, ...]:
    """A number for each channel of a map; channels have equal numbers if the same slices of the map contain them.

    Channel numbers run through the nodes that only move values, and a slice contains what arrives at its end.
    """
    moved, ends = _moved(graph, tensor)
    shape = graph.tensors[tensor].shape
    if not ends:
        return (0,) * shape[1]
    tensors = {name: replace(one, quant=None) for name, one in graph.tensors.items()}
    part = replace(graph, inputs=(tensor,), outputs=tuple(ends), nodes=tuple(moved), tensors=tensors, types={})
    numbers = np.broadcast_to(np.arange(shape[1], dtype=np.float32)[:, None, None], shape)
    found = Session(to_model(Editor(part).finish()).SerializeToString(), graph.name).run({tensor: numbers})
    contents = [frozenset(np.unique(values).astype(int).tolist()) for values in found.values()]
    signs = [frozenset(end for end, content in enumerate(contents) if channel in content) for channel in range(shape[1])]
    known = {sign: number for number, sign in enumerate(dict.fromkeys(signs))}
    return tuple(known[sign] for sign in signs)


def _moved(graph: Graph, tensor: str) -> tuple[list[Node], list[str]]:
    """The nodes behind a tensor that only move its values, curves among them as Identity, and the tensors that other nodes read."""
    made, nodes, ends = {tensor}, [], list[str]()
    for node in graph.nodes:
        read = [name for name in node.inputs if name in made]
        if not read:
            continue
        kind = node.op.kind if isinstance(node.op, Onnx) and not node.op.domain else ""
        if isinstance(node.op, (*VIEWS, Channels, Pixels)) or (kind in SELECTS and node.inputs[0] in made):
            nodes.append(node)
            made.update(outputs_of(node))
        elif _is_curve(graph, node, kind):
            nodes.append(replace(node, op=Onnx("Identity"), inputs=(read[0],)))
            made.add(node.output)
        else:
            ends += read
    ends += [name for name in graph.outputs if name in made]
    return nodes, [*dict.fromkeys(name for name in ends if name != tensor)]


def _is_curve(graph: Graph, node: Node, kind: str) -> bool:
    """Whether a node computes each element of its output from the element in the same place of one map."""
    if not isinstance(node.op, Chain | Clip | Affine) and kind not in POINTWISE:
        return False
    maps = [name for name in node.inputs if name in graph.tensors and name not in graph.constants]
    return len(maps) == 1 and graph.tensors[maps[0]].shape == graph.tensors[node.output].shape


def _shown(head: Head, seen: ChannelStatistics) -> Spans:
    """The range of each channel as far as it shows behind the curve."""
    spans = [*zip(seen.low.tolist(), seen.high.tolist(), strict=True)]
    if not head.chain:
        return spans
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    made = evaluate(head.chain.op, np.linspace(low, high, 256, dtype=np.float32))
    low, high = lively(head.chain.op, low, high, float(made.max() - made.min()) * FLAT)
    return [(max(one, low), min(other, high)) for one, other in spans]


def _narrow(head: Head, spans: Spans) -> list[bool]:
    """For each channel whether its group's range is so much narrower than that of all."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for label, one in zip(head.labels, spans, strict=True):
        groups.setdefault(label, []).append(one)
    narrow = {label: apart(span_of(ranges), span_of(spans)) for label, ranges in groups.items()}
    return [narrow[label] for label in head.labels]


def _pattern(narrow: Sequence[bool]) -> list[int]:
    """The lengths of the runs of channels in an anchor, which all anchors share; none if there are too many."""
    for length in range(1, len(narrow) + 1):
        if len(narrow) % length == 0 and all(one == narrow[number % length] for number, one in enumerate(narrow)):
            runs = [len(list(run)) for _, run in groupby(narrow[:length])]
            return runs if len(runs) <= RUNS else []
    return []


def _split(edit: Editor, head: Head, runs: Sequence[int]) -> None:
    """Replaces a head by one for each run of channels, and joins what they make."""
    conv: Node[Any] = edit.nodes[head.conv.output]  # equalisation may have changed it
    last = head.chain or conv
    shape, length = edit.shape(head.output), sum(runs)
    anchors, start, parts = shape[1] // length, 0, []
    weights, bias = edit.constants[conv.op.weights], edit.constants[conv.op.bias]
    for number, run in enumerate(runs):
        chosen = np.concatenate([np.arange(run) + start + anchor * length for anchor in range(anchors)])
        op = replace(
            conv.op,
            weights=edit.constant(f"{conv.op.weights}:part{number}", weights[chosen]),
            bias=edit.constant(f"{conv.op.bias}:part{number}", bias[chosen]),
            weight_scale=None,  # it has a number for each channel of the whole
        )
        map_shape = (shape[0], len(chosen), *shape[2:])
        made = edit.insert(f"{conv.name}:part{number}", op, conv.inputs, f"{conv.output}:part{number}", map_shape)
        if head.chain:
            made = edit.insert(f"{last.name}:part{number}", head.chain.op, (made,), f"{last.output}:part{number}", map_shape)
        view = (shape[0], anchors, run, *shape[2:])
        parts.append(edit.insert(f"{last.name}:anchors{number}", Reshape(view), (made,), f"{made}:anchors", view))
        start += run
    whole = (shape[0], anchors, length, *shape[2:])
    joined = edit.insert(f"{last.name}:joined", Onnx("Concat", {"axis": 2}), tuple(parts), f"{last.output}:joined", whole)
    if head.chain:
        edit.remove(conv)
    edit.put(f"{last.name}:whole", Reshape(shape), (joined,), last.output)
