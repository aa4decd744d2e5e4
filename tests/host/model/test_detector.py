"""`cnna.Detector` on every device: the boxes of the whole float output, in the picture's pixels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import cnna
from cnna.compiler.compile import compile_model
from cnna.compiler.heads.find import with_detector
from cnna.host.model.letterbox import put
from cnna.host.model.planned import PlannedFlight
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.detection.decode import Labels
from cnna.spec.errors import DataError

from ... import detector_models
from ...compiler.written import answers
from ..emulated_board import EmulatedBoard
from ..mapped_board import MappedBoard

PICTURES = detector_models.pictures(3, seed=7)
LEAST = 0.3


def expected(name: str, picture: np.ndarray, labels: str = "all") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Detections in a picture [3, 64, 64], from onnxruntime's whole float output of the quantised model."""
    outputs = answers(detector_models.made(name).model, {"x": detector_models.HOW.apply(picture[None])})
    found = detector_models.wanted(name, outputs, LEAST, 0.5, labels)
    return np.clip(found.boxes, 0, detector_models.SIDE), found.scores, found.classes


def check(name: str, found: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    """Same classes, and boxes within a thousandth of the picture."""
    assert len(found[1]) == len(wanted[1]) > 0, name
    assert found[2].tolist() == wanted[2].tolist()
    np.testing.assert_allclose(found[1], wanted[1], atol=1e-6)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-3 * detector_models.SIDE)


@pytest.mark.parametrize("labels", ["all", "best"])
@pytest.mark.parametrize("name", detector_models.VARIANTS)
def test_detections_are_those_of_the_uncut_model(name: str, labels: Labels) -> None:
    """Users would get other boxes than the model has, or boxes of another picture."""
    with cnna.Detector(detector_models.made(name).artifact, "reference", least=LEAST, labels=labels) as detector:
        for picture in PICTURES:
            check(name, detector.detect(picture.transpose(1, 2, 0)), expected(name, picture, labels))


def test_devices_agree(tmp_path: Path) -> None:
    """A board or the emulator would hand out heads in another order or type. Streams must keep the pictures' order."""
    path = tmp_path / "d.cnna"
    save(detector_models.made("yolov5").artifact, path)
    upright = [picture.transpose(1, 2, 0) for picture in PICTURES]
    board = MappedBoard()
    try:
        for device in ("emulator", "reference", EmulatedBoard(), board):
            with cnna.Detector(path, device, least=LEAST) as detector:
                for found, picture in zip(detector.stream(upright), PICTURES, strict=True):
                    check("yolov5", found, expected("yolov5", picture))
    finally:
        board.shut()


def test_a_board_runs_it_by_plan(mapped: MappedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each picture of a detector would go through the checks and generators that a classifier's pictures are spared."""
    taken: list[PlannedFlight] = []
    monkeypatch.setattr(PlannedFlight, "take", lambda flight, answers: taken.append(flight))
    with cnna.Detector(detector_models.made("yolov8").artifact, mapped, least=LEAST) as detector:
        upright = np.ascontiguousarray(PICTURES[0].transpose(1, 2, 0))
        check("yolov8", detector.detect(upright), expected("yolov8", PICTURES[0]))
        assert taken
        check("yolov8", detector.detect(upright), expected("yolov8", PICTURES[0]))


def test_pictures_of_other_sizes(tmp_path: Path) -> None:
    """Boxes would be in pixels of the model's input; a file and its pixels must give the same."""
    big = np.kron(PICTURES[0].transpose(1, 2, 0)[16:48], np.ones((2, 2, 1), np.uint8))  # 64 rows, 128 columns
    Image.fromarray(big).save(tmp_path / "big.png")
    into = np.zeros((64, 64, 3), np.uint8)
    put(big, into, corner=False)
    with cnna.Detector(detector_models.made("yolov8").artifact, "reference", least=LEAST) as detector:
        found, same = detector.detect(big), detector.detect(tmp_path / "big.png")
        inner = detector.detect(into)
    assert np.array_equal(found.boxes, same.boxes)
    assert np.array_equal(found.scores, same.scores)
    wanted = (inner.boxes - np.array([0, 16, 0, 16])) * 2
    np.testing.assert_allclose(found.boxes, np.clip(wanted, 0, [128, 64, 128, 64]), atol=1e-3)
    assert found.classes.tolist() == inner.classes.tolist()


def test_the_models_own_outputs_stay() -> None:
    """Who needs the rows would have to open the file twice."""
    made = detector_models.made("yolov8 apart")
    picture = PICTURES[0].transpose(1, 2, 0)
    with cnna.Detector(made.artifact, "reference") as detector:
        found = detector.outputs(picture)
    with cnna.InferenceSession(made.artifact, "reference") as session:
        wanted = session.run(None, {"x": picture[None]})
    assert list(found) == ["y", "z"]
    for one, other in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"least": 2}, "least=2"),
        ({"overlap": float("nan")}, "overlap=nan"),
        ({"labels": "some"}, "labels='some'"),
        ({"most": 0}, "most=0"),
    ],
)
def test_arguments_out_of_range_are_one_line(arguments: dict, said: str) -> None:
    """A threshold of 25 for 0.25 would silently find nothing."""
    with pytest.raises(DataError, match=said):
        cnna.Detector(detector_models.made("yolox").artifact, "reference", **arguments)


def test_a_model_without_heads_says_how_to_get_them() -> None:
    """The user would see a KeyError."""
    artifact = detector_models.made("yolox").artifact
    manifest = artifact.manifest.copy()
    del manifest["detector"]
    with pytest.raises(DataError, match="--detector auto"):
        cnna.Detector(replace(artifact, manifest=manifest), "reference")


def test_batches_are_taken_apart() -> None:
    """Of three pictures in batches of two, one would get another's boxes, or the copy that completes a batch would be answered."""
    artifact = with_detector(compile_model(detector_models.made("yolox").model, preset("tiny"), batch=2))[0]
    upright = [picture.transpose(1, 2, 0) for picture in PICTURES]
    with cnna.Detector(artifact, "reference", least=LEAST) as detector:
        assert len(upright) == 3
        for found, picture in zip(detector.stream(upright), PICTURES, strict=True):
            check("yolox", found, expected("yolox", picture))
        check("yolox", detector.detect(upright[2]), expected("yolox", PICTURES[2]))


@pytest.mark.parametrize("entry", [{"colour": "bgr"}, {"layout": "nchw"}])
def test_colours_are_in_the_models_order(entry: dict) -> None:
    """Users give RGB; a model that was trained with BGR would see blue for red."""
    artifact = detector_models.made("yolov3").artifact
    preprocess = artifact.manifest["preprocess"]
    assert preprocess is not None
    manifest = artifact.manifest.copy()
    manifest["preprocess"] = {**preprocess, **entry}
    picture = PICTURES[0].transpose(1, 2, 0)
    given = np.ascontiguousarray(picture[..., ::-1]) if "colour" in entry else picture
    with cnna.Detector(replace(artifact, manifest=manifest), "reference", least=LEAST) as detector:
        check("yolov3", detector.detect(given), expected("yolov3", PICTURES[0]))
        check("yolov3", next(detector.stream([given])), expected("yolov3", PICTURES[0]))
