"""Models in several pieces: on every device, the host takes each batch through all of them and answers as the model does."""

import numpy as np
import onnxruntime
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.board_model import BoardModel
from cnna.host.model.flight import NOT_YET, Flight, Job, jobs_of
from cnna.host.model.model import Model
from cnna.spec.artifact import Artifact, load, save
from cnna.spec.config import preset
from cnna.spec.errors import DataError
from cnna.spec.samples.preprocess import Preprocess

from ...compiler import written as onnx_text
from ...compiler.pairs import with_pairs
from ...compiler.written import images, written

GATED = """g (float[N,3,8,8] x) => (float[N,8,8,8] y, float[N,4] z) {
    a = Conv <pads=[1,1,1,1]> (x, w) s = Sin (a) b = Mul (a, s)
    c = Conv <pads=[1,1,1,1]> (b, v) t = Sin (c) d = Mul (c, t) y = Add (d, b)
    e = Conv (y, u) g = GlobalAveragePool (e) f = Flatten (g) z = Softmax (f) }"""
WEIGHTS = {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3), "u": (4, 8, 1, 1)}
CAPTURING = """g (float[N,3,8,8] x) => (float[N,8,8,8] y) {
    a = Conv <pads=[1,1,1,1]> (x, w) h = Atan (a) s = Cos (a) b = Conv (s, u) m = ReduceMean <keepdims=0> (b)
    least = Constant <value_float=-1000.0> () c = Greater (m, least)
    y = If (c) <then_branch = same () => (float[N,8,8,8] p) { o = Mul (h, b) r = ReduceMean <axes=[1]> (x) p = Add (o, r) },
                else_branch = other () => (float[N,8,8,8] q) { q = Identity (h) }> }"""
ALONE = "g (float[N,3,8,8] x) => (float[N,3,8,8] y) { s = Sin (x) y = Softmax <axis=1> (s) }"
HALVES = """g (float[N,4,8,8] x) => (float[N,2,8,8] y, float[N,2,64] z) {
    s = Sin (x) p, q = Split <axis=1> (s, halves) y = Atan (p) r = Reshape (q, flat) z = Cos (r) }"""


@pytest.fixture(scope="module")
def gated() -> tuple[Artifact, bytes]:
    """Three programs with the CPU between them, for a batch of 2; and the quantised model."""
    model = written(GATED, WEIGHTS)
    quantised, _ = quantise(model, images(model, 8))
    return compile_model(quantised, preset("tiny"), batch=2), quantised.SerializeToString()


def answers(model: bytes, x: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model)
    return dict(zip((output.name for output in session.get_outputs()), session.run(None, {"x": x}), strict=True))


