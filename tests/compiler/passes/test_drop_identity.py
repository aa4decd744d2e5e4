"""Operators that change nothing are dropped; those that only look so stay."""

from math import inf

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Affine, Clip, Concat, Requantise, Reshape, Transpose
from cnna.compiler.graph.ir import Quant
from cnna.compiler.passes.drop_identity import drop_identity

from .alone import after, ints, kinds, left_alone, typed, untyped

SHAPE = (1, 2, 3, 4)
CONSTANTS = {"one": np.ones(2), "nought": np.zeros(2)}
ONNX = {
    "Identity (r)": {},
    "Dropout (r)": {},
    "Sum (r)": {},
    "Concat <axis=1> (r)": {},
    "Cast <to=1> (x)": {},
    "Pad (r, none)": {"none": ints(0, 0, 0, 0, 0, 0, 0, 0)},
}


@pytest.mark.parametrize("node", ONNX)
def test_onnx_identities_go(node):
    """Each would be refused between two layers, as an operator that the accelerator lacks."""
    text = f"""g (float[N,2,3,4] x) => (float[N,2,3,4] y) {{
        r = Relu (x)
        i = {node}
        y = Tanh (i) }}"""
    graph = after(drop_identity, untyped(text, ONNX[node]))
    assert kinds(graph) == (["Tanh"] if "(x)" in node else ["Relu", "Tanh"])


NEUTRAL = {
    "view": Reshape(SHAPE),
    "axes in order": Transpose((0, 1, 2, 3)),
    "no limits": Clip(),
    "one part": Concat(),
    "times 1 plus 0": Affine("one", "nought"),
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_typed_identities_go(name):
    """Each would cost a walk over the whole map."""
    nodes = [("a", Clip(0.0), ["x"], SHAPE), ("b", NEUTRAL[name], ["a"], SHAPE), ("y", Clip(-inf, 1.0), ["b"], SHAPE)]
    assert kinds(after(drop_identity, typed({"x": SHAPE}, nodes, ["y"], CONSTANTS))) == ["Clip", "Clip"]


def test_producer_takes_the_name_of_an_output():
    """The output would lose the name by which the user asks for it."""
    nodes = [("a", Clip(0.0), ["x"], SHAPE), ("y", Reshape(SHAPE), ["a"], SHAPE)]
    assert [node.output for node in after(drop_identity, typed({"x": SHAPE}, nodes, ["y"])).nodes] == ["y"]


STAYS = {
    "between input and output": [("y", Reshape(SHAPE), ["x"], SHAPE)],
    "axes out of order": [("a", Clip(0.0), ["x"], SHAPE), ("y", Transpose((0, 2, 1, 3)), ["a"], (1, 3, 2, 4))],
    "limits": [("a", Clip(0.0), ["x"], SHAPE), ("y", Affine("one", "nought", low=0.5), ["a"], SHAPE)],
    "shift": [("a", Clip(0.0), ["x"], SHAPE), ("y", Affine("one", "one"), ["a"], SHAPE)],
    "rounding": [("a", Clip(0.0), ["x"], SHAPE), ("y", Requantise(Quant(0.1, 0)), ["a"], SHAPE)],
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """The first case has two names that users know; the others compute something."""
    assert left_alone(drop_identity, typed({"x": SHAPE}, STAYS[name], ["y"], {k: CONSTANTS[k] for k in _used(STAYS[name])}))


def _used(nodes):
    return {value for _, op, _, _ in nodes if isinstance(op, Affine) for value in (op.scale, op.shift)}


def test_mask_that_is_used_stays():
    """The second output of a Dropout is not its input."""
    text = """g (float[N,2,3,4] x) => (float[N,2,3,4] y, float[N,2,3,4] z) {
        y, m = Dropout (x)
        z = Cast <to=1> (m) }"""
    assert kinds(drop_identity(untyped(text))) == ["Dropout", "Cast"]
