"""Takes away the Clips that a model's outputs end in, such as those that cut boxes at the picture's edges.

A box that is cut does not follow its integers where the cut holds, so heads are looked for without it. Exporters write a cut as
Clip, Min, Max or Relu. Behind it there may be moves of elements, and a scale with an offset.
"""

from collections.abc import Iterator

import onnx
from onnx import GraphProto, NodeProto

CLIPS = ("Clip", "Max", "Min", "Relu")
MOVES = (
    *("Cast", "Concat", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "ScatterElements", "ScatterND"),
    *("Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
)
SCALES = ("Add", "Div", "Mul", "Sub")


def without_last_clips(model: bytes) -> bytes | None:
    """The ONNX file without them; None: there are none."""
    made = onnx.load_from_string(model)
    clips = list(_last_clips(made.graph))
    if not clips:
        return None
    for node in clips:
        real = _real_inputs(made.graph, node)
        del node.input[:], node.attribute[:]
        node.op_type = "Identity"
        node.input.extend(real)
    text: bytes = made.SerializeToString()
    return text


def _last_clips(graph: GraphProto) -> Iterator[NodeProto]:
    makers = {name: node for node in graph.node for name in node.output}
    waiting, seen = [value.name for value in graph.output], set[str]()
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        real = _real_inputs(graph, node)
        alone = len(real) == 1
        if node.op_type in CLIPS and alone:
            yield node
        if node.op_type in MOVES or (node.op_type in (*CLIPS, *SCALES) and alone):
            waiting += real


def _real_inputs(graph: GraphProto, node: NodeProto) -> list[str]:
    """Those that are no constants."""
    fixed = {tensor.name for tensor in graph.initializer}
    fixed |= {name for one in graph.node if one.op_type == "Constant" for name in one.output}
    return [name for name in node.input if name and name not in fixed]
