"""Turns operators that only rearrange elements (Reshape, Flatten, Squeeze, Unsqueeze, Transpose) into Reshape or Transpose.

Requires: folded constants and the shapes that follow from them (`fold_constants`).
Ensures: such an operator is a typed view if its shapes are known and the batch is the first axis before and after it.
Leaves alone: views of unknown shape, and views that move the batch axis or change its size.
"""

from math import prod

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx, Reshape, Transpose
from cnna.compiler.graph.ir import Graph, Node
from cnna.spec.errors import ModelError

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def canonical_views(graph: Graph) -> Graph:
    """Returns the graph with typed views. ModelError: a view changes the number of elements."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or not node.inputs or node.inputs[0] in edit.constants:
            continue
        if not edit.is_real(node):
            continue
        before, after = edit.shape(node.inputs[0]), edit.shape(node.output)
        known = before and after and min(before) > 0 and min(after) > 0
        if not known or before[0] != 1 or after[0] != 1 or _moves_batch(node, edit):
            continue
        if node.op.kind in RESHAPES:
            if prod(before) != prod(after):
                raise ModelError(
                    f"node '{node.name}' ({node.op.kind}): it turns {list(before)}, which has {prod(before)} elements, into "
                    f"{list(after)}, which has {prod(after)}; export it for this size"
                )
            edit.put(node.name, Reshape(after), node.inputs[:1], node.output)
        elif node.op.kind == "Transpose":
            perm = tuple(node.op.attributes.get("perm", reversed(range(len(before)))))
            if perm[0] == 0:
                edit.put(node.name, Transpose(perm), node.inputs, node.output)
    return edit.finish()


def _moves_batch(node: Node, edit: Editor) -> bool:
    """Whether a Flatten joins all samples into one row, or an Unsqueeze may put an axis before the batch ([1, N, ...]).

    The shapes of one sample do not show this, and a Reshape would take the new first axis for the batch.
    """
    if node.op.kind == "Flatten":
        return int(node.op.attributes.get("axis", 1)) % len(edit.shape(node.inputs[0])) == 0
    if node.op.kind != "Unsqueeze":
        return False
    axes = edit.constants.get(node.inputs[1])
    return axes is None or bool((axes % len(edit.shape(node.output)) == 0).any())
