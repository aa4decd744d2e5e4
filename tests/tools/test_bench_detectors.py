"""The rows of detectors: floors are for the slow end, counts are those of the way to boxes, and a miss has its cause."""

import json
from pathlib import Path
from typing import Any

import bench_detectors
from bench_rows import BOXES, DETECTORS, OWN, WHY_BOXES, Row, rows

from cnna.spec.host_time.detector_time import CANDIDATES, candidate_instructions
from cnna.spec.host_time.host_work import HostWork

ROW = Row("yolov8n", 1)
WORK = HostWork(libraries=1_000_000, native=1_000_000).counts()
FOUND: dict[str, Any] = {"predicted": {"fps_at_300mhz": 223.0}, "measured": None, "pieces": [1, 1], "host": None}


def test_candidates_come_on_top_of_the_counts() -> None:
    """Heads of which nothing passes would be shown as a street full of cars."""
    kept = {ROW.key: {BOXES: {"stream": {"python": WORK}, "single": {"python": WORK}}}}
    whole = bench_detectors.to_boxes(ROW, FOUND, kept)
    assert whole is not None
    assert whole.stream.libraries == 1_000_000 + CANDIDATES * candidate_instructions(80, 16)
    assert bench_detectors.to_boxes(ROW, FOUND, {ROW.key: {"native": kept[ROW.key][BOXES]}}) is None
    assert bench_detectors.section({ROW.key: FOUND}, {}) == []
    (cells,) = bench_detectors.section({ROW.key: FOUND}, kept)
    assert len(cells) == len(bench_detectors.HEADS)
    assert cells[:2] == (ROW.key, "223")
    assert cells[3] == "200"


def test_areas_that_were_drawn_are_not_added() -> None:
    """A map of text would be shown with its areas twice."""
    row = Row("dbnet", 1)
    whole = bench_detectors.to_boxes(row, FOUND, {row.key: {BOXES: {"stream": {"python": WORK}, "single": {"python": WORK}}}})
    assert whole is not None
    assert whole.stream.libraries == 1_000_000


def test_own_outputs_have_their_own_counts() -> None:
    """They would be shown as slow as onnxruntime's decode, where the file's tables make them."""
    slow = HostWork(libraries=1e9, native=1e9).counts()
    counts = {
        ROW.key: {path: {mode: {"python": work} for mode in ("stream", "single")} for path, work in ((BOXES, WORK), (OWN, slow))}
    }
    (cells,) = bench_detectors.section({ROW.key: FOUND}, counts)
    assert cells[2] != cells[-1], "both columns have the counts of one path"
    counts[ROW.key][OWN] = {mode: {"python": WORK} for mode in ("stream", "single")}
    (quick,) = bench_detectors.section({ROW.key: FOUND}, counts)
    assert quick[-1] != cells[-1], "the column does not follow the counts"


def test_a_miss_is_said_with_its_cause(root: Path) -> None:
    """A floor would be missed silently, or a cause stay when it is met."""
    slow = {ROW.key: {BOXES: {"stream": {"python": HostWork(libraries=1e9, native=1e9).counts()}, "single": {}}}}
    (line,) = bench_detectors.missed({ROW.key: FOUND}, slow)
    assert line.startswith("- **yolov8n/b1**, to boxes: ")
    assert "of 200 at the slow end" in line
    kept, counts = (json.loads((root / "docs" / name).read_text()) for name in ("performance.json", "host_cost.json"))
    short = {line.split("**")[1] for line in bench_detectors.missed(kept, counts)}
    counted = {
        row.key for row in bench_detectors.rows() if row.key in kept and bench_detectors.to_boxes(row, kept[row.key], counts)
    }
    assert short == set(WHY_BOXES) & counted, "each miss has a cause, and no other row has"


def test_every_detector_is_a_row() -> None:
    """A detector would never be counted, since its name is no row's."""
    assert {row.key for row in bench_detectors.rows()} <= {row.key for row in rows()}
    assert [row.key for row in bench_detectors.rows() if row.deep] == ["yolov3/b1/x2"]
    assert all(bench_detectors.floor_of(row) > 0 for row in bench_detectors.rows())
    assert set(DETECTORS) == {row.network for row in bench_detectors.rows()}
