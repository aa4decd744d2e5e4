"""Lets a model's own int8 and uint8 be the accelerator's: a DequantizeLinear of an input, or a QuantizeLinear that makes an output.

Both become a Requantise, of a tensor or to a tensor that is integers outside and has a quantisation inside. The host gives and
takes these integers as they are, uint8 less 128 (`spec.samples.pack`).

Requires: checked scales (`check_scales`), Q and DQ joined to Requantise (`pair_quantisation`).
Ensures: no DequantizeLinear with one scale reads an input of its own type, unless the host moves its elements first, which it does
behind the DequantizeLinear and before a Requantise; equal ones are one Requantise. No QuantizeLinear with
one scale makes an output that no node reads. Any other QuantizeLinear with one scale, whose integers the CPU reads, is behind a
Requantise, which a layer can take: rounding a second time changes nothing.
Leaves alone: float models that take integers, a QuantizeLinear of an input, other types, other domains.
"""

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx, Requantise
from cnna.compiler.graph.ir import AnyNode, Graph, Quant
from cnna.compiler.passes.rounding.pair_quantisation import is_kind, join, quant_of
from cnna.spec.samples.pack import WHOLE_BYTES

VIEW_KINDS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


def integer_ends(graph: Graph) -> Graph:
    """Returns the graph with these ends."""
    edit = Editor(graph)
    if not any(isinstance(node.op, Requantise) or is_kind(node, "QuantizeLinear") for node in graph.nodes):
        return graph
    made: dict[tuple[str, Quant], str] = {}
    for node in edit:
        quant = quant_of(edit, node) if is_kind(node, "DequantizeLinear") or is_kind(node, "QuantizeLinear") else None
        if quant is None:
            continue
        source = node.inputs[0]
        if is_kind(node, "DequantizeLinear") and source in graph.inputs and _has_type(edit, node, source):
            if _is_viewed(edit, node):
                _round_behind(edit, node, quant)
                continue
            key = (source, quant)
            made[key] = join(edit, node, node.name, key, made.get(key))
        elif is_kind(node, "QuantizeLinear") and _has_type(edit, node, node.output):
            _round_first(edit, node, quant)
    return edit.finish()


def _is_viewed(edit: Editor, node: AnyNode) -> bool:
    """Whether the host gives an input another shape or order before the accelerator reads it; layers read four axes."""
    readers = [reader.op for reader in edit.consumers(node.output)]
    return len(edit.shape(node.output)) != 4 or any(isinstance(op, Onnx) and op.kind in VIEW_KINDS for op in readers)


def _round_behind(edit: Editor, node: AnyNode, quant: Quant) -> None:
    """Puts a Requantise, which changes nothing, behind a DequantizeLinear; views may come between the two."""
    real = edit.insert(node.name, node.op, node.inputs, f"{node.output}:real", edit.shape(node.output))
    edit.put(f"{node.name}:rounded", Requantise(quant), (real,), node.output)


def _round_first(edit: Editor, node: AnyNode, quant: Quant) -> None:
    """Makes a QuantizeLinear of a real tensor a Requantise, or puts one before it if other nodes read its integers."""
    source = node.inputs[0]
    maker = edit.producer(source)
    if maker is None or source in edit.types:
        return
    if node.output in edit.outputs and edit.uses(node.output) == 1:
        edit.put(node.name, Requantise(quant), (source,), node.output)
        return
    if isinstance(maker.op, Requantise):
        return
    rounded = edit.insert(f"{node.name}:rounded", Requantise(quant), (source,), f"{source}:rounded", edit.shape(source))
    edit.put(node.name, node.op, (rounded, *node.inputs[1:]), node.output)


def _has_type(edit: Editor, node: AnyNode, tensor: str) -> bool:
    """Whether a tensor of integers has the type of the node's zero point, which `quant_of` has taken for it."""
    given = len(node.inputs) > 2 and node.inputs[2]
    kind = str(edit.constants[node.inputs[2]].dtype) if given else "uint8"
    return edit.types.get(tensor) == kind and kind in WHOLE_BYTES
