"""Pools, and reductions that are pools of the whole map, become typed pools."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import AveragePool, MaxPool, Onnx, Transpose
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.canonical.canonical_pools import canonical_pools
from cnna.compiler.passes.canonical.canonical_views import canonical_views

from ...written import rewritten, written
from ..alone import after, ints, kinds, left_alone, only, typed, untyped

WINDOW = "kernel_shape=[3,2], strides=[2,3], pads=[1,0,1,0]"


@pytest.mark.parametrize(("node", "kind"), [("MaxPool", MaxPool), ("AveragePool", AveragePool)])
def test_windows(node, kind):
    """Sizes and padding must be the model's, rows before columns."""
    graph = untyped(f"g (float[N,2,7,8] x) => (float[N,2,4,3] y) {{ y = {node} <{WINDOW}> (x) }}")
    op = only(after(canonical_pools, graph), kind).op
    assert op.window == Window((3, 2), (2, 3), (1, 1), (1, 0, 1, 0))


AUTOMATIC = {"SAME_UPPER": ((4, 4), (0, 1, 1, 1)), "SAME_LOWER": ((4, 4), (1, 1, 0, 1)), "VALID": ((3, 2), (0, 0, 0, 0))}


@pytest.mark.parametrize("mode", AUTOMATIC)
def test_automatic_padding(mode):
    """It follows from the sizes of the map, rows before columns: padding on the other side would move every window."""
    (rows, columns), pads = AUTOMATIC[mode]
    window = f'kernel_shape=[2,3], strides=[2,1], auto_pad="{mode}"'
    graph, _ = rewritten(written(f"g (float[N,2,7,4] x) => (float[N,2,{rows},{columns}] y) {{ y = MaxPool <{window}> (x) }}"))
    assert only(graph, MaxPool).op.window.pads == pads


@pytest.mark.parametrize("include", [0, 1])
def test_padding_is_counted_or_not(include):
    """An average over a corner divides by 9 or by 4, as the attribute says."""
    text = f"""g (float[N,2,6,6] x) => (float[N,2,6,6] y) {{
        y = AveragePool <kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad={include}> (x) }}"""
    assert only(after(canonical_pools, untyped(text)), AveragePool).op.include_pad == bool(include)


WHOLE = {
    "GlobalAveragePool (x)": AveragePool,
    "GlobalMaxPool (x)": MaxPool,
    "ReduceMean (x, axes)": AveragePool,
    "ReduceMax (x, axes)": MaxPool,
}


@pytest.mark.parametrize("node", WHOLE)
def test_whole_map(node):
    """The kernel must be the map's rows and columns."""
    text = f"g (float[N,2,3,4] x) => (float[N,2,1,1] y) {{ y = {node} }}"
    graph = after(canonical_pools, untyped(text, {"axes": ints(-1, 2)}, 18))
    assert only(graph, WHOLE[node]).op.window == Window(kernel=(3, 4))


def test_mean_in_front_of_a_transpose():
    """TensorFlow's mean over axes 1 and 2 of a channels-last map must become the pool of the map itself."""
    text = """g (float[N,2,3,4] x) => (float[N,2] y) {
        t = Transpose <perm=[0,2,3,1]> (x)
        y = ReduceMean <keepdims=0> (t, axes) }"""
    graph = after(canonical_pools, canonical_views(untyped(text, {"axes": ints(1, 2)}, 18)))
    assert kinds(graph) == ["AveragePool", "Reshape"]
    assert not any(isinstance(node.op, Transpose) for node in graph.nodes)


