"""A model's own int8 and uint8, at its ends, become the accelerator's."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Requantise
from cnna.compiler.graph.ir import Quant
from cnna.compiler.passes.rounding.integer_ends import integer_ends
from cnna.compiler.passes.rounding.pair_quantisation import pair_quantisation

from ..alone import kinds, left_alone, only, untyped

SCALE = np.float32(0.02)
ZEROS = {"int8": np.int8(3), "uint8": np.uint8(131)}
AROUND = "a = Mul (x, x) q = QuantizeLinear (a, s, o) b = DequantizeLinear (q, s, o)"  # a rounding: the model is quantised


def paired(text: str, **constants):
    known = {"s": SCALE, "o": np.int8(3), **constants}
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return pair_quantisation(untyped(text, {name: value for name, value in known.items() if name in words}))


@pytest.mark.parametrize("kind", ZEROS)
def test_an_input_and_an_output(kind):
    """uint8 about 131 is int8 about 3; the host takes 128 away and adds it."""
    text = f"""g ({kind}[N,4,4,4] p) => ({kind}[N,4,4,4] y) {{
        d = DequantizeLinear (p, s, z) a = Mul (d, d) y = QuantizeLinear (a, t, z) }}"""
    graph = integer_ends(paired(text, z=ZEROS[kind], t=np.float32(0.1)))
    assert kinds(graph) == ["Requantise", "Mul", "Requantise"]
    assert [node.op.quant for node in graph.nodes if isinstance(node.op, Requantise)] == [
        Quant(float(SCALE), 3),
        Quant(float(np.float32(0.1)), 3),
    ]


def test_equal_ones_of_an_input_are_one():
    """Each reader may have its own; with two roundings the input would have two readers."""
    text = f"""g (int8[N,4,4,4] p, float[N,4,4,4] x) => (float[N,4,4,4] y) {{ {AROUND}
        d = DequantizeLinear (p, s, o) e = DequantizeLinear (p, s, o) f = Add (d, e) y = Add (f, b) }}"""
    assert sum(node.inputs == ("p",) for node in integer_ends(paired(text)).nodes) == 1


MOVED = {
    "a view": "d = DequantizeLinear (p, s, o) e = Transpose <perm=[0,1,3,2]> (d) y = Add (e, b)",
    "a vector": "d = DequantizeLinear (v, s, o) e = Relu (d) f = Unsqueeze (e, n) y = Add (f, b)",
}


@pytest.mark.parametrize("name", MOVED)
def test_what_the_host_moves_is_rounded_behind(name):
    """A view between an input and a layer would have no quantisation: the layer would run on the CPU."""
    text = f"g (int8[N,4,4,4] p, int8[N,4,4] v, float[N,4,4,4] x) => (float[N,4,4,4] y) {{ {AROUND} {MOVED[name]} }}"
    graph = integer_ends(paired(text, n=np.array([1])))
    real = next(node for node in graph.nodes if node.inputs[0] in ("p", "v"))
    assert real.op.kind == "DequantizeLinear"
    assert isinstance(next(node for node in graph.nodes if node.inputs[0] == real.output).op, Requantise)


def test_integers_that_a_node_reads_are_rounded_first():
    """The layer before them would have no rounding, and run on the CPU."""
    text = "g (float[N,4,4,4] x) => (int64[N,1,4,4] y) { a = Mul (x, x) q = QuantizeLinear (a, s, o) y = ArgMax <axis=1> (q) }"
    graph = integer_ends(paired(text))
    assert kinds(graph) == ["Mul", "Requantise", "QuantizeLinear", "ArgMax"]
    assert only(graph, Requantise).op.quant == Quant(float(SCALE), 3)


STAYS = {
    "a float model that takes integers": "d = DequantizeLinear (p, s, o) y = Add (d, x)",
    "a scale for each channel": f"{AROUND} d = DequantizeLinear (p, each, zeros) y = Add (d, b)",
    "int16": f"{AROUND} d = DequantizeLinear (h, s, u) y = Add (d, b)",
    "an input's own rounding": f"{AROUND} c = QuantizeLinear (x, s, o) e = Cast <to=1> (c) y = Add (e, b)",
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """Nothing of it is int8 with one scale, or nothing before it is a layer."""
    text = f"g (float[N,4,4,4] x, int8[N,4,4,4] p, int16[N,4,4,4] h) => (float[N,4,4,4] y) {{ {STAYS[name]} }}"
    constants = {"each": np.full(4, SCALE), "zeros": np.zeros(4, np.int8), "u": np.int16(0)}
    if name == "int16":
        graph = pair_quantisation(untyped(text, {"s": SCALE, "o": np.int8(3), "u": np.int16(0)}, 21))
    else:
        graph = paired(text, **constants)
    assert left_alone(integer_ends, graph)
