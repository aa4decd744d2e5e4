"""OKS beside pycocotools, PCK beside its definition, and the forms in which networks give points."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cnna.evaluate.tasks.keypoints import SHARES, Keypoints
from cnna.evaluate.tasks.task import Asked, Targets
from cnna.spec.errors import DataError

FRAME = (64, 48)


def target(random: np.random.Generator, count: int = 17) -> dict[str, Any]:
    """An object whose points lie in a frame; some are not known."""
    points = np.column_stack([random.uniform(0, FRAME[1], count), random.uniform(0, FRAME[0], count), random.integers(0, 3, count)])
    return {"points": points.tolist(), "area": 900.0}


def test_oks_is_that_of_pycocotools() -> None:
    """The 17 sigmas and the area must enter as there, or figures could not be compared with anyone's."""
    coco, cocoeval = (import_module(f"pycocotools.{name}") for name in ("coco", "cocoeval"))
    random = np.random.default_rng(0)
    task, right = Keypoints(), target(random)
    ours = np.array(right["points"])[:, :2] + random.normal(scale=3, size=(17, 2))
    record = task.record(Asked("m", FRAME), {"y": ours.reshape(1, -1).astype(np.float32)}, right)
    made = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 48, 64], "area": 900.0, "iscrowd": 0, "id": 1}
    truth = coco.COCO()
    known = int(sum(point[2] > 0 for point in right["points"]))
    truth.dataset = {
        "info": {},
        "images": [{"id": 1}],
        "categories": [{"id": 1}],
        "annotations": [{**made, "keypoints": np.array(right["points"]).ravel().tolist(), "num_keypoints": known}],
    }
    truth.createIndex()
    rows = np.column_stack([record["points"], np.ones(17)]).ravel().tolist()
    judged = cocoeval.COCOeval(
        truth, truth.loadRes([{"image_id": 1, "category_id": 1, "keypoints": rows, "score": 1.0}]), "keypoints"
    )
    judged.evaluate()
    assert task.scores([record], Targets([right], ["s"]))["oks"][0] == pytest.approx(float(judged.ious[1, 1][0, 0]), abs=1e-9)


def test_pck_is_the_share_of_points_within_a_tenth_and_a_fifth_of_the_longer_side() -> None:
    """Points that are not known are neither right nor wrong."""
    right = {"points": [[0, 0, 2], [10, 40, 2], [5, 5, 0], [10, 0, 1]], "area": None}  # the box is 10 x 40
    task = Keypoints()
    answer = np.array([[0, 3.9], [10, 32.5], [40, 40], [10, 9]], np.float32)
    record = task.record(Asked("m", FRAME), {"y": answer[None]}, right)
    found = task.scores([record], Targets([right], ["s"]))
    assert (found["pck0.1"][0], found["pck0.2"][0]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_heatmaps_shares_and_pixels_are_the_same_points() -> None:
    """Each network has its own form; a cell of a heatmap stands for its middle."""
    task = Keypoints()
    maps = np.zeros((1, 3, 16, 12), np.float32)
    places = [(2, 3), (15, 11), (0, 0)]
    for number, (row, column) in enumerate(places):
        maps[0, number, row, column] = 1
    right = {"points": [[0, 0, 1]] * 3, "area": 9.0}
    wanted = [[(column + 0.5) * 4, (row + 0.5) * 4] for row, column in places]
    asked = Asked("m", FRAME)
    assert task.record(asked, {"y": maps}, right)["points"] == wanted
    assert task.record(Asked("m", FRAME, True), {"y": np.moveaxis(maps, 1, -1)}, right)["points"] == wanted
    shares = np.array(wanted, np.float32) / np.array(FRAME[::-1], np.float32)
    assert Keypoints(SHARES).record(asked, {"y": shares[None]}, right)["points"] == wanted
    with_scores = np.column_stack([np.array(wanted), np.ones(3)])[None].astype(np.float32)
    assert task.record(asked, {"y": with_scores}, right)["points"] == wanted


def test_an_object_that_was_cut_out_has_its_points_in_the_cut() -> None:
    """Points in the input's pixels would be compared with those of a picture of another size."""
    right = {"points": [[10, 100, 2]], "area": 5000.0, "size": (200.0, 50.0)}
    record = Keypoints().record(Asked("m", (100, 100)), {"y": np.array([[20.0, 50.0]], np.float32)}, right)
    assert record["points"] == [[10.0, 100.0]]


def test_other_counts_of_points_are_one_line() -> None:
    """A network of 21 points of a hand cannot be measured on 17 of a person."""
    with pytest.raises(DataError, match="m: gives 2 points, but the samples have 17"):
        Keypoints().check(Asked("m", FRAME), {"y": np.zeros((1, 4))}, Targets([target(np.random.default_rng(0))], ["s"]))
    with pytest.raises(DataError, match="no x, y of points"):
        Keypoints().check(Asked("m", FRAME), {"y": np.zeros((1, 5))}, Targets([target(np.random.default_rng(0))], ["s"]))


def test_ap_is_that_of_pycocotools_on_whole_pictures() -> None:
    """AP joins objects of one picture: a sure wrong answer must cost, and places in cuts are no places in pictures."""
    coco, cocoeval = (import_module(f"pycocotools.{name}") for name in ("coco", "cocoeval"))
    random = np.random.default_rng(4)
    corners = [(10.0, 5.0), (80.0, 5.0), (10.0, 90.0)]
    targets = [
        {**target(random), "size": FRAME, "corner": corner, "picture": picture}
        for corner, picture in zip(corners, ("a", "a", "b"), strict=True)
    ]
    task, records, objects, answers = Keypoints(), [], [], []
    for number, (right, noise) in enumerate(zip(targets, (1.0, 9.0, 3.0), strict=True), 1):
        points = np.array(right["points"])
        heat = np.column_stack([points[:, :2] + random.normal(scale=noise, size=(17, 2)), random.uniform(0.2, 0.9, 17)])
        records.append(task.record(Asked("m", FRAME), {"y": heat[None].astype(np.float32)}, right))
        shift = np.array([*right["corner"], 0])
        about = {"image_id": 1 if right["picture"] == "a" else 2, "category_id": 1}
        box = [*right["corner"], FRAME[1], FRAME[0]]
        known = {"num_keypoints": int((points[:, 2] > 0).sum()), "keypoints": (points + shift).ravel().tolist()}
        objects.append({**about, **known, "id": number, "bbox": box, "area": right["area"], "iscrowd": 0})
        placed = np.column_stack([np.array(records[-1]["points"]) + shift[:2], np.ones(17)]).ravel().tolist()
        answers.append({**about, "keypoints": placed, "score": float(heat[:, 2].astype(np.float32).mean())})
    truth = coco.COCO()
    truth.dataset = {"info": {}, "images": [{"id": 1}, {"id": 2}], "categories": [{"id": 1}], "annotations": objects}
    truth.createIndex()
    judged = cocoeval.COCOeval(truth, truth.loadRes(answers), "keypoints")
    judged.evaluate()
    judged.accumulate()
    judged.summarize()
    found = task.wholes(records, Targets(targets, ["s"] * 3))
    assert [found[name].of(np.arange(3)) for name in ("ap", "ap50", "ap75")] == pytest.approx(list(judged.stats[:3]))
    assert 0 < judged.stats[0] < 1
    assert task.wholes([records[0]], Targets([target(random)], ["s"])) == {}
