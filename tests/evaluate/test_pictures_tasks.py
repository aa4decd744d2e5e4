"""Detection, segmentation, keypoints and embeddings from files on disk to figures and to the page."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import cnna
from cnna.evaluate.evaluate import evaluate
from cnna.evaluate.page import html
from cnna.spec.artifact import save
from cnna.spec.errors import DataError, UserError

from .. import detector_models
from . import made

SCALE = {"scale": 1 / 255}
SIDE = 32


def constant(path: Path, value: np.ndarray, side: int = SIDE) -> Path:
    """A model of pictures that always answers the same."""
    tensor = numpy_helper.from_array(value.astype(np.float32), "v")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("ReduceMean", ["x"], ["m"], keepdims=0),
        helper.make_node("Constant", [], ["zero"], value=helper.make_tensor("z", TensorProto.FLOAT, [], [0.0])),
        helper.make_node("Mul", ["m", "zero"], ["n"]),
        helper.make_node("Add", ["c", "n"], ["y"]),
    ]
    return made.save(path, nodes, (3, side, side), ["y"])


def coco(folder: Path, boxes: list[list[float]], size: tuple[int, int] = (64, 48)) -> Path:
    """A picture for each box of the one category."""
    folder.mkdir()
    for number in range(len(boxes)):
        Image.new("RGB", size, (40, 90, 160)).save(folder / f"{number}.png")
    images = [{"id": number, "file_name": f"{number}.png", "width": size[0], "height": size[1]} for number in range(len(boxes))]
    annotations = [
        {"id": n + 1, "image_id": n, "category_id": 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for n, box in enumerate(boxes)
    ]
    (folder / "a.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cup"}]})
    )
    return folder / "a.json"


def rows(boxes: list[list[float]]) -> np.ndarray:
    """A YOLOv8's answer [1, 5, N] with these boxes in the picture of 64 x 48, in a letterbox of 32 x 32."""
    found = np.zeros((1, 5, 8))
    for number, (left, top, width, height) in enumerate(boxes):
        found[0, :, number] = [(left + width / 2) / 2, (top + height / 2) / 2 + 4, width / 2, height / 2, 0.9]
    return found


def test_a_detector_is_measured_on_coco_and_drawn(tmp_path: Path) -> None:
    """Boxes must find the way from the letterbox to the picture, through the journal, into AP and onto the page."""
    box = [10.0, 8.0, 20.0, 30.0]
    data = coco(tmp_path / "d", [box, box, [0.0, 0.0, 8.0, 8.0]])
    good, bad = constant(tmp_path / "good.onnx", rows([box])), constant(tmp_path / "bad.onnx", rows([[40, 20, 9, 9]]))
    found = evaluate([good, bad], data, preprocess=SCALE, cache=tmp_path / "c")
    assert found.task.name == "detection"
    values = {name: one.value for name, one in found.model("good.onnx").estimates.items()}
    assert values["found"] == pytest.approx(2 / 3)
    assert values["ap50"] == pytest.approx(values["ap"], abs=1e-9)
    assert 0.6 < (values["ap"] or 0) < 0.7
    assert found.model("bad.onnx").estimates["ap"].value == 0
    assert found.model("good.onnx").estimates["ap"].standard_error is None
    (difference,) = found.differences
    assert (difference.better, difference.worse) == (0, 2)
    text = html(found)
    assert text.count('<rect class="c0" x="10.0" y="8.0" width="20.0" height="30.0">') == 2
    assert text.count('<rect class="c1" x="10.0" y="8.0" width="20.0" height="30.0">') == 3
    assert '<svg viewBox="0 0 64 48">' in text
    assert not re.findall(r'(?:src|href)="(?!data:)', text)


def test_a_function_of_the_users_decodes(tmp_path: Path) -> None:
    """Anchors and grids that no shape tells are the user's to decode."""
    box = [10.0, 8.0, 20.0, 30.0]
    data, model = coco(tmp_path / "d", [box]), constant(tmp_path / "m.onnx", np.array([[5.0, 8.0, 15.0, 23.0]]))
    own = tmp_path / "own.py"
    own.write_text(
        "def boxes(answers, frame):\n    assert frame == (32, 32)\n    return answers['y'], [0.8], [0]\n\n"
        "def no(answers, frame):\n    return 3\n"
    )
    found = evaluate(model, data, decode=f"{own}:boxes", preprocess=SCALE, cache=tmp_path / "c")
    assert found.models[0].estimates["ap"].value == pytest.approx(1.0)
    with pytest.raises(DataError, match=r"own.py:no: must give boxes \[N, 4\], scores \[N\] and classes \[N\]"):
        evaluate(model, data, decode=f"{own}:no", preprocess=SCALE, cache=tmp_path / "c")
    with pytest.raises(UserError, match="--decode is for detection, not for classification"):
        evaluate(model, made.class_folder(tmp_path / "f"), decode=f"{own}:boxes", preprocess=SCALE, cache=tmp_path / "c")


