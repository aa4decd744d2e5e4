"""AP beside pycocotools fed by hand, places of boxes in pictures of other sizes, and the forms of detectors' outputs."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cnna.evaluate.datasets.coco_file import read_boxes
from cnna.evaluate.datasets.dataset import CORNER, LETTERBOX, WHOLE, Place
from cnna.evaluate.tasks.decoding import decoder, form_of, own_decoder
from cnna.evaluate.tasks.detection import Detection
from cnna.evaluate.tasks.task import Asked, Targets
from cnna.spec.errors import DataError

FRAME = (64, 64)


def coco(folder: Path, random: np.random.Generator, count: int = 6) -> tuple[Path, dict[str, Any]]:
    """A file of three categories, with pictures of several sizes and up to four objects in each; one is a crowd."""
    folder.mkdir()
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(count):
        width, height = (int(side) for side in random.integers(40, 200, 2))
        Image.new("RGB", (width, height)).save(folder / f"{number}.jpg")
        images.append({"id": 100 + number, "file_name": f"{number}.jpg", "width": width, "height": height})
        for _ in range(random.integers(0, 5)):
            left, top = random.uniform(0, width / 2), random.uniform(0, height / 2)
            box = [left, top, random.uniform(4, width / 2), random.uniform(4, height / 2)]
            kind = int(random.choice([7, 3, 90]))
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": 100 + number,
                    "category_id": kind,
                    "bbox": box,
                    "area": box[2] * box[3] / 2,
                    "iscrowd": 0,
                }
            )
    annotations[2]["iscrowd"] = 1
    categories = [{"id": 90, "name": "cup"}, {"id": 3, "name": "car"}, {"id": 7, "name": "cat"}]
    whole = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "a.json").write_text(json.dumps(whole))
    return folder / "a.json", whole


@pytest.mark.parametrize("fit", [LETTERBOX, CORNER, WHOLE])
def test_ap_is_what_pycocotools_says_of_the_same_boxes(tmp_path: Path, fit: str) -> None:
    """Ids of categories, crowds, areas and the way back to the picture's pixels each change AP if one slips."""
    coco_module, cocoeval = (import_module(f"pycocotools.{name}") for name in ("coco", "cocoeval"))
    random = np.random.default_rng(3)
    path, whole = coco(tmp_path / "d", random)
    data = read_boxes(path, None, None, fit)
    assert data.classes == ("car", "cat", "cup")
    ids, rows, records = [3, 7, 90], [], []
    task = Detection(own_decoder("f", lambda answers, frame: (answers["boxes"], answers["scores"], answers["classes"])))
    for target, image in zip(data.targets, whole["images"], strict=True):
        size = (image["height"], image["width"])
        boxes, scores, kinds = [], [], []
        for one in target["objects"]:
            left, top, width, height = np.array(one["box"]) + random.normal(scale=3, size=4)
            boxes.append([left, top, left + max(width, 1), top + max(height, 1)])
            scores.append(float(random.random()))
            kinds.append(one["class"] if random.random() < 0.8 else 0)
        for box, score, kind in zip(boxes, scores, kinds, strict=True):
            left, top, right, bottom = np.clip(box, 0, [size[1], size[0]] * 2)
            rows.append(
                {"image_id": image["id"], "category_id": ids[kind], "bbox": [left, top, right - left, bottom - top], "score": score}
            )
        place = Place.of(size, FRAME, fit)
        inside = np.array(boxes).reshape(-1, 4) * np.array([*place.scales[::-1]] * 2) + np.array([*place.shifts[::-1]] * 2)
        answers = {"boxes": inside, "scores": np.array(scores), "classes": np.array(kinds, np.int64)}
        records.append(task.record(Asked("m", FRAME), answers, target))
    truth = coco_module.COCO(str(path))
    judged = cocoeval.COCOeval(truth, truth.loadRes(rows), "bbox")
    judged.evaluate()
    judged.accumulate()
    judged.summarize()
    wholes = task.wholes(records, Targets(data.targets, data.names, data.classes))
    everything = np.arange(len(records))
    assert [wholes[name].of(everything) for name in ("ap", "ap50", "ap75")] == pytest.approx(judged.stats[:3].tolist(), abs=2e-3)
    assert 0.05 < judged.stats[0] < 0.95


def test_objects_count_as_found_once_and_by_a_sure_box_of_their_class() -> None:
    """Three boxes on one object are one find; a crowd is no object to find."""
    target = {
        "size": (100, 100),
        "objects": [
            {"box": [0, 0, 10, 10], "area": 100, "crowd": False, "class": 0},
            {"box": [1, 0, 10, 10], "area": 100, "crowd": False, "class": 0},
            {"box": [50, 50, 20, 20], "area": 400, "crowd": False, "class": 1},
            {"box": [0, 0, 90, 90], "area": 8100, "crowd": True, "class": 1},
        ],
    }
    task = Detection(decoder(None, 2))
    boxes = [[0, 0, 10, 10, 0.9, 0], [50, 50, 70, 70, 0.9, 0], [50, 50, 70, 70, 0.1, 1]]
    data = Targets([target], ["s"], ("a", "b"))
    assert task.scores([{"boxes": boxes}], data)["found"].tolist() == [pytest.approx(1 / 3)]
    assert task.words({"boxes": boxes}, data) == "2 a"
    assert task.right(target, data) == "2 a, b"


