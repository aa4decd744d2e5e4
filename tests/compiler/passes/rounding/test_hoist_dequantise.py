"""DequantizeLinear moves above operators that only move int8 elements."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.passes.rounding.hoist_dequantise import hoist_dequantise

from ..alone import after, ints, kinds, left_alone, untyped

TEXT = """g (float[N,4,4,4] x) => (float[N,4,?,?] y) {{
    q = QuantizeLinear (x, s, z)
    m = {mover}
    y = DequantizeLinear {axis} (m, {scale}, {zero})}}"""
ONE = {"s": np.float32(0.1), "z": np.int8(3)}
EACH = {"each": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "zeros": np.zeros(4, np.int8)}
MOVERS = {
    "MaxPool": ("MaxPool <kernel_shape=[2,2], strides=[2,2]> (q)", {}),
    "Transpose": ("Transpose <perm=[0,1,3,2]> (q)", {}),
    "Concat": ("Concat <axis=1> (half, half)", {}),
    "Reshape": ("Reshape (q, same)", {"same": ints(0, 4, 4, 4)}),
    "Pad": ("Pad (part, widths, value)", {"widths": ints(0, 0, 2, 0, 0, 0, 0, 0), "value": np.int8(5)}),
    "Pad of 0": ("Pad (part, widths)", {"widths": ints(0, 0, 2, 0, 0, 0, 0, 0)}),
    "Pad of 0, along an axis": ("Pad (part, widths, , rows)", {"widths": ints(2, 0)}),
    "Pad of 5, along an axis": ("Pad (part, widths, value, rows)", {"widths": ints(2, 0), "value": np.int8(5)}),
    "Pad by reflection": ('Pad <mode="reflect"> (q, widths)', {"widths": ints(0, 0, 1, 0, 0, 0, 0, 0)}),
    "Resize": ('Resize <mode="nearest"> (q, , twice)', {"twice": np.array([1, 1, 2, 2], np.float32)}),
    "Resize of a row": ('Resize <mode="linear", axes=[2]> (row, , , high)', {"high": ints(7)}),
    "Expand": ("Expand (row, high)", {"high": ints(1, 4, 7, 4)}),
    "Tile": ("Tile (q, high)", {"high": ints(1, 1, 2, 2)}),
    "Gather": ("Gather <axis=1> (q, two)", {}),
}
SLICES = """half = Slice (q, nought, two, channels)
    part = Slice (q, nought, two, rows)
    row = Slice (q, nought, one, rows)
    m = """


@pytest.mark.parametrize("name", MOVERS)
def test_movers_work_on_real_values(name):
    """A pool of int8 between two layers would be refused, because the passes know only operators of real values."""
    mover, weights = MOVERS[name]
    text = TEXT.format(mover=mover, axis="", scale="s", zero="z").replace("m = ", SLICES, 1)
    weights = weights | {"nought": ints(0), "one": ints(1), "two": ints(2), "channels": ints(1), "rows": ints(2)}
    graph = untyped(text, ONE | {name: weights[name] for name in weights if name in text})
    changed = kinds(after(hoist_dequantise, graph))
    assert changed[:2] == ["QuantizeLinear", "DequantizeLinear"]
    assert changed.count("DequantizeLinear") == 1
    assert changed[-1] == name.split()[0]


@pytest.mark.parametrize("name", ["Transpose", "Pad", "Pad of 0"])
def test_without_a_zero_point_it_is_0(name):
    """ONNX's default, of uint8: a Pad of such elements puts in what stands for that number."""
    mover, weights = MOVERS[name]
    text = TEXT.format(mover=mover.replace("part", "q"), axis="", scale="s", zero="").replace(", z)", ")").replace(", )", ")")
    weights = {key: np.uint8(5) if key == "value" else value for key, value in weights.items()}
    graph = after(hoist_dequantise, untyped(text, {"s": np.float32(0.1), **weights}))
    assert kinds(graph)[1] == "DequantizeLinear"


def test_reflection_gets_no_value():
    """It puts in elements that are there, and has no number to name."""
    text = TEXT.format(mover='Pad <mode="reflect"> (q, widths)', axis="", scale="s", zero="z")
    graph = hoist_dequantise(untyped(text, ONE | {"widths": ints(0, 0, 1, 0, 0, 0, 0, 0)}))
    assert len(graph.nodes[-1].inputs) == 2


def test_pool_whose_indices_are_read_moves_whole():
    """An int8 pool that stayed behind for its indices would be computed twice."""
    text = """g (float[N,4,4,4] x) => (float[N,4,3,3] y, float[N,4,3,3] z) {
        q = QuantizeLinear (x, s, o)
        m, i = MaxPool <kernel_shape=[2,2]> (q)
        y = DequantizeLinear (m, s, o)
        z = Cast <to=1> (i)}"""
    graph = hoist_dequantise(untyped(text, {"s": np.float32(0.1), "o": np.int8(3)}))
    assert sorted(kinds(graph)) == ["Cast", "DequantizeLinear", "MaxPool", "QuantizeLinear"]


