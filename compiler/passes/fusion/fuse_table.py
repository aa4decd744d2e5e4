"""Folds a table into the operator that makes its input, in the int8 graph, and copies before and behind it into the table.

The engines look up what they have rounded, and the array does so before it adds a residual operand. A copy at another scale is a
table too, and a table of a table is one table.

Requires: an int8 graph; residual adds not yet folded (`fuse_residual`), so that a convolution's table comes before its add.
Ensures: a table of what nothing else reads is part of the operator that makes it, if that operator rounds, or of each operator that
makes a part of a Mosaic, if all of them round; of a table and a copy or two tables in a row one is left.
Leaves alone: tables of tensors that others read too or that come from outside, and sums that a convolution can take.
"""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor, settled
from cnna.compiler.graph.ir import (
    Affine,
    AnyNode,
    AveragePool,
    Bilinear,
    Combine,
    Conv,
    Depthwise,
    Graph,
    MaxPool,
    Mosaic,
    Node,
    Product,
    Table,
)
from cnna.compiler.passes.fusion.fuse_residual import adders
from cnna.spec import arith

Rounding = Conv | Depthwise | AveragePool | Bilinear | Affine | Combine | Product


def fuse_table(graph: Graph) -> Graph:
    """Returns the graph with those tables folded; every value of what remains is the same int8."""
    joined = settled(graph, _joined)
    return settled(joined, _folded)


def _joined(edit: Editor, node: AnyNode) -> bool:
    """Makes one table of a table and a copy, or of two tables. Two copies stay: a convolution may take the second."""
    before = edit.sole(node.inputs[0]) if node.inputs else None
    first, second = _as_table(before), _as_table(node)
    if before is None or first is None or second is None or not (isinstance(node.op, Table) or isinstance(before.op, Table)):
        return False
    edit.remove(before)
    both = np.frombuffer(second, np.int8)[np.frombuffer(first, np.uint8)]
    edit.put(node.name, Table(both.tobytes()), before.inputs, node.output)
    return True


def _as_table(node: Node | None) -> bytes | None:
    """The values of an operator of one int8; None for others."""
    if node is None or len(node.inputs) != 1:
        return None
    op = node.op
    if isinstance(op, Combine) and op.table is None:
        x = np.arange(256, dtype=np.uint8).view(np.int8)
        return arith.combine(
            x, op.factor_a, np.int8(0), op.factor_b, op.offset, op.shift, op.out.zero, op.out.low, op.out.high
        ).tobytes()
    return op.values if isinstance(op, Table) else None


def _folded(edit: Editor, node: AnyNode) -> bool:
    if not isinstance(node.op, Table):
        return False
    before = edit.sole(node.inputs[0])
    if before is not None and isinstance(before.op, Mosaic):
        return _into_parts(edit, before, node)
    op = None if before is None else _with_table(edit, before, node.op)
    if before is None or op is None:
        return False
    edit.remove(before)
    edit.put(before.name, op, before.inputs, node.output)
    return True


def _into_parts(edit: Editor, mosaic: Node, node: Node) -> bool:
    """Gives the table to the operators that make the parts of a Mosaic: phases of a ConvTranspose, whose pixels alternate."""
    made: dict[str, AnyNode] = {}
    for name in mosaic.inputs:
        part = edit.producer(name)
        op = None if part is None else _with_table(edit, part, node.op)
        if part is None or op is None:
            return False
        made[name] = replace(part, op=op, output=edit.fresh(f"{name}:table"))
    quant = edit.tensors[node.output].quant
    for name, part in made.items():
        edit.tensors[part.output] = replace(edit.tensors[name], quant=quant)
    edit.replace_nodes(made)
    edit.remove(mosaic)
    edit.put(mosaic.name, mosaic.op, tuple(made[name].output for name in mosaic.inputs), node.output)
    return True


def _with_table(edit: Editor, node: Node, table: Table) -> MaxPool | Rounding | None:
    """An operator that looks up what it makes; None where the engines cannot."""
    op = node.op
    if isinstance(op, MaxPool):
        return replace(op, requant=replace(op.requant, table=table)) if op.requant.table is None else None
    if not isinstance(op, Rounding) or op.table is not None:
        return None
    if isinstance(op, Conv) and op.residual is not None:
        return None
    if isinstance(op, Combine) and adders(edit, node):
        return None  # the convolution takes the sum
    return replace(op, table=table)