def test_forms_are_told_by_their_shapes() -> None:
    """Rows that are read along the wrong axis, or with a score for objectness that is none, are noise."""
    centre = np.array([32.0, 16.0, 20.0, 8.0])
    corners = [22.0, 12.0, 42.0, 20.0]
    rows = np.zeros((30, 7), np.float32)
    rows[11, :4], rows[11, 5] = centre, 0.75
    asked = Asked("m", FRAME)
    for name, output in (("last", rows[None]), ("first", rows.T[None])):
        found = decoder(None, 3)(asked, {"y": output})
        assert (found.boxes.tolist(), found.scores.tolist(), found.classes.tolist()) == ([corners], [0.75], [1]), name
    five = np.insert(rows, 4, 0.0, axis=1)
    five[11, 4], five[11, 6] = 0.5, 0.5
    found = decoder(None, 3)(asked, {"y": five[None]})
    assert (found.boxes.tolist(), found.scores.tolist(), found.classes.tolist()) == ([corners], [0.25], [1])
    finished = {"boxes": np.array([corners]), "scores": np.array([0.5]), "labels": np.array([2])}
    found = decoder(None, 3)(asked, finished)
    assert (found.boxes.tolist(), found.scores.tolist(), found.classes.tolist()) == ([corners], [0.5], [2])
    shares = {"boxes": np.array([[corners]]) / 64, "scores": np.array([[[0.1, 0.0, 0.9, 0.0]]])}  # a background before three
    found = decoder(None, 3)(asked, shares)
    assert (found.boxes.tolist(), found.classes.tolist()) == ([corners], [1])
    assert form_of({"y": np.zeros((1, 9, 20, 20))}, 3) is None
    with pytest.raises(DataError, match=r"m: outputs y \[1, 9, 20, 20\] are no boxes of 3 classes .* --decode names one"):
        decoder(None, 3)(asked, {"y": np.zeros((1, 9, 20, 20))})


def test_a_yolox_without_its_decoding_must_be_named() -> None:
    """Its rows have the shape of decoded ones: the boxes would all lie in the first pixels."""
    cells = 8 * 8 + 4 * 4 + 2 * 2
    rows = np.zeros((1, cells, 8), np.float32)
    number = 64 + 2 * 4 + 1  # the cell in row 2 and column 1 of stride 16
    rows[0, number] = [0.5, 0.25, np.log(2), np.log(0.5), 1, 0, 0.5, 0]
    found = decoder("yolox", 3)(Asked("m", FRAME), {"y": rows})
    assert found.boxes == pytest.approx(np.array([[24 - 16, 36 - 4, 24 + 16, 36 + 4]]))
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.5], [1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("not json", "line 1: not JSON"),
        ({"images": None}, "has no list images"),
        ({"images": []}, "has no image"),
        ({"images": [{"id": 1}]}, "image 0: has no file_name"),
        ({"images": [{"id": 1, "file_name": "gone.jpg"}]}, r"gone.jpg: no such picture; --images DIR says where"),
        ({"annotations": [{"image_id": 100, "category_id": 4, "bbox": [0, 0, 1, 1]}]}, "category 4 is not among the categories"),
        ({"annotations": [{"image_id": 100, "category_id": 3, "bbox": [0, 0, 1]}]}, "is no box: left, top, width, height"),
        ({"annotations": [{"image_id": 5, "category_id": 3, "bbox": [0, 0, 1, 1]}]}, "annotations name image 5"),
        (
            {"annotations": [{"image_id": [1], "category_id": 3, "bbox": [0, 0, 1, 1]}]},
            "image_id .1. is neither a number nor a name",
        ),
        ({"annotations": [{"image_id": 100, "category_id": [], "bbox": [0, 0, 1, 1]}]}, "is not among the categories"),
        ({"annotations": [{"image_id": 100, "category_id": 3, "bbox": [0, 0, 1, "a"]}]}, "is no box"),
        ({"annotations": [{"image_id": 100, "category_id": 3, "bbox": [0, 0, 1, 1], "area": "a"}]}, "area 'a' is no number"),
        ({"annotations": [7]}, r"annotations\[0\] is no object"),
        ({"images": [{"id": 1, "file_name": "0.jpg"}] * 2}, "id 1 is that of another image too"),
        ({"categories": [{"id": None, "name": "a"}]}, "id None is neither a number nor a name"),
        ({"categories": [{"id": 3, "name": "a"}, {"id": 4, "name": "a"}]}, "two categories are called a"),
    ],
)
def test_a_faulty_file_is_one_line(tmp_path: Path, change: Any, said: str) -> None:
    """Annotations are written by tools of every kind."""
    path, whole = coco(tmp_path / "d", np.random.default_rng(0))
    path.write_text(change if isinstance(change, str) else json.dumps({**whole, **change}))
    with pytest.raises(DataError, match=rf"a.json: .*{said}"):
        read_boxes(path, None, None, LETTERBOX)


def test_labels_give_categories_their_numbers(tmp_path: Path) -> None:
    """A model of 80 classes has others between those of the file."""
    path, _ = coco(tmp_path / "d", np.random.default_rng(0))
    labels = ("cup", "person", "cat", "car")
    data = read_boxes(path, labels, None, LETTERBOX)
    plain = read_boxes(path, None, None, LETTERBOX)
    named = [[data.classes[one["class"]] for one in target["objects"]] for target in data.targets]  # type: ignore[index]
    assert named == [[plain.classes[one["class"]] for one in target["objects"]] for target in plain.targets]  # type: ignore[index]
    with pytest.raises(DataError, match="--labels has no name for category car, cat"):
        read_boxes(path, ("cup",), None, LETTERBOX)
