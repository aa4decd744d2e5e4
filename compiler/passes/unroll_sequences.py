"""Replaces sequences by their elements, if these are known at compile time. Exporters write sequences for lists of tensors.

Requires: folded constants and the shapes that follow from them (`fold_constants`).
Ensures: a SplitToSequence with constant parts is a Split. SequenceAt, SequenceLength and ConcatFromSequence of a known sequence
read its elements. Constants and shapes that follow from this are folded and inferred again.
Leaves alone: sequences of tensors other than floats that would need a Split or a new axis, sequences that pass through a Loop or
If, and computed positions or parts.
"""

from collections.abc import Callable, Sequence

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node, Tensor
from cnna.compiler.passes.fold_constants import fold_constants

Lists = dict[str, tuple[str, ...]]  # the elements of each known sequence


def unroll_sequences(graph: Graph) -> Graph:
    """Returns the graph with sequences replaced by their elements."""
    if not any(isinstance(node.op, Onnx) and node.op.kind in (*_MAKERS, *_READERS) for node in graph.nodes):
        return graph
    edit, lists = Editor(graph), Lists()
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain:
            continue
        if node.op.kind in _MAKERS:
            elements = _MAKERS[node.op.kind](edit, node, lists)
            if elements is not None:
                lists[node.output] = elements
        elif node.op.kind in _READERS and node.inputs[0] in lists:
            _READERS[node.op.kind](edit, node, lists[node.inputs[0]])
    return fold_constants(edit.finish())


# --- operators that make a sequence ---


def _construct(edit: Editor, node: Node, lists: Lists) -> tuple[str, ...] | None:
    return node.inputs


def _same(edit: Editor, node: Node, lists: Lists) -> tuple[str, ...] | None:
    return lists.get(node.inputs[0])


def _insert(edit: Editor, node: Node, lists: Lists) -> tuple[str, ...] | None:
    before = lists.get(node.inputs[0])
    place = _place(edit, node, 2, before, end=True)
    return None if before is None or place is None else (*before[:place], node.inputs[1], *before[place:])


def _erase(edit: Editor, node: Node, lists: Lists) -> tuple[str, ...] | None:
    before = lists.get(node.inputs[0])
    place = _place(edit, node, 1, before)
    return None if before is None or place is None else (*before[:place], *before[place + 1 :])


def _place(edit: Editor, node: Node, operand: int, elements: Sequence[str] | None, end: bool = False) -> int | None:
    """The position that an operand names, counted from the front. None: unknown.

    Without the operand it is the last element, or with `end` the place behind it.
    """
    if elements is None:
        return None
    room = len(elements) + end
    if len(node.inputs) <= operand or not node.inputs[operand]:
        return room - 1 if room else None
    value = edit.constants.get(node.inputs[operand])
    if value is None or value.size != 1:
        return None
    place = int(value.reshape(-1)[0])
    place += len(elements) if place < 0 else 0
    return place if 0 <= place < room else None


def _split(edit: Editor, node: Node, lists: Lists) -> tuple[str, ...] | None:
    shape, attributes = edit.shape(node.inputs[0]), node.op.attributes
    if not shape or node.inputs[0] in edit.types or node.inputs[0] in edit.constants:
        return None
    axis = int(attributes.get("axis", 0)) % len(shape)
    sizes = _sizes(edit, node, shape[axis])
    if not sizes or min(*shape, *sizes) < 1 or sum(sizes) != shape[axis]:
        return None
    given = len(node.inputs) > 1 and node.inputs[1]
    parts = tuple(edit.fresh(f"{node.output}:{number}") for number in range(len(sizes)))
    split = Onnx("Split", {"axis": axis}, "", parts[1:])
    amounts = edit.constant(f"{node.output}:sizes", np.array(sizes, np.int64))
    edit.put(node.name, split, (node.inputs[0], amounts), parts[0])
    edit.tensors |= {part: Tensor((*shape[:axis], size, *shape[axis + 1 :])) for part, size in zip(parts, sizes, strict=True)}
    if given or attributes.get("keepdims", 1):
        return parts
    axes = edit.constant(f"{node.output}:axes", np.array([axis], np.int64))
    rest = (*shape[:axis], *shape[axis + 1 :])
    return tuple(edit.insert(f"{node.name}:squeeze", Onnx("Squeeze"), (part, axes), f"{part}:squeezed", rest) for part in parts)


def _sizes(edit: Editor, node: Node, length: int) -> list[int]:
    """The sizes of the parts into which an axis of `length` is split; [] if they are unknown."""
    if len(node.inputs) < 2 or not node.inputs[1]:
        return [1] * length
    value = edit.constants.get(node.inputs[1])
    if value is None:
        return []
    if value.ndim:
        return [int(size) for size in value]
    size = int(value)
    return [min(size, length - first) for first in range(0, length, size)] if size > 0 else []


# --- operators that read a sequence ---


def _at(edit: Editor, node: Node, elements: Sequence[str]) -> None:
    place = _place(edit, node, 1, elements)
    if place is not None and len(node.inputs) > 1:
        edit.put(node.name, Onnx("Identity"), (elements[place],), node.output)


def _length(edit: Editor, node: Node, elements: Sequence[str]) -> None:
    edit.put(node.name, Onnx("Constant", {"value": np.array(len(elements), np.int64)}), (), node.output)


def _concat(edit: Editor, node: Node, elements: Sequence[str]) -> None:
    axis, stacked = int(node.op.attributes["axis"]), bool(node.op.attributes.get("new_axis", 0))
    shapes = [edit.shape(name) for name in elements]
    if not shapes or (stacked and not all(shapes)) or (stacked and any(name in edit.types for name in elements)):
        return
    parts = list(elements)
    if stacked:
        axis %= len(shapes[0]) + 1
        axes = edit.constant(f"{node.output}:axes", np.array([axis], np.int64))
        for number, (name, shape) in enumerate(zip(elements, shapes, strict=True)):
            made = (*shape[:axis], 1, *shape[axis:])
            parts[number] = edit.insert(f"{node.name}:stack", Onnx("Unsqueeze"), (name, axes), f"{node.output}:{number}", made)
    edit.put(node.name, Onnx("Concat", {"axis": axis}), tuple(parts), node.output)


_MAKERS: dict[str, Callable[[Editor, Node, Lists], tuple[str, ...] | None]] = {
    "Identity": _same,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SplitToSequence": _split,
}
_READERS: dict[str, Callable[[Editor, Node, Sequence[str]], None]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceLength": _length,
}