def test_masks_lie_beside_their_pictures(tmp_path: Path) -> None:
    """The class of each pixel must be compared where it is in the picture, whatever the picture's size."""
    classes = np.zeros((24, 40), np.uint8)
    classes[:, 20:] = 1
    classes[:3] = 255
    for name in ("a", "b"):
        made.picture(tmp_path / "d" / "images" / f"{name}.png", (9, 9, 9), 48)
        (tmp_path / "d" / "masks").mkdir(exist_ok=True)
        Image.fromarray(classes).save(tmp_path / "d" / "masks" / f"{name}.png")
    scores = np.zeros((1, 2, 4, 4))
    scores[0, 1, :, 2:] = 1
    scores[0, 1, 0, 0] = 1  # a sixteenth, of which the ignored rows hide half
    found = evaluate(constant(tmp_path / "m.onnx", scores), tmp_path / "d", preprocess=SCALE, cache=tmp_path / "c")
    assert found.task.name == "segmentation"
    wrong, half = 3 * 10, 21 * 20
    estimates = found.models[0].estimates
    assert estimates["pixels"].value == pytest.approx(1 - wrong / (2 * half))
    assert estimates["miou"].value == pytest.approx(((half - wrong) / half + half / (half + wrong)) / 2)
    Image.new("RGB", (40, 24)).save(tmp_path / "d" / "masks" / "b.png")
    with pytest.raises(DataError, match=r"masks/b.png: a mask has one number a pixel, but this is RGB"):
        evaluate(constant(tmp_path / "m.onnx", scores), tmp_path / "d", preprocess=SCALE, cache=tmp_path / "c")
    kept = evaluate(
        constant(tmp_path / "m.onnx", scores), tmp_path / "d", preprocess=SCALE, cache=tmp_path / "c", skip_unreadable=True
    )
    assert (kept.samples, list(kept.skipped)) == (1, ["b.png"])
    (tmp_path / "d" / "masks" / "b.png").unlink()
    with pytest.raises(DataError, match=r"masks/b.png: no such mask"):
        evaluate(constant(tmp_path / "m.onnx", scores), tmp_path / "d", preprocess=SCALE, cache=tmp_path / "c")


def test_keypoints_of_cocos_objects_are_measured_in_their_boxes(tmp_path: Path) -> None:
    """Networks of poses see one object at a time, cut out and scaled."""
    path = coco(tmp_path / "d", [[10.0, 8.0, 20.0, 30.0]])
    whole: dict[str, Any] = json.loads(path.read_text())
    whole["annotations"][0]["keypoints"] = [20, 23, 2, 0, 0, 0, 30, 38, 1]
    path.write_text(json.dumps(whole))
    points = np.array([[[16.0, 16.0], [0.0, 0.0], [32.0, 32.0]]])  # the middle and the corner of the box
    found = evaluate(constant(tmp_path / "m.onnx", points), path, task="keypoints", preprocess=SCALE, cache=tmp_path / "c")
    assert found.samples == 1
    figures = {name: one.value for name, one in found.models[0].estimates.items()}
    assert figures == pytest.approx(dict.fromkeys(("ap", "ap50", "ap75", "oks", "pck0.1", "pck0.2"), 1.0))
    assert "0.png, object 1" in json.dumps(found.figures())


def test_points_in_arrays_are_found_by_their_name(tmp_path: Path) -> None:
    """No option is needed where the file says what it has."""
    random = np.random.default_rng(0)
    points = random.uniform(0, SIDE, (4, 5, 2))
    data = made.arrays(tmp_path / "d.npz", x=random.normal(size=(4, 3, SIDE, SIDE)).astype(np.float32), keypoints=points)
    found = evaluate(constant(tmp_path / "m.onnx", points[:1]), data, cache=tmp_path / "c")
    assert found.task.name == "keypoints"
    values = found.models[0].values["oks"]
    assert values[0] > 0.999 > values[1:].max()


def test_embeddings_are_measured_on_classes(tmp_path: Path) -> None:
    """The classes of retrieval are identities, whatever the model's outputs are called."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 4)
    x = (random.normal(size=(6, 16))[y] + 0.1 * random.normal(size=(24, 16))).astype(np.float32)
    data = made.arrays(tmp_path / "d.npz", x=x, y=y)
    models = [made.echo(tmp_path / "a.onnx", 16), made.negated(tmp_path / "b.onnx", 16)]
    found = evaluate(models, data, task="embedding", cache=tmp_path / "c")
    assert found.models[0].estimates["recall1"].value == 1.0
    same = found.differences[0].same
    assert same is not None
    assert same.value == pytest.approx(-1.0)


def test_a_detector_artifact_is_judged_by_its_own_heads(tmp_path: Path) -> None:
    """Its float outputs may have no form that eval knows, and their boxes are not those that `cnna.Detector` gives."""
    artifact, folder = detector_models.made("yolov5").artifact, tmp_path / "d"
    save(artifact, tmp_path / "m.cnna")
    folder.mkdir()
    images, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    with cnna.Detector(artifact, "reference", least=0.3, most=100) as detector:  # as many as COCO counts
        for number, picture in enumerate(detector_models.pictures(2, seed=7)):
            Image.fromarray(picture.transpose(1, 2, 0)).save(folder / f"{number}.png")
            images.append({"id": number, "file_name": f"{number}.png"})
            found = detector.detect(folder / f"{number}.png")
            for (left, top, right, bottom), kind in zip(found.boxes.tolist(), found.classes.tolist(), strict=True):
                about = {"image_id": number, "category_id": kind, "bbox": [left, top, right - left, bottom - top]}
                annotations.append({"id": len(annotations) + 1, **about})
    categories = [{"id": number, "name": str(number)} for number in range(detector_models.CLASSES)]
    (folder / "a.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    options: dict[str, Any] = {"device": "reference", "overlap": 0.5, "cache": tmp_path / "c"}
    measured = evaluate(tmp_path / "m.cnna", folder / "a.json", min_score=0.3, **options)
    kept = [box for record in measured.models[0].records for box in record["boxes"]]
    assert len(annotations) > 4
    assert [box[5] for box in kept] == [one["category_id"] for one in annotations]
    corners = np.array([box[:4] for box in kept])
    assert np.column_stack([corners[:, :2], corners[:, 2:] - corners[:, :2]]) == pytest.approx(
        np.array([one["bbox"] for one in annotations]), abs=0.02
    )
    assert min(box[4] for box in kept) >= 0.3
    assert (measured.models[0].estimates["ap50"].value or 0) > 0.95
