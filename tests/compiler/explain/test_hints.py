"""Each hint that `cnna explain` gives, read beside a small model that causes it; and what it advises is tried."""

import numpy as np
import pytest

from cnna.compiler.explain.explain import explain
from cnna.compiler.explain.rows import BEGINS
from cnna.compiler.explain.text import summary, why
from cnna.compiler.frontend.pieces import hints
from cnna.compiler.frontend.pieces.support import SIZE_MAX
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR, CPU

from ..written import Shapes
from .test_explain import STEM, TINY, WEIGHTS, graph

MORE: Shapes = {
    **WEIGHTS,
    "k1": (1, 3, 3, 3),
    "wt": (8, 8, 3, 3),
    "w3": (4, 8, 3, 3, 3),
    "wrow": (4, 8, 3),
    "w1x1": (1, 8, 1, 1),
    "g8": np.ones(8, np.float32),
    "b8": np.zeros(8, np.float32),
    "eps": np.array([1e-5], np.float32),
    "powers": np.array([2, 3] * 4, np.float32).reshape(8, 1, 1),
    "slopes": np.array([0.5, 2] * 4, np.float32).reshape(8, 1, 1),
    "half": np.array([1, 1, 1.5, 1.5], np.float32),
    "channels": np.array([1]),
    "pairs": np.array([[0, 1], [1, 0]]),
    "cube": np.array([1, 8, 2, 4, 8]),
    "flat": np.array([1, 8, -1]),
}
LAST = "[last] y = Conv (f, w2)"
STATED = "[sub] d = Sub (b, mu) [pow] p = Pow (d, two) [var] v = ReduceMean <axes=[%d]> (p) [sum] e = Add (v, eps)"
NORMALISED = f"[mean] mu = ReduceMean <axes=[%d]> (b) {STATED} [root] q = Sqrt (e) [div] n = Div (d, q)"
BACK = "[t2] f = Transpose <perm=[0,3,1,2]> (n)"
FORTH = "[t1] b = Transpose <perm=[0,2,3,1]> (a)"
PEAK = "[p] k = ReduceMax <keepdims=0> (a)"
TABLE = {  # case: (nodes behind the stem, the node to read, why it is on the CPU, what helps)
    "weights that are computed": ("[k] k = Sin (a) [c] y = Conv (a, k)", "c", None, hints.HINTS["Conv"]),
    "three spatial axes": ("[r] b = Reshape (a, cube) [c] y = Conv <pads=[1,1,1,1,1,1]> (b, w3)", "c", None, hints.HINTS["Conv"]),
    "transposed, two strides": ("[c] y = ConvTranspose <strides=[2,3]> (a, wt)", "c", None, hints.HINTS["ConvTranspose"]),
    "two computed matrices": (f"[s] b = Sin (a) [m] f = MatMul (a, b) {LAST}", "m", None, hints.HINTS["MatMul"]),
    "broadcast sum": (f"[k] k = Conv <pads=[1,1,1,1]> (x, k1) [m] f = Add (a, k) {LAST}", "m", None, hints.SHAPES),
    "quotient of two maps": (f"[k] k = Conv <pads=[1,1,1,1]> (a, w2) [m] f = Div (a, k) {LAST}", "m", None, hints.HINTS["Div"]),
    "cubic": (f'[m] f = Resize <mode="cubic"> (a, none, twice) {LAST}', "m", "it interpolates by mode cubic", hints.RESIZED),
    "linear by 1.5": (f'[m] f = Resize <mode="linear"> (a, none, half) {LAST}', "m", "only 1, 2 and 4 run", hints.RESIZED),
    "choice of two axes": ("[m] b = Gather <axis=1> (a, pairs) [z] y = Sin (b)", "m", None, hints.HINTS["Gather"]),
    "samples joined": ("[m] b = Concat <axis=0> (a, a) [z] y = Sin (b)", "m", None, hints.HINTS["Concat"]),
    "mean over channels": (f"[m] k = ReduceMean <axes=[1]> (a) [s] f = Mul (a, k) {LAST}", "m", None, hints.POINTWISE),
    "sum over channels": (f"[m] k = ReduceSum (a, channels) [s] f = Mul (a, k) {LAST}", "m", None, hints.POINTWISE),
    "maximum over channels": (f"[m] k = ReduceMax <axes=[1]> (a) [s] f = Mul (a, k) {LAST}", "m", None, hints.REDUCED),
    "mean over rows": (f"[m] k = ReduceMean <axes=[2]> (a) [s] f = Mul (a, k) {LAST}", "m", None, hints.REDUCED),
    "several slopes": (f"[m] f = PRelu (a, slopes) {LAST}", "m", None, hints.SLOPE),
    "several exponents": (f"[m] f = Pow (a, powers) {LAST}", "m", None, hints.HINTS["Pow"]),
    "computed limit": (f"{PEAK} [m] f = Clip (a, , k) {LAST}", "m", "its limit 'k' is computed while", hints.HINTS["Clip"]),
    "one computed limit": (f"{PEAK} [m] f = Clip (a, k, two) {LAST}", "m", "its limit 'k' is computed", hints.HINTS["Clip"]),
    "computed exponent": (f"{PEAK} [m] f = Pow (a, k) {LAST}", "m", "its exponent 'k' is computed while", hints.HINTS["Pow"]),
    "computed slope": (f"{PEAK} [m] f = PRelu (a, k) {LAST}", "m", "its slope 'k' is computed while", hints.SLOPE),
    "least of a map and a number": (f"{PEAK} [m] f = Min (a, k) {LAST}", "m", "its operand 'k' is computed while", None),
    "steep": ("[m] y = Exp (a)", "m", "its curve is too steep for int8", hints.STEEP),
    "jumps": ("[m] y = Round (a)", "m", "its curve has jumps that are too steep for int8", hints.STEEP),
    "steep, among nodes of the CPU": ("[s] b = Sin (a) [m] y = Exp (b)", "m", "its curve is too steep for int8", None),
    "instance norm": (f"[m] f = InstanceNormalization (a, g8, b8) {LAST}", "m", "no such operator", hints.NORM),
    "response norm": (f"[m] f = LRN <size=3> (a) {LAST}", "m", "no such operator", hints.NORM),
    "layer norm": (f"{FORTH} [m] n = LayerNormalization <axis=-1> (b, g8, b8) {BACK} {LAST}", "m", "no such operator", hints.NORM),
    "layer norm in nodes": (f"{FORTH} {NORMALISED % (-1, -1)} {BACK} {LAST}", "mean", BEGINS, hints.NORM),
    "part of a layer norm": (f"{FORTH} {NORMALISED % (-1, -1)} {BACK} {LAST}", "root", "that 'mean' begins", None),
    "layer norm over axis 1": (f"[b] b = Relu (a) {NORMALISED % (1, 1)} [f] f = Relu (n) {LAST}", "mean", BEGINS, hints.NORM),
    "view between layers": (f"[m] f = Transpose <perm=[0,3,1,2]> (a) {LAST}", "m", "it orders elements anew", None),
    "island": ("[s] b = Sin (a) [m] y = Erf (b)", "m", "no convolution on the accelerator is joined to it", None),
    "unknown operator": (f"[m] f = CumSum (a, channels) {LAST}", "m", "the accelerator has no such operator", None),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_hint_is_right(name):
    """A user would rewrite and train again for nothing, or not find the node that costs."""
    text, node, reason, remedy = TABLE[name]
    found = explain(graph(f"{STEM} {text}", MORE), TINY)
    (row,) = (row for row in found.rows if row.name == node)
    assert row.side == CPU
    assert (reason or "not in this form") in row.reason
    assert row.rewrite == remedy
    for line in map(why, found.rows):
        parts = line.replace(": ", "; ").split("; ")
        assert len(parts) == len(set(parts)), f"it says something twice: {line}"
        assert "QuantizeLinear" not in line, f"the model is a float one: {line}"


MENDED = {  # case of TABLE, or nodes: the nodes that its hint advises
    "cubic": f'[m] f = Resize <mode="nearest"> (a, none, twice) {LAST}',
    "linear by 1.5": f'[m] f = Resize <mode="nearest"> (a, none, half) {LAST}',
    "mean over channels": "[m] y = Conv (a, w1x1)",
    "several slopes": f"[m] f = PRelu (a, two) {LAST}",
    "several exponents": f"[m] f = Pow (a, two) {LAST}",
    "layer norm": f"[m] f = BatchNormalization (a, g8, b8, m, var) {LAST}",
    "layer norm in nodes": f"[mean] f = BatchNormalization (a, g8, b8, m, var) {LAST}",
}


@pytest.mark.parametrize("name", MENDED)
def test_what_it_advises_runs(name):
    """The hint would send a user from one form that does not run to another."""
    found = explain(graph(f"{STEM} {MENDED[name]}", MORE), TINY)
    assert {row.side for row in found.rows} == {ACCELERATOR}


@pytest.mark.parametrize("name", ["layer norm", "layer norm in nodes", "layer norm over axis 1"])
def test_a_normalisation_says_what_it_costs(name):
    """Of a dozen nodes each would show its own time, and none the pieces and crossings that all of them cost together."""
    config = preset("zcu102")
    own = explain(graph(f"{STEM} {TABLE[name][0]}", MORE, side=32), config)
    other = explain(graph(f"{STEM} {MENDED['layer norm']}", MORE, side=32), config)
    (row,) = (row for row in own.rows if row.rewrite == hints.NORM)
    host = [one.speed.cpu_seconds + one.speed.crossing_seconds.middle for one in (own, other)]
    assert row.gain_seconds == pytest.approx(host[0] - host[1], rel=0.05)
    assert other.speed.fps().slow > 1.5 * own.speed.fps().slow
    (line,) = (line for line in summary(own, "m.onnx", False) if "BatchNormalization" in line)
    assert line.startswith(f"1 normalisation takes {row.gain_seconds * 1e3:.3g} ms")


def test_a_large_map_names_what_makes_it_smaller():
    """ "Keep it within that limit" helps nobody whose detector has 8,400 anchors; and what another size would save is not known."""
    side = 92  # whose square is above the limit
    model = graph("[c] a = Conv <pads=[1,1,1,1]> (x, w1) [r] b = Reshape (a, flat) [m] y = Conv (b, wrow)", MORE, side)
    (row,) = (row for row in explain(model, TINY).rows if row.name == "m")
    assert row.reason == f"a map of {side * side} rows or columns is above {SIZE_MAX}"
    assert (row.rewrite, row.gain_seconds) == (hints.TooLarge.remedy, None)
