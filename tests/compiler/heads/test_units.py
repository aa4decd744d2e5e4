"""Boxes with y before x, or in shares of the picture, are those places; what a score is, several outputs must not leave open."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from cnna.compiler.heads.find import Missed
from cnna.host.model.detections import corners
from cnna.spec.detection.decode import candidates
from cnna.spec.detection.heads import Heads

from ... import detector_models, head_models

SIDE = detector_models.SIDE
Y_FIRST, SHARES, CELLS = "Gather <axis=2> (plain, swapped)", "Mul (plain, shares)", "Mul (plain, cells)"


def _with(model: ModelProto, constants: Mapping[str, np.ndarray]) -> ModelProto:
    """The model with some constants more."""
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return model


def _ended(monkeypatch: pytest.MonkeyPatch, name: str, end: str) -> ModelProto:
    """A YOLO whose output `plain` is changed at its end."""
    base = detector_models.VARIANTS[name]
    text = f"{base.end.replace('y =', 'plain =')} y = {end}"
    monkeypatch.setitem(detector_models.VARIANTS, "changed", base._replace(end=text))
    numbers = 4 + base.objectness + detector_models.CLASSES
    divided = {one: np.array([1 / by] * 4 + [1] * (numbers - 4), np.float32) for one, by in (("shares", SIDE), ("cells", 4))}
    swapped = np.array([1, 0, 3, 2, *range(4, numbers)])
    made = {"swapped": swapped, **divided}
    return _with(detector_models.model("changed"), {one: value for one, value in made.items() if one in end})


def _found(model: ModelProto) -> tuple[Heads, np.ndarray, np.ndarray, np.ndarray]:
    """The heads, each box with its row, and the model's output by onnxruntime, for drawn heads."""
    made = detector_models.compiled(detector_models.quantised(model))
    assert isinstance(made.found, Heads), made.found
    tensors = [np.random.default_rng(5).integers(-128, 128, shape).astype(np.int8) for shape in made.found.shapes]
    found = candidates(made.found, tensors, 0.0, "best", 1 << 16)
    outputs = sorted(detector_models.outputs_of_heads(made, tensors), key=lambda one: one.shape[-1])  # boxes before scores
    return made.found, found.boxes, found.rows, np.concatenate([y[0] for y in outputs], axis=-1)


@pytest.mark.parametrize("name", ["yolov3", "yolov5", "yolov8", "yolox"])
@pytest.mark.parametrize("end", [Y_FIRST, SHARES])
def test_boxes_of_a_yolo(monkeypatch: pytest.MonkeyPatch, name: str, end: str) -> None:
    """Boxes would be mirrored at the diagonal, or all lie within a pixel at the upper left, and nothing would say so."""
    _, boxes, rows, y = _found(_ended(monkeypatch, name, end))
    wanted = corners(y[rows, :4][:, [1, 0, 3, 2]] if end == Y_FIRST else y[rows, :4] * SIDE)
    scale = np.maximum(np.abs(wanted), SIDE)
    assert len(rows) > 100
    assert (np.abs(boxes - wanted) / scale).max() <= 1e-3


@pytest.mark.parametrize("name", ["ssd", "ssd in one", "ssd sigmoid"])
def test_boxes_of_an_ssd_with_rows_first(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Boxes of TensorFlow's SSDs, which give y before x, would be mirrored at the diagonal."""
    base = head_models.VARIANTS[name]
    whole = name == "ssd in one"
    change = ("y =", "y") if whole else ("boxes =", "boxes")
    text = f"{base.text.replace(change[0], 'plain =')} {change[1]} = Gather <axis=2> (plain, swapped)"
    monkeypatch.setitem(head_models.VARIANTS, "changed", base._replace(text=text))
    swapped = np.array([1, 0, 3, 2, *range(4, 5 + head_models.CLASSES)[: 99 * whole]])
    _, boxes, rows, y = _found(_with(head_models.model("changed"), {"swapped": swapped}))
    turned = y[rows, :4][:, [1, 0, 3, 2]]
    wanted = corners(turned) if whole else turned * SIDE
    assert (np.abs(boxes - wanted) / np.maximum(np.abs(wanted), SIDE)).max() <= 1e-3


def test_boxes_in_cells_are_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes that a user multiplies by the stride would be taken for pixels."""
    made = detector_models.compiled(detector_models.quantised(_ended(monkeypatch, "yolov5", CELLS)))
    assert isinstance(made.found, Missed)
    assert "neither pixels nor shares" in made.found.why


@pytest.mark.parametrize("apart", [False, True])
def test_several_boxes_a_cell_need_no_objectness(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """The first class of an SSD of sigmoids would be multiplied into the others, and be lost itself."""
    base = head_models.VARIANTS["ssd in one"]
    end = "scores = Sigmoid (k) " + ("boxes = Concat <axis=2> (mid, wh)" if apart else "y = Concat <axis=2> (mid, wh, scores)")
    outputs = {"boxes": 3, "scores": 3} if apart else base.outputs
    monkeypatch.setitem(head_models.VARIANTS, "changed", base._replace(text=head_models.SSD_BOXES + end, outputs=outputs))
    found, boxes, rows, y = _found(head_models.model("changed"))
    assert found.entry["family"] == "SSD"
    assert found.entry["labels"] == y.shape[1] - 4 == 1 + head_models.CLASSES
    assert found.entry["grids"][0]["objectness"] is None
    np.testing.assert_allclose(boxes, corners(y[rows, :4]), atol=1e-3 * SIDE)


@pytest.mark.parametrize("order", [("box", "there", "classes"), ("box", "classes", "there"), ("classes", "box", "there")])
def test_a_third_output_of_scores_is_a_miss(monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]) -> None:
    """Objectness, or all classes, would be left out, by which output comes first."""
    base = detector_models.VARIANTS["yolox raw"]
    end = f"{detector_models.X_END.replace('y =', 'plain =')} box, there, y = Split <axis=2> (plain, three)"
    monkeypatch.setitem(detector_models.VARIANTS, "three", base._replace(end=end))
    model = _with(detector_models.model("three"), {"three": np.array([4, 1, detector_models.CLASSES])})
    model.graph.node.append(helper.make_node("Identity", ["y"], ["classes"]))
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(one, onnx.TensorProto.FLOAT, ["N", "p", f"q{one}"]) for one in order)
    made = detector_models.compiled(detector_models.quantised(model))
    assert isinstance(made.found, Missed)
    assert "looks like scores of the same boxes" in made.found.why