SEVERAL = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] v) {{
    q = QuantizeLinear (x, s, z)
    m = Transpose <perm=[0,1,3,2]> (q)
    {nodes} }}"""
READERS = {
    "both are shown": "y = DequantizeLinear (m, s, z) v = DequantizeLinear (m, s, z)",
    "the first is shown": "y = DequantizeLinear (m, s, z) a = DequantizeLinear (m, s, z) v = Relu (a)",
    "the second is shown": "a = DequantizeLinear (m, s, z) y = DequantizeLinear (m, s, z) v = Relu (a)",
    "another scale": "y = DequantizeLinear (m, s, z) v = DequantizeLinear (m, t, z)",
    "none is shown": "a = DequantizeLinear (m, s, z) b = DequantizeLinear (m, s, z) y = Relu (a) v = Tanh (b)",
}


@pytest.mark.parametrize("name", READERS)
def test_several_readers_of_one_mover(name):
    """Equal ones become one; an output keeps its name, and a reader with another scale its values."""
    text = SEVERAL.format(nodes=READERS[name])
    weights = ONE | ({"t": np.float32(0.3)} if name == "another scale" else {})
    changed = after(hoist_dequantise, untyped(text, weights))
    assert kinds(changed).count("Transpose") == 1 + (name == "another scale")


LEAST = "v = Cast <to=3> (x) w = ReduceMin <keepdims=0> (v)"
STAYS = {
    "an input": "y = DequantizeLinear (p, s, z)",
    "a scale that is computed": "r = ReduceMax <keepdims=0> (x) m = Transpose <perm=[0,1,3,2]> (p) y = DequantizeLinear (m, r, z)",
    "values between pixels": 'm = Resize <mode="linear"> (p, , twice) y = DequantizeLinear (m, s, z)',
    "a table": "m = Gather (t, index) y = DequantizeLinear (m, s, z)",
    "a number that is computed": f"{LEAST} m = Pad (p, no, w) y = DequantizeLinear (m, s, z)",
    "a zero point that is computed": f"{LEAST} m = Pad (p, no) y = DequantizeLinear (m, s, w)",
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """Nothing moves the elements, they would be other ones, or the real number of a Pad is not known; a table of int8 is small."""
    known = {
        "s": np.float32(0.1), "z": np.int8(0), "twice": np.array([1, 1, 2, 2], np.float32), "no": np.zeros(8, np.int64),
        "t": np.ones((9, 2), np.int8), "index": ints(1),
    }  # fmt: skip
    used = {
        key: value
        for key, value in known.items()
        if key in STAYS[name].replace("(", " ").replace(")", " ").replace(",", " ").split()
    }
    text = f"g (float[N,4,4,4] x, int8[N,4,4,4] p) => (float[?,?,?,?] y) {{ {STAYS[name]} }}"
    if name == "a table":
        text = text.replace("float[?,?,?,?] y", "float[1,2] y")
    assert left_alone(hoist_dequantise, untyped(text, used))


def test_movers_of_other_domains_stay():
    """Another domain's Transpose may know int8 alone."""
    graph = untyped(TEXT.format(mover=MOVERS["Transpose"][0], axis="", scale="s", zero="z"), ONE)
    theirs = [
        replace(node, op=replace(node.op, domain="com.example")) if node.op.kind == "Transpose" else node for node in graph.nodes
    ]
    assert left_alone(hoist_dequantise, replace(graph, nodes=tuple(theirs)))


def test_whoever_reads_int8_keeps_it():
    """The user asks for the int8 values too."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, int8[N,4,4,4] m) {
        q = QuantizeLinear (x, s, z)
        m = Transpose <perm=[0,1,3,2]> (q)
        y = DequantizeLinear (m, s, z)}"""
    graph = hoist_dequantise(untyped(text, ONE))
    assert sorted(kinds(graph)) == ["DequantizeLinear", "QuantizeLinear", "Transpose", "Transpose"]


@pytest.mark.parametrize("scale", ["s", "each"])
def test_only_one_scale_for_all_moves_above_a_transpose(scale):
    """A scale for each channel, moved above a Transpose as it is, would scale rows: the shapes fit, but the values do not."""
    zero = {"s": "z", "each": "zeros"}[scale]
    text = TEXT.format(mover="Transpose <perm=[0,2,3,1]> (q)", axis="<axis=3>", scale=scale, zero=zero)
    graph = untyped(text, ONE | (EACH if scale == "each" else {}))
    assert left_alone(hoist_dequantise, graph) == (scale == "each")


def test_operators_that_compute_stay():
    """Only operators that move or choose elements may change places with the scale."""
    text = TEXT.format(mover="Max (q, q)", axis="", scale="s", zero="z")
    assert left_alone(hoist_dequantise, untyped(text, ONE))
