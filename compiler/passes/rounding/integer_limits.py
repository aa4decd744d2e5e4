"""Turns limits of integers behind a QuantizeLinear into limits of the real numbers before it, which a layer can take.

Quantisers write narrow integers as wide ones with a Clip between Q and DQ: 7 bits in uint8, 4 bits in int8. Rounding keeps the
order of values and maps the real value of an integer to this integer, so the limit may come first:
clip(round(x / scale) + zero, low, high) = round(clip(x, (low - zero) * scale, (high - zero) * scale) / scale) + zero.

Requires: folded constants (`fold_constants`), checked scales (`check_scales`).
Ensures: if all that reads a tensor does so behind equal QuantizeLinears and equal limits of integers (Clip, Min, Max, Relu with one
number), a Clip of real numbers stands before the QuantizeLinear in their place.
Leaves alone: limits of the model's inputs, which the host rounds before anything else, and of integers that others read without
them; `hoist_dequantise` puts those behind the DequantizeLinear. Scales for each channel, other domains.
"""

from typing import Any

import numpy as np

from cnna.compiler.graph.editor import Editor, settled
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import AnyNode, Graph, Node, Tensor

LIMITS = ("Relu", "Clip", "Min", "Max")
Bounds = tuple[int | None, int | None]  # None: the type's own


def integer_limits(graph: Graph) -> Graph:
    """Returns the graph with these limits before the rounding."""
    return settled(graph, lambda edit, node: _moved_before(edit, node, graph.inputs))


def bounds_of(edit: Editor, node: Node) -> tuple[str, Bounds] | None:
    """The tensor of integers that a node limits, and the limits; None if the node does something else."""
    op = node.op
    if not isinstance(op, Onnx) or op.domain or op.kind not in LIMITS or edit.types.get(node.output) not in ("int8", "uint8"):
        return None
    computed = [name for name in node.inputs if name and name not in edit.constants]
    numbers = [edit.constants.get(name) for name in node.inputs]
    if len(computed) != 1 or any(value is not None and value.size != 1 for value in numbers):
        return None
    if len(edit.shape(computed[0])) != len(edit.shape(node.output)):  # a number with more axes adds axes
        return None
    if op.kind == "Clip":
        if node.inputs[0] != computed[0]:
            return None
        low, high = (_number(value) for value in (*numbers[1:], None, None)[:2])
    elif op.kind == "Relu":
        low, high = 0, None
    else:
        given = [int(value.reshape(-1)[0]) for value in numbers if value is not None]
        if not given:
            return None
        low, high = (max(given), None) if op.kind == "Max" else (None, min(given))
    own = np.iinfo(edit.types[node.output])
    return computed[0], (None if low in (None, own.min) else low, None if high in (None, own.max) else high)


def _number(value: np.ndarray | None) -> int | None:
    return None if value is None else int(value.reshape(-1)[0])


def real_limits(edit: Editor, node: AnyNode, bounds: Bounds, scale: np.ndarray, zero: np.ndarray) -> tuple[Onnx, tuple[str, ...]]:
    """A Clip and its limits, or an Identity, that does to real numbers what `bounds` do to integers.

    The limits are those numbers to which a DequantizeLinear with this scale and zero point turns the bounds.
    """
    if bounds == (None, None):
        return Onnx("Identity"), ()
    names = ["", ""]
    for number, bound in enumerate(bounds):
        if bound is not None:
            whole = np.float32(bound) - zero.astype(np.float32).reshape(())
            names[number] = edit.constant(f"{node.name}:limit{number}", np.asarray(whole * scale.astype(np.float32).reshape(())))
    return Onnx("Clip"), tuple(names)


def rounding_of(edit: Editor, node: AnyNode) -> tuple[np.ndarray, np.ndarray] | None:
    """Scale and zero point of a Q or DQ that has one constant of each; None for others."""
    constants = [edit.constants.get(name) for name in node.inputs[1:] if name]
    if any(value is None or value.size != 1 for value in constants):
        return None
    values: list[Any] = [*constants, np.zeros((), np.uint8)]
    return values[0], values[1]


def _moved_before(edit: Editor, node: AnyNode, inputs: tuple[str, ...]) -> bool:
    limits = bounds_of(edit, node)
    rounder = edit.producer(limits[0]) if limits else None
    if rounder is None or not _rounds(rounder):
        return False
    x = rounder.inputs[0]
    if x in inputs or x in edit.constants or x in edit.types or x in edit.outputs:
        return False
    rounders = edit.consumers(x)
    found = [_limited(edit, one) for one in rounders]
    if found[0] is None or any(one != found[0] for one in found):
        return False
    scale, zero, bounds = found[0]
    op, names = real_limits(edit, node, bounds, np.asarray(scale, np.float32), np.asarray(zero))
    limited = edit.fresh(f"{x}:limited")
    edit.tensors[limited] = Tensor(edit.shape(x))
    edit.put(node.name, op, (x, *names), limited)
    for one in rounders:
        _round_behind(edit, one, limited)
    return True


def _rounds(node: AnyNode) -> bool:
    return isinstance(node.op, Onnx) and not node.op.domain and node.op.kind == "QuantizeLinear"


def _limited(edit: Editor, node: AnyNode) -> tuple[float, int, Bounds] | None:
    """Scale, zero point and limits of a QuantizeLinear whose every reader has the same limits; None for others."""
    rounding = rounding_of(edit, node) if _rounds(node) else None
    found = {bounds_of(edit, reader) for reader in edit.consumers(node.output)}
    limits = found.pop() if len(found) == 1 else None
    if rounding is None or limits is None or node.output in edit.outputs:
        return None
    return float(rounding[0].reshape(())), int(rounding[1].reshape(())), limits[1]


def _round_behind(edit: Editor, node: AnyNode, limited: str) -> None:
    """Lets a QuantizeLinear read the limited tensor and make what its readers have made, which go."""
    readers = edit.consumers(node.output)
    output = next((reader.output for reader in readers if reader.output in edit.outputs), readers[0].output)
    edit.remove(node)
    for reader in readers:
        edit.remove(reader)
        if reader.output in edit.outputs and reader.output != output:
            edit.put(reader.name, Onnx("Identity"), (output,), reader.output)
        else:
            edit.redirect(reader.output, output)
    edit.put(node.name, node.op, (limited, *node.inputs[1:]), output)
