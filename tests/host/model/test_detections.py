"""Decoding, suppression and overlap, with cases computed by hand."""

import numpy as np
import pytest

from cnna.host.model.detections import (
    Detections,
    best,
    corners,
    iou,
    matches,
    ssd_boxes,
    ssd_priors,
    suppress,
    yolo_rows,
    yolov5_rows,
    yolox_rows,
)
from cnna.spec.errors import DataError


def boxes(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, np.float32).reshape(-1, 4)


def test_overlap_is_the_shared_part_of_both_together() -> None:
    """2 of 6, all, none, a touching edge, and boxes without an area."""
    a = boxes((0, 0, 2, 2), (5, 5, 5, 5))
    b = boxes((1, 0, 3, 2), (0, 0, 2, 2), (9, 9, 10, 10), (2, 0, 4, 2), (5, 5, 5, 5))
    assert iou(a, b)[0] == pytest.approx([1 / 3, 1, 0, 0, 0])
    assert not iou(a, b)[1].any()
    assert iou(boxes(), b).shape == (0, 5)


def test_doubles_are_suppressed_by_the_surer_one() -> None:
    """The second box overlaps the first by a third, the third equals the first; a suppressed box must suppress nothing."""
    found = boxes((0, 0, 2, 2), (1, 0, 3, 2), (0, 0, 2, 2), (2, 0, 4, 2))
    scores = np.array([0.9, 0.8, 0.95, 0.7])
    assert suppress(found, scores, 0.5).tolist() == [2, 1, 3]
    assert suppress(found, scores, 0.3).tolist() == [2, 3]
    assert suppress(boxes(), np.zeros(0)).tolist() == []


def test_best_keeps_classes_apart() -> None:
    """A person on a horse is no double. The surest must come first, and unsure ones be left out."""
    same = boxes((0, 0, 2, 2), (0, 0, 2, 2), (4, 4, 6, 6))
    scores = np.array([[0.6, 0.1], [0.7, 0.9], [0.4, 0.3]])
    found = best(same, scores)
    assert found.scores == pytest.approx([0.9, 0.7])
    assert found.classes.tolist() == [1, 0]
    assert found.boxes.tolist() == [[0, 0, 2, 2]] * 2
    assert len(best(same, scores, most=1).scores) == 1
    assert best(same, scores, least=0.99).boxes.shape == (0, 4)
    with pytest.raises(DataError, match=r"\[N, classes\]"):
        best(same, scores[:2])


def test_priors_stand_in_the_middle_of_their_cells() -> None:
    """A picture of 4 rows and 8 columns at stride 4 has one row of two cells with two squares each, then one cell at stride 8."""
    priors = ssd_priors((4, 8), [4, 8], [[2, 4], [8]])
    assert priors == pytest.approx(
        boxes((0.25, 0.5, 0.25, 0.5), (0.25, 0.5, 0.5, 1), (0.75, 0.5, 0.25, 0.5), (0.75, 0.5, 0.5, 1), (0.5, 0.5, 1, 2))
    )


def test_ssd_offsets_move_and_scale_their_priors() -> None:
    """No offset is the prior. 10 moves it by its size, since the variance is 0.1; 5 ln 2 doubles it, since the other one is 0.2."""
    priors = boxes((0.5, 0.5, 0.2, 0.4))
    assert ssd_boxes(boxes((0, 0, 0, 0)), priors) == pytest.approx(boxes((0.4, 0.3, 0.6, 0.7)))
    assert ssd_boxes(boxes((10, -5, 0, 0)), priors) == pytest.approx(boxes((0.6, 0.1, 0.8, 0.5)), abs=1e-6)
    assert ssd_boxes(boxes((0, 0, 5 * np.log(2), 0)), priors) == pytest.approx(boxes((0.3, 0.3, 0.7, 0.7)))
    with pytest.raises(DataError, match="strides"):
        ssd_boxes(boxes(), priors)


def test_yolo_rows_have_centres_and_sizes() -> None:
    """With objectness the scores must be products."""
    rows = np.array([[10, 20, 4, 8, 0.5, 0.8, 0.2]], np.float32)
    found, scores = yolo_rows(rows, objectness=True)
    assert found.tolist() == [[8, 16, 12, 24]]
    assert scores == pytest.approx(np.array([[0.4, 0.1]]))
    assert yolo_rows(rows, objectness=False)[1] == pytest.approx(np.array([[0.5, 0.8, 0.2]]))
    assert corners(rows).tolist() == found.tolist()


def test_yolox_cells_are_counted_row_by_row_and_stride_by_stride() -> None:
    """A picture of 8 by 16: two cells at stride 8 after eight at stride 4; the last but one is moved by half a cell and doubled."""
    rows = np.zeros((10, 6), np.float32)
    rows[9] = [0.5, 0, np.log(2), 0, 0.3, 0.6]
    found = yolox_rows(rows, (8, 16), [4, 8])
    assert found[5].tolist() == [4, 4, 4, 4, 0, 0]  # row 1, column 1 of four
    assert found[9] == pytest.approx([12, 0, 16, 8, 0.3, 0.6])
    with pytest.raises(DataError, match="has 10"):
        yolox_rows(rows[:9], (8, 16), [4, 8])


def test_yolov5_heads_are_decoded_by_their_anchors() -> None:
    """Zeros are the middle of each cell and the anchor itself; a large number is the limit: 1.5 cells on, four times the anchor."""
    head = np.zeros((2 * 6, 1, 2), np.float32)
    head[6:, 0, 1] = 1e4
    found = yolov5_rows(head, [(10, 20), (30, 40)], 8)
    assert found[0] == pytest.approx([4, 4, 10, 20, 0.5, 0.5])
    assert found[1] == pytest.approx([12, 4, 10, 20, 0.5, 0.5])
    assert found[3] == pytest.approx([20, 12, 120, 160, 1, 1])
    with pytest.raises(DataError, match="12 channels"):
        yolov5_rows(head, [(1, 1)] * 5, 8)


def test_matches_pair_each_detection_once() -> None:
    """Of two detections that overlap one wanted box, the nearer must get it. Other classes must not match."""

    def of(*rows: tuple[float, ...], classes: list[int]) -> Detections:
        return Detections(boxes(*rows), np.ones(len(rows), np.float32), np.array(classes, np.int64))

    wanted = of((0, 0, 4, 4), (10, 10, 14, 14), (20, 20, 24, 24), classes=[0, 0, 1])
    found = of((0, 0, 4, 3), (0, 0, 4, 4), (20, 20, 24, 24), (10, 10, 14, 13), classes=[0, 0, 0, 0])
    assert matches(found, wanted) == [(1, 0, 1.0), (3, 1, 0.75)]
    assert matches(found, of(classes=[])) == matches(of(classes=[]), found) == []
