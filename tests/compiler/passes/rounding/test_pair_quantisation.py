"""Q and DQ become one rounding."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Requantise
from cnna.compiler.graph.ir import Quant
from cnna.compiler.passes.rounding.pair_quantisation import pair_quantisation

from ..alone import after, kinds, left_alone, only, untyped

TEXT = """g (float[N,4,4,4] x) => (float[N,4,4,4] y) {
    q = QuantizeLinear <axis=1> (x, s, o)
    y = DequantizeLinear <axis=1> (q, s2, o2)}"""
SCALE = np.float32(0.02)


@pytest.mark.parametrize("zero", [np.int8(3), np.uint8(131)])
def test_pair_is_one_rounding(zero):
    """uint8 about 131 is int8 about 3; the accelerator has only int8."""
    graph = after(pair_quantisation, untyped(TEXT, {"s": SCALE, "o": zero, "s2": SCALE, "o2": zero}))
    assert kinds(graph) == ["Requantise"]
    assert only(graph, Requantise).op.quant == Quant(float(SCALE), 3)


STAYS = {
    "two scales": {"s": SCALE, "o": np.int8(3), "s2": np.float32(0.1), "o2": np.int8(3)},
    "two zero points": {"s": SCALE, "o": np.int8(3), "s2": SCALE, "o2": np.int8(4)},
    "int16": {"s": SCALE, "o": np.int16(3), "s2": SCALE, "o2": np.int16(3)},
    "one a channel": {name: np.full(4, SCALE if name[0] == "s" else 0).astype(kind) for name, kind in
                      {"s": np.float32, "o": np.int8, "s2": np.float32, "o2": np.int8}.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No rounding to int8 with one scale computes the same."""
    assert left_alone(pair_quantisation, untyped(TEXT, STAYS[name], 21))


def test_rounding_in_blocks_stays():
    """onnxruntime refuses blocks with one scale for all, so an answer would be nobody's."""
    graph = untyped(TEXT, {"s": SCALE, "o": np.int8(3), "s2": SCALE, "o2": np.int8(3)}, 21)
    first, last = graph.nodes
    blocks = replace(first, op=replace(first.op, attributes={"block_size": 2}))
    assert left_alone(pair_quantisation, replace(graph, nodes=(blocks, last)))


def test_rounding_of_another_domain_stays():
    """What another domain's QuantizeLinear makes, no Requantise computes."""
    graph = untyped(TEXT, {"s": SCALE, "o": np.int8(3), "s2": SCALE, "o2": np.int8(3)})
    first, last = graph.nodes
    theirs = replace(first, op=replace(first.op, domain="com.example"))
    assert left_alone(pair_quantisation, replace(graph, nodes=(theirs, last)))


def test_equal_pairs_of_a_tensor_are_one():
    """onnxruntime writes a pair for each reader. With several roundings the tensor would have several readers."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y) {
        q = QuantizeLinear (x, s, o)
        a = DequantizeLinear (q, s, o)
        r = QuantizeLinear (x, s, o)
        b = DequantizeLinear (r, s, o)
        y = Add (a, b)}"""
    graph = after(pair_quantisation, untyped(text, {"s": SCALE, "o": np.int8(3)}))
    assert kinds(graph) == ["Requantise", "Add"]


def test_both_names_of_one_rounding_are_answered():
    """A model may output a tensor twice. If one name were dropped, its user would miss an output."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] z) {
        q = QuantizeLinear (x, s, o)
        y = DequantizeLinear (q, s, o)
        z = DequantizeLinear (q, s, o)}"""
    graph = after(pair_quantisation, untyped(text, {"s": SCALE, "o": np.int8(3)}))
    assert kinds(graph) == ["Requantise", "Requantise"]
    assert [node.inputs for node in graph.nodes] == [("x",), ("y",)]


@pytest.mark.parametrize("shown", ["first", "second"])
def test_the_name_that_is_shown_stays(shown):
    """Whichever of two equal pairs the model shows, one rounding makes it, and the other's reader takes it from there."""
    names = ("y", "b") if shown == "first" else ("b", "y")
    text = f"""g (float[N,4,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] v) {{
        q = QuantizeLinear (x, s, o)
        {names[0]} = DequantizeLinear (q, s, o)
        {names[1]} = DequantizeLinear (q, s, o)
        v = Relu (b)}}"""
    graph = after(pair_quantisation, untyped(text, {"s": SCALE, "o": np.int8(3)}))
    assert kinds(graph) == ["Requantise", "Relu"]


@pytest.mark.parametrize("inputs", ["s", "s, "])
def test_without_a_zero_point_it_is_uint8_about_0(inputs):
    """ONNX's default: read as int8 about 0, half of the range would be another's."""
    text = TEXT.replace("s, o", inputs).replace("s2, o2", inputs)
    graph = after(pair_quantisation, untyped(text, {"s": SCALE}))
    assert only(graph, Requantise).op.quant == Quant(float(SCALE), -128)


FOREIGN = {
    "int8 that comes in": "y = DequantizeLinear (p, s, o)",
    "int8 that was moved": "t = Transpose <perm=[0,1,3,2]> (p) y = DequantizeLinear (t, s, o)",
    "a scale that is computed": "r = ReduceMax <keepdims=0> (x) q = QuantizeLinear (x, r, o) y = DequantizeLinear (q, r, o)",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_pair_stays(name):
    """A Requantise rounds floats, by a number that is known."""
    text = f"g (float[N,4,4,4] x, int8[N,4,4,4] p) => (float[N,4,4,4] y) {{ {FOREIGN[name]} }}"
    weights = {"s": SCALE, "o": np.int8(3)}
    assert left_alone(pair_quantisation, untyped(text, {key: weights[key] for key in weights if f"{key}, o" in text or key == "o"}))


def test_int8_that_is_wanted_reads_behind_the_rounding():
    """Otherwise the tensor would have a second reader that sees floats, and could not be rounded itself."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, int8[N,4,4,4] q) {
        q = QuantizeLinear (x, s, o)
        y = DequantizeLinear (q, s, o)}"""
    graph = after(pair_quantisation, untyped(text, {"s": SCALE, "o": np.int8(3)}))
    assert kinds(graph) == ["Requantise", "QuantizeLinear"]
    assert graph.nodes[1].inputs[0] == "y"
