"""Sequences whose elements are known go; the others stay."""

import numpy as np
import pytest

from cnna.compiler.passes.unroll_sequences import unroll_sequences

from .alone import after, ints, kinds, left_alone, untyped

X = "float[N,6,4] x"
GONE = {  # nodes that make y of x; constants; operators that are left
    "s = SplitToSequence <axis=1> (x, parts) a = SequenceAt (s, last) y = Relu (a)": (
        {"parts": ints(1, 2, 3)}, ["Split", "Identity", "Relu"]),
    "s = SplitToSequence <axis=1> (x, four) a = SequenceAt (s, one) y = Relu (a)": (
        {"four": np.int64(4)}, ["Split", "Identity", "Relu"]),
    "s = SplitToSequence <axis=1, keepdims=0> (x) a = SequenceAt (s, one) y = Relu (a)": (
        {}, ["Split", "Squeeze", "Identity", "Relu"]),
    "r = Relu (x) s = SequenceConstruct (x, r) y = ConcatFromSequence <axis=1> (s)": ({}, ["Relu", "Concat"]),
    "r = Relu (x) s = SequenceConstruct (x, r) y = ConcatFromSequence <axis=-1, new_axis=1> (s)": (
        {}, ["Relu", "Unsqueeze", "Unsqueeze", "Concat"]),
    """e = SequenceEmpty () r = Relu (x) s = SequenceInsert (e, r) t = SequenceInsert (s, x, none)
       y = ConcatFromSequence <axis=1> (t)""": ({"none": np.int64(0)}, ["Relu", "Concat"]),
    """r = Relu (x) s = SequenceConstruct (x, r, r) t = SequenceErase (s, last) u = Identity (t) n = SequenceLength (u)
       f = Cast <to=1> (n) y = Add (x, f)""": ({}, ["Add"]),
}  # fmt: skip


@pytest.mark.parametrize("nodes", GONE)
def test_known_sequences_go(nodes):
    """What exporters write for torch.split or a list of maps would run on the CPU, of unknown size, with all that follows."""
    constants, left = GONE[nodes]
    used = {"last": np.int64(-1), "one": np.int64(1)}
    constants = constants | {name: value for name, value in used.items() if f", {name})" in nodes}
    graph = untyped(f"g ({X}) => (float y) {{ {nodes} }}", constants)
    changed = after(unroll_sequences, graph)
    assert kinds(changed) == left
    assert 0 not in changed.tensors["y"].shape


@pytest.mark.parametrize(
    "nodes",
    [
        "n = Shape (x) s = SequenceConstruct (x, x) m = ReduceMax <keepdims=0> (x) i = Cast <to=7> (m) y = SequenceAt (s, i)",
        "m = ReduceMax <keepdims=0> (x) i = Cast <to=7> (m) s = SplitToSequence <axis=1> (x, i) y = SequenceAt (s, one)",
    ],
)
def test_places_that_are_computed_stay(nodes):
    """Which element it is depends on the image."""
    graph = untyped(f"g ({X}) => (float[N,?,4] y) {{ {nodes} }}", {"one": np.int64(1)} if "one" in nodes else {})
    assert left_alone(unroll_sequences, graph)
