"""Moves a DequantizeLinear above operators that only move or choose int8 elements, so that they too work on real values."""

from dataclasses import replace

from cnna.compiler.editor import Editor
from cnna.compiler.float_ops import Onnx
from cnna.compiler.ir import Graph, Tensor

MOVERS = ("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Slice", "Concat")


def hoist_dequantise(graph: Graph) -> Graph:
    """op(q) and then DQ becomes DQ and then op, as often as it takes."""
    edit = Editor(graph)
    again = True
    while again:
        again = False
        for node in edit:
            if not isinstance(node.op, Onnx) or node.op.kind != "DequantizeLinear" or node.output in edit.outputs:
                continue
            mover = edit.producer(node.inputs[0], Onnx)
            if mover is None or mover.op.kind not in MOVERS or mover.output in edit.outputs:
                continue
            readers = edit.consumers(mover.output)
            if any(reader.op != node.op or reader.inputs != node.inputs or reader.output in edit.outputs for reader in readers):
                continue
            for reader in readers:
                if reader.output != node.output:
                    edit.remove(reader)
                    edit.redirect(reader.output, node.output)
            activations = mover.inputs if mover.op.kind == "Concat" else mover.inputs[:1]
            real = []
            for name in activations:
                output = edit.fresh(f"{name}:real")
                edit.tensors[output] = Tensor(edit.shape(name))
                real.append(edit.put(f"{node.name}:{name}", node.op, (name, *node.inputs[1:]), output))
            edit.remove(mover)
            edit.remove(node)
            edit.nodes[node.output] = replace(mover, inputs=(*real, *mover.inputs[len(real) :]), output=node.output)
            again = True
    return edit.finish()
