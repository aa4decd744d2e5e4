"""What makes a graph sound. `pipeline` checks it after every pass, so that the pass that breaks a graph is found at once."""

import numpy as np

from cnna.compiler.graph import ir
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Graph


def validate(graph: Graph) -> None:
    """AssertionError: a tensor made twice or used before it is made, an undescribed one, a missing constant or output."""
    known = {*graph.inputs, *graph.constants, ""}
    for node in graph.nodes:
        for name in node.inputs:
            assert name in known, f"{graph.name}: node '{node.name}' reads '{name}', which nothing before it makes"
        for name in outputs_of(node):
            assert not name or name not in known, f"{graph.name}: '{name}' is made twice, again by node '{node.name}'"
            assert not name or name in graph.tensors, f"{graph.name}: '{name}', made by node '{node.name}', has no shape"
        known.update(outputs_of(node))
    for name in (*graph.inputs, *graph.outputs):
        assert name in known, f"{graph.name}: output '{name}' is not made"
        assert name in graph.tensors, f"{graph.name}: '{name}' has no shape"


def validate_integer(graph: Graph) -> None:
    """As `validate`, for int8 graphs: (C, H, W) and a quantisation everywhere, and constants of the types `ir` names."""
    validate(graph)
    for name, tensor in graph.tensors.items():
        assert len(tensor.shape) == 3, f"'{name}' has shape {tensor.shape}, not (C, H, W)"
        assert min(tensor.shape) > 0, f"'{name}' has shape {tensor.shape}"
        assert tensor.quant is not None, f"'{name}' has no quantisation"
        assert -128 <= tensor.quant.zero <= 127, f"'{name}' has zero point {tensor.quant.zero}"
    for node in graph.nodes:
        if isinstance(node.op, ir.Mosaic):
            _validate_mosaic(graph, node, node.op)
        if isinstance(node.op, ir.Conv | ir.Depthwise):
            cout = graph.tensors[node.output].shape[0]
            kinds = {node.op.weights: "int8", node.op.bias: "int32", node.op.mult: "int32", node.op.shift: "int32"}
            for name, kind in kinds.items():
                assert graph.constants[name].dtype == kind, f"'{name}' is {graph.constants[name].dtype}, not {kind}"
                assert len(graph.constants[name]) == cout, f"'{name}' has {len(graph.constants[name])} channels, not {cout}"


def _validate_mosaic(graph: Graph, node: ir.Node, op: ir.Mosaic) -> None:
    """AssertionError: inputs that others read too or that are made from several tensors; pixels that none or two of them give."""
    makers = [graph.producer(name) for name in node.inputs]
    assert len({maker and (type(maker.op), maker.inputs) for maker in makers}) == 1, f"'{node.output}' is made from several tensors"
    given = np.zeros(graph.tensors[node.output].shape[1:], int)
    for name, (first, step) in zip(node.inputs, op.places, strict=True):
        assert graph.uses(name) == 1, f"'{name}' is read by others than '{node.output}'"
        down, right = (a + b * np.arange(n) for a, b, n in zip(first, step, graph.tensors[name].shape[1:], strict=True))
        given[down[:, None], right] += 1
    assert (given == 1).all(), f"'{node.output}' is not filled once by its parts"
