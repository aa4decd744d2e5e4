"""A detector's own outputs come from its heads by tables, and are those of the quantised model."""

import numpy as np
import onnx
import pytest
from onnx import helper

import cnna
from cnna.host.native.detect_rows import model_rows_of
from cnna.spec.cpu_ops import CpuPart
from cnna.spec.detection.heads import Heads
from cnna.spec.detection.rows import model_rows, outputs_of_rows

from ... import detector_models

NEAR = 1e-5
ROWS = [name for name, variant in detector_models.VARIANTS.items() if not variant.raw]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Within 1e-5 of each number, or of the picture."""
    np.testing.assert_allclose(found, wanted, rtol=NEAR, atol=NEAR * detector_models.SIDE * 0.1)


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_drawn_heads_are_the_tails(name: str) -> None:
    """Users of the model's own output would get other numbers than its decode gives for some integers."""
    made = detector_models.made(name)
    assert isinstance(made.found, Heads)
    assert "rows" in made.found.entry
    rng = np.random.default_rng(17)
    outputs = made.artifact.manifest["model_outputs"]
    shapes = {entry["name"]: [size or 1 for size in entry["shape"] or ()] for entry in outputs}
    for low, high in ((-128, 128), (90, 128), (-128, -90)):
        tensors = [rng.integers(low, high, shape).astype(np.int8) for shape in made.found.shapes]
        found = outputs_of_rows(made.found, model_rows(made.found, tensors), shapes)
        for entry, wanted in zip(outputs, detector_models.outputs_of_heads(made, tensors), strict=True):
            same(found[entry["name"]], wanted)


@pytest.mark.parametrize("name", ["yolov5", "yolov8", "yolov8 apart"])
def test_a_sessions_answers_are_those_of_its_piece_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session would still run the whole decode in float, which takes most of a picture's time; or answer other boxes."""
    made, pictures = detector_models.made(name), detector_models.pictures(2, seed=7)
    with cnna.InferenceSession(made.artifact, "emulator", check=True) as session:  # which shows what its pieces make
        wanted = session.run(None, {"x": pictures})
        assert session.cpu_agreement.tensors > 0
    monkeypatch.setattr(CpuPart, "run", None)
    for device in ("emulator", "reference"):
        with cnna.InferenceSession(made.artifact, device) as session:
            for y, other in zip(session.run(None, {"x": pictures}), wanted, strict=True):
                assert y.shape == other.shape
                same(y, other)


def test_outputs_that_heads_do_not_give_are_computed() -> None:
    """A model with another output beside the boxes would lose it, or get it from tables that are not its own."""
    model = detector_models.model("yolov5")
    model.graph.node.append(helper.make_node("ReduceMax", ["fine_y"], ["surest"], keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("surest", onnx.TensorProto.FLOAT, []))
    made = detector_models.compiled(detector_models.quantised(model))
    assert "rows" not in made.artifact.manifest.get("detector", {})
    assert model_rows_of(made.artifact.manifest) is None