STAYS = {
    "other axes": ("g (float[N,2,3,4] x) => (float[N,1,3,4] y) { y = ReduceMean (x, axes) }", {"axes": ints(1)}),
    "volume": ("g (float[N,2,3,4,4] x) => (float[N,2,2,2,2] y) { y = MaxPool <kernel_shape=[2,3,3]> (x) }", {}),
    "all axes": ("g (float[N,2,3,4] x) => (float[1,1,1,1] y) { y = ReduceMean (x) }", {}),
    "no axes of a vector": ("g (float[N,6] x) => (float[1,1] y) { y = ReduceMean (x, axes) }", {"axes": ints()}),
    "integers": ("g (int8[N,2,4,4] x) => (int8[N,2,3,3] y) { y = MaxPool <kernel_shape=[2,2]> (x) }", {}),
    "a constant's": ("g (float[N,2,1,1] x) => (float[N,2,1,1] y) { m = GlobalMaxPool (w) y = Add (x, m) }", {"w": (1, 2, 3, 4)}),
    "custom domain": ("g (float[N,2,3,4] x) => (float[N,2,1,1] y) { y = com.microsoft.GlobalMaxPool (x) }", {}),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """None of these is a pool of rows and columns."""
    text, weights = STAYS[name]
    assert left_alone(canonical_pools, untyped(text, weights, 18))


WHOLE_MAP, WINDOW_2X2 = Onnx("GlobalMaxPool"), Onnx("MaxPool", {"kernel_shape": (2, 2)})
UNKNOWN = {
    "rank under a window": (WINDOW_2X2, (), (1, 2, 3, 3)),
    "rank": (WHOLE_MAP, (), (1, 2, 1, 1)),
    "size": (WHOLE_MAP, (1, 2, 0, 4), (1, 2, 1, 1)),
    "several samples": (WHOLE_MAP, (3, 2, 3, 4), (3, 2, 1, 1)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_maps_of_unknown_size_stay(name):
    """A kernel of the size of the map needs that size, and the accelerator takes a map of one sample."""
    op, before, made = UNKNOWN[name]
    assert left_alone(canonical_pools, typed({"x": before}, [("y", op, ["x"], made)], ["y"]))


@pytest.mark.parametrize("unused", ["i", ""])
def test_pool_whose_indices_nobody_uses(unused):
    """Exporters name them all the same. An output without a name has nothing to do with absent inputs, such as the Clip's."""
    text = "g (float[N,2,4,4] x) => (float[N,2,3,3] y) { m, i = MaxPool <kernel_shape=[2,2]> (x) y = Clip (m, , high) }"
    graph = untyped(text, {"high": np.float32(1)})
    pool, clip = graph.nodes
    pool = replace(pool, op=replace(pool.op, more_outputs=(unused,)))
    assert isinstance(canonical_pools(replace(graph, nodes=(pool, clip))).nodes[0].op, MaxPool)


@pytest.mark.parametrize("keep", [0, 1])
def test_sum_over_all_pixels(keep):
    """The sum must be the mean times the number of pixels, with or without the axes of size 1."""
    text = f"g (float[N,2,3,4] x) => (float[N,2{',1,1' * keep}] y) {{ y = ReduceSum <keepdims={keep}> (x, axes) }}"
    graph = after(canonical_pools, untyped(text, {"axes": ints(-1, 2)}))
    assert [kind for kind in kinds(graph) if kind != "Reshape"] == ["AveragePool", "Affine"]


def test_computed_axes_stay():
    """Computed axes are known only when the model runs."""
    graph = untyped("g (float[N,2,3,4] x) => (float[1,2,1,1] y) { y = ReduceMean (x, axes) }", {"axes": ints(2, 3)}, 18)
    (node,) = graph.nodes
    assert left_alone(canonical_pools, replace(graph, nodes=(replace(node, inputs=("x", "x")),), constants={}))


def test_pool_whose_indices_are_used_stays():
    """The accelerator gives the greatest value, but not its place."""
    text = """g (float[N,2,4,4] x) => (float[N,2,2,2] y, float[N,2,2,2] z) {
        y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
        z = Cast <to=1> (i) }"""
    graph = untyped(text)
    assert left_alone(canonical_pools, graph)
