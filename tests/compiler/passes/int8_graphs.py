"""Small int8 graphs, and the check that a pass keeps every value that it leaves, to the bit."""

from collections.abc import Sequence

import numpy as np

from cnna.compiler.graph.ir import AnyOperator, Clamp, Combine, Conv, Graph, Node, Quant, Tensor, Window
from cnna.compiler.graph.validate import validate_integer
from cnna.compiler.passes.pipeline import Pass
from cnna.sim.reference import reference
from cnna.spec.arith import factors

SHAPE = (4, 5, 6)
QUANT = Quant(0.05, 3)
CLAMP = Clamp(QUANT.zero, QUANT.zero, 127)
COPY = Combine(*factors(1.7, QUANT.zero), CLAMP)
Made = tuple[str, AnyOperator, Sequence[str]]  # output, operator, inputs


def conv(output: str, source: str) -> Made:
    """A padded 3x3 convolution of a map, with constants of its own."""
    window = Window((3, 3), pads=(1, 1, 1, 1))
    names = (f"{output}:weights", f"{output}:bias", f"{output}:mult", f"{output}:shift")
    return output, Conv(window, 1, *names, Clamp(QUANT.zero)), [source]


def int8_graph(nodes: Sequence[Made], outputs: Sequence[str]) -> Graph:
    """A graph in which all maps have SHAPE and QUANT; weights, biases and multipliers are seeded."""
    rng, constants = np.random.default_rng(1), {}
    for output, op, _ in nodes:
        if isinstance(op, Conv):
            constants[f"{output}:weights"] = rng.integers(-128, 128, (SHAPE[0], SHAPE[0], 3, 3)).astype(np.int8)
            constants[f"{output}:bias"] = rng.integers(-999, 999, SHAPE[0]).astype(np.int32)
            constants[f"{output}:mult"] = rng.integers(1 << 23, 1 << 24, SHAPE[0]).astype(np.int32)
            constants[f"{output}:shift"] = np.full(SHAPE[0], 33, np.int32)
    tensors = {name: Tensor(SHAPE, QUANT) for name in ("x", *(output for output, _, _ in nodes))}
    made = tuple(Node(output, op, tuple(inputs), output) for output, op, inputs in nodes)
    graph = Graph("small", ("x",), tuple(outputs), made, tensors, constants)
    validate_integer(graph)
    return graph


def exact(one: Pass, graph: Graph) -> Graph:
    """The sound graph that a pass makes of another. AssertionError: a tensor of both differs in the reference."""
    changed = one(graph)
    validate_integer(changed)
    assert (changed.inputs, changed.outputs) == (graph.inputs, graph.outputs)
    image = {"x": np.random.default_rng(2).integers(-128, 128, (2, *SHAPE)).astype(np.int8)}
    expected = reference.run(graph, image)
    for name, value in reference.run(changed, image).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
        assert len(np.unique(value)) > 20, f"'{name}' says nothing: it is saturated"
    return changed