def samples(count: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_cut_model_answers_as_onnxruntime_does(gated, device, count):
    """A rounding on both sides, or on neither, would be a step of the scale off; a mixed-up batch would be far off."""
    artifact, model = gated
    assert [piece.manifest["kind"] for piece in artifact.pieces] == ["accelerator", "cpu"] * 3
    x = samples(count)
    with Model(artifact, device=device, check=True) as opened:
        found = opened.run({"x": x})
        assert opened.agreement.tensors == 7
        assert opened.last["cpu_seconds"] > 0
    for name, wanted in answers(model, x).items():
        np.testing.assert_allclose(found[name], wanted, atol=1e-5)


@pytest.mark.parametrize("device", ["emulator", "reference"])
def test_the_cpu_rounds_before_and_behind_a_view(device):
    """onnxruntime would merge the two roundings around the Split, whose scales differ: nine elements of ten are other ones."""
    model = written(HALVES, {"halves": np.array([2, 2]), "flat": np.array([0, 2, 64])})
    scales = {"s": (1 / 32, 3), "p": (1 / 3, 0), "q": (1 / 5, 7), "r": (1 / 4, -2), "y": (1 / 64, 0), "z": (1 / 64, 0)}
    model = with_pairs(model, scales)
    x = images(model, 2)["x"]
    with Model(compile_model(model, preset("tiny")), device=device, check=True) as opened:
        found = opened.run({"x": x})
        assert opened.cpu_agreement.tensors > 0
    for name, wanted in zip(("y", "z"), onnx_text.answers(model, {"x": x}), strict=True):
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.cosim
def test_a_cut_model_on_the_rtl(gated):
    """Three programs take turns on one accelerator, and each is compared word by word."""
    artifact, model = gated
    x = samples(3)
    with Model(artifact, device="rtl", check=True) as opened:
        found = opened.run({"x": x})
        assert opened.agreement.executions == ("RTL", "emulator", "reference")
        assert opened.last["cycles"] == sum(program["cycles"] for program in opened.last["programs"])
        assert len(opened.last["layers"]) == 7
    for name, wanted in answers(model, x).items():
        np.testing.assert_allclose(found[name], wanted, atol=1e-5)


def test_a_cut_model_is_saved_and_read(gated, tmp_path):
    artifact, _ = gated
    save(artifact, tmp_path / "m.cnna")
    assert load(tmp_path / "m.cnna").pieces == artifact.pieces


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_on_a_board_batches_alternate(gated, count, board):
    """Every program has its own memory and registers: with those of another it would overwrite its neighbour's answers."""
    artifact, model = gated
    x = samples(count)
    with BoardModel(artifact, board) as opened:
        found = opened.run({"x": x})
        again = list(opened.stream({"x": x[start : start + 2]} for start in range(0, count, 2)))
        assert opened.last["fps_end_to_end"] > 0
    for name, wanted in answers(model, x).items():
        np.testing.assert_allclose(found[name], wanted, atol=1e-5)
        np.testing.assert_array_equal(np.concatenate([answer[name] for answer in again]), found[name])


@pytest.mark.parametrize("order", ["001", "0101", "1.00.", "10.1.0"])
def test_cut_models_alternate_as_batches_come(gated, order, board):
    """An answer would be taken for that of another piece or model. `.`: nothing yet; 1 is the same model for itself."""
    artifact, model = gated
    x = samples(len(order))
    with BoardModel(artifact, board) as first, BoardModel(artifact, board) as second:
        models = [first, second]
        source = (
            NOT_YET if letter == "." else BoardBatch.of(models, int(letter), {"x": x[number : number + 1]}, number)
            for number, letter in enumerate(order)
        )
        found = {batch.tag: outputs for batch, outputs in alternate(models, source)}
    assert sorted(found) == [number for number, letter in enumerate(order) if letter != "."]
    for name, wanted in answers(model, x).items():
        for number, outputs in found.items():
            np.testing.assert_allclose(outputs[name], wanted[number : number + 1], atol=1e-5)


def test_a_model_for_the_cpu_alone_runs(tmp_path, board):
    """A model that the accelerator cannot run at all would not run."""
    model = written(ALONE, {})
    x = samples(3)
    quantised, report = quantise(model, {"x": x})
    assert not report.quants
    artifact = compile_model(quantised, preset("tiny"), batch=2)
    save(artifact, tmp_path / "m.cnna")
    with Model(tmp_path / "m.cnna") as opened:
        np.testing.assert_allclose(opened.run(x), answers(model.SerializeToString(), x)["y"], atol=1e-6)
        assert opened.last["cycles"] is None
    with BoardModel(artifact, board) as opened, pytest.raises(DataError, match="has nothing for the accelerator"):
        alternate([opened], [])


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_graphs_inside_a_node_read_what_earlier_pieces_made(kind):
    """The host would drop a tensor that only an If in a later piece reads, or hand it an unprocessed picture."""
    model = written(CAPTURING, {"w": (8, 3, 3, 3), "u": (8, 8, 1, 1)})
    how = Preprocess(scale=0.02, mean=(1.0,), std=(1.0,))
    quantised, _ = quantise(model, images(model, 8), preprocess=how)
    x = np.random.default_rng(1).integers(0, 100, (1, 3, 8, 8)).astype(kind)
    artifact = compile_model(quantised, preset("tiny"))
    assert [piece.manifest["kind"] for piece in artifact.pieces] == ["accelerator", "cpu"] * 2
    with Model(artifact) as opened:
        wanted = answers(quantised.SerializeToString(), how.apply(x) if kind == np.uint8 else x)
        np.testing.assert_allclose(opened.run(x), wanted["y"], atol=1e-4)


class _Planned(Flight):
    """A batch of a model of three programs that only records when it is asked for what."""

    def __init__(self, name: str, said: list[str]) -> None:
        self.name, self.said, self.number = name, said, -1

    def advance(self) -> Job:
        self.number += 1
        self.said.append(f"{self.name}{self.number}")
        return Job(self.number, {})


@pytest.mark.parametrize(
    ("batches", "wanted"),
    [("A", "A0 - A1 - A2"), ("AB", "A0 B0 A1 B1 A2 B2"), ("ABC", "A0 B0 A1 B1 A2 B2 C0 - C1 - C2")],
)
def test_two_batches_alternate(batches, wanted):
    """While one batch is on the accelerator, the CPU has the other; a single batch must wait for its own answers."""
    said: list[str] = []
    for job in jobs_of((_Planned(name, said) for name in batches), [], 3):
        if job is None:
            said.append("-")
    assert said == wanted.split()
