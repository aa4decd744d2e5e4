"""Passes that turn ONNX operators into typed ones leave others alone: typed ones, other kinds, other domains."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Add, Clip, Onnx
from cnna.compiler.passes.canonical.canonical_conv import canonical_conv
from cnna.compiler.passes.canonical.canonical_conv_transpose import canonical_conv_transpose
from cnna.compiler.passes.canonical.canonical_elementwise import canonical_elementwise
from cnna.compiler.passes.canonical.canonical_gemm import canonical_gemm
from cnna.compiler.passes.canonical.canonical_pixels import canonical_pixels
from cnna.compiler.passes.canonical.canonical_pools import canonical_pools
from cnna.compiler.passes.canonical.canonical_views import canonical_views
from cnna.compiler.passes.rounding.check_scales import check_scales
from cnna.compiler.passes.rounding.dequantise_constants import dequantise_constants
from cnna.compiler.passes.rounding.hoist_dequantise import hoist_dequantise
from cnna.compiler.passes.rounding.pair_quantisation import pair_quantisation

from .alone import left_alone, typed, untyped

MAP = "float[N,3,4,4]"
CASES = {  # pass: (its operator, constants)
    canonical_conv: (f"g ({MAP} x) => (float[N,2,4,4] y) {{ y = Conv (x, w) }}", {"w": (2, 3, 1, 1)}),
    canonical_conv_transpose: (f"g ({MAP} x) => (float[N,2,5,5] y) {{ y = ConvTranspose (x, w) }}", {"w": (3, 2, 2, 2)}),
    canonical_pixels: (f"g ({MAP} x) => (float[N,2,4,4] y) {{ y = Gather <axis=1> (x, i) }}", {"i": np.array([2, 0])}),
    canonical_elementwise: (f"g ({MAP} x) => ({MAP} y) {{ y = Relu (x) }}", {}),
    canonical_gemm: ("g (float[N,3] x) => (float[N,2] y) { y = Gemm (x, w) }", {"w": (3, 2)}),
    canonical_pools: (f"g ({MAP} x) => (float[N,3,3,3] y) {{ y = MaxPool <kernel_shape=[2,2]> (x) }}", {}),
    canonical_views: (f"g ({MAP} x) => (float[N,48] y) {{ y = Flatten (x) }}", {}),
}
passes = pytest.mark.parametrize("one", CASES, ids=lambda one: one.__name__)


@passes
def test_typed_operators_stay(one):
    """Typed operators have neither kind nor attributes: a pass that looked for these would end in a traceback."""
    graph = one(untyped(*CASES[one]))
    assert not all(isinstance(node.op, Onnx) for node in graph.nodes)
    assert left_alone(one, graph)


@passes
def test_operators_of_other_domains_stay(one):
    """The Conv of another domain may compute anything."""
    graph = untyped(*CASES[one])
    theirs = tuple(replace(node, op=replace(node.op, domain="com.example")) for node in graph.nodes)
    assert left_alone(one, replace(graph, nodes=theirs))


ROUNDING = pytest.mark.parametrize(
    "one", [check_scales, dequantise_constants, hoist_dequantise, pair_quantisation], ids=lambda one: one.__name__
)
PAIRS = f"""g ({MAP} x) => ({MAP} y) {{
    q = QuantizeLinear (x, s, z) t = Transpose <perm=[0,1,3,2]> (q) a = DequantizeLinear (t, s, z)
    r = QuantizeLinear (x, s, z) b = DequantizeLinear (r, s, z)
    w = DequantizeLinear (whole, s, z)
    c = Add (a, b) y = Add (c, w) }}"""


@ROUNDING
def test_rounding_of_other_domains_stays(one):
    """Another domain's scale may mean anything."""
    graph = untyped(PAIRS, {"whole": np.ones((1, 3, 4, 4), np.int8), "s": np.float32(-1), "z": np.int8(3)})
    theirs = tuple(replace(node, op=replace(node.op, domain="com.example")) for node in graph.nodes)
    assert left_alone(one, replace(graph, nodes=theirs))


@ROUNDING
def test_typed_operators_are_no_rounding(one):
    """They have no kind, even where all that they read is constant."""
    shape = (1, 3, 4, 4)
    nodes = [("a", Clip(0.0), ["w"], shape), ("b", Clip(0.0), ["x"], shape), ("y", Add(), ["a", "b"], shape)]
    assert left_alone(one, typed({"x": shape}, nodes, ["y"], {"w": shape}))


@passes
def test_operators_without_inputs_stay(one):
    """A RandomNormal reads nothing: a pass that asked for its first input would end in a traceback."""
    assert left_alone(one, untyped(f"g ({MAP} x) => ({MAP} y) {{ r = RandomNormal <shape=[1,3,4,4]> () y = Mod <fmod=1> (x, r) }}"))


@passes
@pytest.mark.parametrize("kind", ["Sin", "Shape"])
def test_other_kinds_stay(one, kind):
    """A pass would take an operator for one of its own because of its operands."""
    kept = f"{MAP} y" if kind == "Sin" else "int64[4] y"
    assert left_alone(one, untyped(f"g ({MAP} x) => ({kept}) {{ y = {kind} (x) }}", {"unused": np.ones(1, np.float32)}))
