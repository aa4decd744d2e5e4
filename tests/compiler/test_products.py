"""Squeeze-and-excite, products and choices of two maps: on the accelerator, to the bit, and near onnxruntime on that QDQ model."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.compile import compile_graph, compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.graph import ir
from cnna.compiler.quantise.quantise import quantise
from cnna.sim import check
from cnna.sim.reference import reference
from cnna.spec.config import Config, preset
from cnna.spec.program.commands import commands
from cnna.spec.regmap import VECTOR_OPS, offset

from .. import networks
from ..configurations import LITTLE
from ..graph_builder import Builder
from .distance import quantised_by_onnxruntime
from .one_piece import compiled_whole
from .written import Shapes, answers, images, silu, written

TINY = preset("tiny")
PRODUCT = VECTOR_OPS.index("product")
STEM, LAST = f"a = Conv <pads=[1,1,1,1]> (x, w1) {silu('b', 'a')}", "y = Conv (f, w2)"
GATE = "q = Conv (p, wd) r = Relu (q) u = Conv (r, wu) v = Sigmoid (u)"
NETWORKS = {
    "excited": f"{STEM} p = GlobalAveragePool (b) {GATE} f = Mul (b, v) {LAST}",
    "the other way round": f"{STEM} p = ReduceMean <axes=[2,3]> (b) {GATE} f = Mul (v, b) {LAST}",
    "dense": f"""{STEM} m = ReduceMean <axes=[2,3], keepdims=0> (b) q = Gemm <transB=1> (m, md) r = Relu (q)
        u = Gemm <transB=1> (r, mu) h = HardSigmoid (u) v = Reshape (h, to) f = Mul (b, v) {LAST}""",
    "channels last": f"""{STEM} t = Transpose <perm=[0,2,3,1]> (b) p = GlobalAveragePool (b) {GATE}
        o = Transpose <perm=[0,2,3,1]> (v) g = Mul (t, o) f = Transpose <perm=[0,3,1,2]> (g) {LAST}""",
    "activated": f"{STEM} p = GlobalAveragePool (b) {GATE} e = Mul (b, v) {silu('f', 'e')} {LAST}",
    "limited": f"{STEM} p = GlobalAveragePool (b) {GATE} e = Mul (v, b) f = Relu (e) {LAST}",
    "gated maps": f"{STEM} c = Conv (b, w2) d = Sigmoid (c) e = Conv (b, w2b) f = Mul (e, d) {LAST}",
    "shifted": f"{STEM} p = GlobalAveragePool (b) q = Conv (p, wd) u = Conv (q, wu) g = Add (u, b) f = Sub (u, g) {LAST}",
    "chosen": f"{STEM} c = Conv (b, w2b) p = GlobalMaxPool (c) g = Min (b, c) f = Max (p, g) {LAST}",
    "steep slopes": f"a = Conv (x, w1) f = PRelu (a, slopes) {LAST}",
}
WEIGHTS: Shapes = {
    "w1": (12, 4, 3, 3), "w2": (12, 12, 1, 1), "w2b": (12, 12, 1, 1), "wd": (5, 12, 1, 1), "wu": (12, 5, 1, 1), "md": (5, 12),
    "mu": (12, 5), "to": np.array([0, 12, 1, 1]), "slopes": np.linspace(1, 3, 12, dtype=np.float32)[:, None, None],
}  # fmt: skip


def network(name: str) -> ModelProto:
    text = f"g (float[N,4,9,7] x) => (float[N,12,?,?] y) {{ {NETWORKS[name]} }}"
    used = {key: value for key, value in WEIGHTS.items() if f" {key})" in text or f" {key}," in text}
    return load_model(written(text, used).SerializeToString())


@pytest.mark.parametrize("source", ["cnna", "onnxruntime"])
@pytest.mark.parametrize("name", NETWORKS)
def test_products_cut_no_network(name, source, tmp_path):
    """Each would be a piece on the CPU, with two crossings of its map; or operands, zero points or images would be exchanged."""
    model = network(name)
    feeds = images(model, 3)
    made = quantise(model, feeds)[0] if source == "cnna" else quantised_by_onnxruntime(model, feeds, tmp_path)
    compiled_whole(made, feeds, TINY, greatest=3.5, equal=0.95)


@pytest.mark.parametrize("name", NETWORKS)
def test_answers_are_near_float(name):
    """A range that is too wide, as of a slope's part that no one sees, would leave few of 256 steps."""
    model = network(name)
    feeds = images(model, 16)
    (expected,), (found,) = answers(model, feeds), answers(quantise(model, feeds)[0], feeds)
    assert np.abs(found - expected).mean() < 0.012 * (expected.max() - expected.min())


