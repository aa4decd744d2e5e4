"""`--check` sees when a piece on the CPU is not what the quantised model says."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_model import hollow
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.sim.reference.cpu_pieces import CpuAgreement
from cnna.spec.artifact import Artifact, CpuPiece, load
from cnna.spec.config import preset
from cnna.spec.errors import ArtifactError, CheckError

from ...compiler.pairs import with_pairs
from ...compiler.written import images, written
from ...host.edits import changed, write

TEXT = """g (float[N,3,8,8] x) => (float[N,8,8,8] y) {
    a = Conv <pads=[1,1,1,1]> (x, w) s = Sin (a) b = Mean (a, s) y = Conv <pads=[1,1,1,1]> (b, v) }"""


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    model = written(TEXT, {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3)})
    return compile_model(quantise(model, images(model, 8))[0], preset("tiny"))


def with_operator(artifact: Artifact, old: str, new: str) -> Artifact:
    """The artifact with another operator in its pieces on the CPU."""
    pieces = []
    for piece in artifact.pieces:
        if isinstance(piece, CpuPiece):
            model = onnx.load_from_string(piece.model)
            for node in model.graph.node:
                node.op_type = new if node.op_type == old else node.op_type
            piece = replace(piece, model=model.SerializeToString())
        pieces.append(piece)
    return replace(artifact, pieces=tuple(pieces))


def test_pieces_on_the_cpu_are_counted_apart(artifact):
    """onnxruntime computes on both sides, which proves nothing about the accelerator: `agreement` must not count it."""
    x = np.random.default_rng(1).normal(size=(3, 3, 8, 8)).astype(np.float32)
    with Model(artifact, check=True) as model:
        model.run(x)
        assert (model.cpu_agreement.tensors, model.cpu_agreement.elements) == (1, 3 * 512)
        assert model.agreement.elements == 3 * 2 * 512


def test_pieces_with_great_constants_are_compared(monkeypatch):
    """Shape inference sees no data of large weights: a scale for each of 2,048 channels would end ResNet-50's check."""
    monkeypatch.setattr(hollow, "GREAT", 4)
    model = written(TEXT, {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3)})
    artifact = compile_model(quantise(model, images(model, 8))[0], preset("tiny"))
    with Model(artifact, check=True) as opened:
        opened.run(images(model, 1)["x"])
        assert opened.cpu_agreement.tensors == 1


def test_weights_that_the_model_dequantises_are_compared():
    """uint8 weights stay float on the CPU, where the compiler writes their values. The model's DQ must not count as an input."""
    text = """g (float[N,3,8,8] x) => (float[N,8,8,8] y) {
        u = DequantizeLinear (w, scale, zero) a = Conv <pads=[1,1,1,1]> (x, u) b = Sigmoid (a) y = Conv <pads=[1,1,1,1]> (b, v) }"""
    asymmetric = {"w": np.random.default_rng(2).integers(0, 256, (8, 3, 3, 3), np.uint8), "zero": np.uint8(150)}
    model = with_pairs(
        written(text, {**asymmetric, "scale": np.float32(1 / 512), "v": (8, 8, 3, 3)}),
        {"x": (1 / 32, 0), "a": (1 / 16, 0), "b": (1 / 256, -128), "y": (1 / 16, 0)},
        {"v": 1 / 64},
    )
    with Model(compile_model(model, preset("tiny")), check=True) as opened:
        opened.run(images(model, 2)["x"])
        assert opened.cpu_agreement.tensors >= 1


def test_what_saturates_is_compared_behind_its_rounding():
    """The model's own tensor goes beyond what int8 holds, and the piece's does not: that must not count as a difference."""
    model = with_pairs(
        written(TEXT, {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3)}),
        {"x": (1 / 32, 0), "a": (1 / 16, 0), "s": (1 / 256, -128), "b": (1 / 512, 0), "y": (1 / 16, 0)},
        {"w": 1 / 64, "v": 1 / 64},
    )
    with Model(compile_model(model, preset("tiny")), check=True) as opened:
        opened.run(3 * images(model, 2)["x"])
        assert opened.cpu_agreement.tensors >= 1


def test_a_tie_on_the_accelerator_is_no_difference_of_a_piece_behind_it():
    """The accelerator computes in the order before the Reshape and so the comparison has ties of 0.03 to 0.1 in it."""
    text = """g (float[N,4,6,6] x) => (float[N,24,6,1] y) {
        a = Add (x, one) b = QuantizeLinear (a, s, z) c = Reshape (b, n) d = DequantizeLinear (c, s, z)
        e = QuantizeLinear (d, t, u) f = DequantizeLinear (e, t, u) r = Relu (f)
        k = QuantizeLinear (r, v, w) m = DequantizeLinear (k, v, w) y = Add (m, d) }"""
    constants = {"one": np.float32(1), "n": np.array([0, 24, 6, 1]), "s": np.float32(0.03), "z": np.int8(0)}
    constants |= {"t": np.float32(0.1), "u": np.uint8(0), "v": np.float32(0.0014), "w": np.int16(0)}
    model = written(text, constants, 21)
    with Model(compile_model(model, preset("tiny")), check=True) as opened:
        opened.run(images(model, 4)["x"])
        assert opened.cpu_agreement.left == 0


def test_another_operator_on_the_cpu_is_found(artifact):
    """A wrong export would be invisible, because all three executions are fed by the same piece."""
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    message = r"piece 1 on the CPU != quantised model: tensor b, element \[0, 0, 0, \d\]"
    with Model(with_operator(artifact, "Sin", "Cos"), check=True) as model, pytest.raises(CheckError, match=message):
        model.run(x)


def test_a_piece_that_says_it_reads_what_nothing_makes_is_refused(artifact, tmp_path):
    """The piece itself runs, since its ONNX model is right; the comparison believes the manifest, and would end in a KeyError."""
    edited = changed(dict(artifact.manifest), ("pieces", 1, "operators", 0, "inputs", 0), "y")
    write(tmp_path / "m.cnna", replace(artifact, manifest=edited))
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    with Model(load(tmp_path / "m.cnna"), check=True) as model, pytest.raises(ArtifactError, match="nothing before its piece 1"):
        model.run(x)


def test_a_line_claims_nothing_of_what_was_not_compared():
    """ "0 tensors ==" would look like a check that has passed; whole numbers are not compared, since a tie may fall either way."""
    model = written(
        "g (float[N,3,8,8] x) => (int64[N,1,8,8] y) { a = Conv <pads=[1,1,1,1]> (x, w) y = ArgMax <axis=1> (a) }",
        {"w": (8, 3, 3, 3)},
    )
    with Model(compile_model(quantise(model, images(model, 8))[0], preset("tiny")), check=True) as opened:
        opened.run(images(model, 1)["x"])
        assert str(opened.cpu_agreement) == "CPU pieces: not compared with the quantised model: 1 tensor of whole numbers"


def test_what_was_left_out_is_counted_by_its_reason():
    """A reader would not know whether a number of tensors that were not compared is a fault of the model or of the check."""
    found = CpuAgreement(tensors=1, elements=20, left=2, whole=1)
    says = "CPU pieces == quantised model within 0.0001: 1 tensor, 20 elements"
    assert str(found) == f"{says}; not compared: 2 tensors that it does not name, 1 tensor of whole numbers"
    assert str(CpuAgreement(tensors=1, elements=20)) == says
