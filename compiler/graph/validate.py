"""Checks that a graph is sound. `pipeline` calls it after every pass, so that the pass that breaks a graph is found at once."""

import numpy as np

from cnna.compiler.graph import ir
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Graph


def validate(graph: Graph) -> None:
    """AssertionError: a tensor is made twice, used before it is made, or has no shape; a constant or output is missing."""
    known = {*graph.inputs, *graph.constants, ""}
    for node in graph.nodes:
        for name in node.inputs:
            assert name in known, f"{graph.name}: node '{node.name}' reads '{name}', which no node before it makes"
        for name in ir.constants_of(node.op):
            assert name in graph.constants, f"{graph.name}: node '{node.name}' names a constant '{name}', which is not there"
        for name in outputs_of(node):
            assert not name or name not in known, f"{graph.name}: '{name}' is made twice, again by node '{node.name}'"
            assert not name or name in graph.tensors, f"{graph.name}: '{name}', made by node '{node.name}', has no shape"
        known.update(outputs_of(node))
    for name in (*graph.inputs, *graph.outputs):
        assert name in known, f"{graph.name}: output '{name}' is not made"
        assert name in graph.tensors, f"{graph.name}: '{name}' has no shape"


def validate_integer(graph: Graph) -> None:
    """As `validate`, and checks what int8 graphs need.

    Every tensor must be (C, H, W) with a quantisation, and constants must have the types that `ir` names.
    """
    validate(graph)
    for name, tensor in graph.tensors.items():
        assert len(tensor.shape) == 3, f"'{name}' has shape {tensor.shape}, not (C, H, W)"
        assert min(tensor.shape) > 0, f"'{name}' has shape {tensor.shape}"
        assert tensor.quant is not None, f"'{name}' has no quantisation"
        assert -128 <= tensor.quant.zero <= 127, f"'{name}' has zero point {tensor.quant.zero}"
    for node in graph.nodes:
        if isinstance(node.op, ir.PAIRS):
            _validate_operands(graph, node)
        if isinstance(node.op, ir.Mosaic):
            _validate_mosaic(graph, node, node.op)
        if isinstance(node.op, ir.Conv | ir.Depthwise):
            cout = graph.tensors[node.output].shape[0]
            kinds = {node.op.weights: "int8", node.op.bias: "int32", node.op.mult: "int32", node.op.shift: "int32"}
            for name, kind in kinds.items():
                assert graph.constants[name].dtype == kind, f"'{name}' is {graph.constants[name].dtype}, not {kind}"
                assert len(graph.constants[name]) == cout, f"'{name}' has {len(graph.constants[name])} channels, not {cout}"


def _validate_operands(graph: Graph, node: ir.Node) -> None:
    """AssertionError: the first operand has another shape than the output, or the second has and is not flat."""
    out, first, *rest = (graph.tensors[name].shape for name in (node.output, *node.inputs))
    assert first == out, f"'{node.output}' has shape {out}, but '{node.inputs[0]}' {first}"
    for shape in rest:
        assert shape in (out, (out[0], 1, 1)), f"'{node.output}' has shape {out}, but '{node.inputs[1]}' {shape}"


def _validate_mosaic(graph: Graph, node: ir.Node, op: ir.Mosaic) -> None:
    """AssertionError: others read an input too; inputs differ in source, kind or table; a pixel comes from no input or from two."""
    makers = [graph.producer(name) for name in node.inputs]
    assert len({maker and (type(maker.op), maker.inputs) for maker in makers}) == 1, f"'{node.output}' is made from several tensors"
    tables = {getattr(maker.op, "table", None) for maker in makers if maker}
    assert len(tables) == 1, f"the parts of '{node.output}' have several tables"
    given = np.zeros(graph.tensors[node.output].shape[1:], int)
    for name, (first, step) in zip(node.inputs, op.places, strict=True):
        assert graph.uses(name) == 1, f"'{name}' is read by others besides '{node.output}'"
        down, right = (a + b * np.arange(n) for a, b, n in zip(first, step, graph.tensors[name].shape[1:], strict=True))
        given[down[:, None], right] += 1
    assert (given == 1).all(), f"'{node.output}' has pixels that no part, or more than one part, fills"