def test_a_steep_slope_costs_no_range():
    """min(x, 3 x) is x above 0. With the range of 3 x there, the result would have a third of its steps."""
    model = network("steep slopes")
    _, report = quantise(model, images(model, 8))
    low, high = report.ranges["f"]
    assert report.quants["f"].scale == pytest.approx((max(high, 0) - min(low, 0)) / 255, rel=1e-3)


@pytest.mark.parametrize(("name", "layers"), [("excited", 7), ("activated", 7), ("gated maps", 5)])
def test_activations_take_no_pass_of_their_own(name, layers):
    """A table behind a product is free, as behind a convolution. SiLU stays a table: as a product it would be a pass more."""
    model = network(name)
    found = compile_model(quantise(model, images(model))[0], TINY).manifest["pieces"][0]["layers"]
    count = Counter(layer["op"] for layer in found)
    assert (count["Product"], count["Table"]) == (1, 0)
    assert len(found) <= layers


def agreed(graph: ir.Graph, config: Config, batch: int) -> list[SimpleNamespace]:
    """The products of a program whose every tensor the emulator makes as the reference does."""
    piece, inputs = compile_graph(graph, config, batch).piece(), networks.inputs(graph, batch, 1)
    log, _ = check.emulate(piece, inputs)
    check.compare_tensors(piece, log, reference.run(graph, inputs))
    return [command.f for command in commands(piece.program) if command.engine == "vector" and command.f.op == PRODUCT]


@pytest.mark.parametrize(("side", "batch", "several"), [(8, 3, True), (20, 2, True), (8, 1, False)])
def test_each_image_has_its_own_scales(side, batch, several):
    """A command reads one word a block for all of its images. Maps that do not fit on chip are cut into bands, scales are not."""
    b = Builder(np.random.default_rng(5), "excited")
    x = b.conv(b.input(8, side, side), 12, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    graph = b.graph(b.conv(b.excited(x), 8, ir.Window()))
    found = agreed(graph, LITTLE, batch)
    assert {(f.images, f.b_flat) for f in found} == {(1, 1)}
    assert (len(found) > 1) == several
    assert (len(found) > batch) == (side > 8)


def test_maps_of_any_size_are_multiplied():
    """Bands of two operands are staged side by side; one of them read at the other's step would show."""
    b = Builder(np.random.default_rng(6), "large")
    x = b.input(12, 30, 17)
    graph = b.graph(b.conv(b.product(b.copy(x), b.affine(x)), 8, ir.Window()))
    found = agreed(graph, LITTLE, 2)
    assert len(found) > 2
    assert not any(f.b_flat for f in found)


def test_programs_without_pairs_do_not_name_their_register():
    """Every program would grow by a write, and no longer be the one that it was before there were products."""
    program = compile_graph(networks.layer(0, "add"), TINY).program
    assert offset("VECTOR_B") not in np.frombuffer(program, "<u4").reshape(-1, 2)[:, 0]


def test_the_flag_of_a_flat_operand_is_taken_back():
    """The sum behind it would add one pixel to all others: fields keep their values from command to command."""
    b = Builder(np.random.default_rng(7), "flag")
    x = b.conv(b.input(8, 6, 6), 8, ir.Window())
    graph = b.graph(b.max_pool(b.add(b.excited(x), b.copy(x)), ir.Window((2, 2))))
    (found,) = agreed(graph, TINY, 1)
    assert found.b_flat
