"""Detections on the accelerator's own words, by the run loop: those of dense heads, to the bit, on memory that is not coherent."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import cnna
from cnna.compiler.compile import compile_model
from cnna.compiler.heads.find import with_detector
from cnna.host.model.detections import Detections
from cnna.host.native.detect import Decoder
from cnna.spec.artifact import Artifact
from cnna.spec.config import preset
from cnna.spec.detection.heads import table_text

from ... import detector_models, head_models
from ..cached_board import CachedBoard

LEAST = 0.3
PICTURES = [np.ascontiguousarray(picture.transpose(1, 2, 0)) for picture in detector_models.pictures(5, seed=9)]
CONFIGS = {"words of 4": preset("tiny"), "words of 16": replace(preset("tiny"), ci=16, co=16)}


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CachedBoard]]:
    """Boards that a test adds, on which Python's own way of running jobs would be an error."""
    monkeypatch.setattr("cnna.host.model.board_model.PingPong", None)
    made: list[CachedBoard] = []
    yield made
    for board in made:
        board.shut()
        assert not board.buffers, "a test has left memory allocated"


@cache
def artifact(name: str, words: str, batch: int = 1) -> Artifact:
    made = head_models.made if name in head_models.VARIANTS else detector_models.made
    return with_detector(compile_model(made(name).model, CONFIGS[words], batch=batch))[0]


@cache
def wanted(name: str, words: str) -> list[Detections]:
    """By dense head tensors, of an emulator whose memory is coherent."""
    with cnna.Detector(artifact(name, words), "emulator", least=LEAST) as detector:
        return [detector.detect(picture) for picture in PICTURES]


def differ(found: Sequence[tuple[np.ndarray, ...]], others: Sequence[tuple[np.ndarray, ...]]) -> int:
    """How many pictures have other detections."""
    assert len(found) == len(others)
    assert any(len(one[0]) for one in others)
    pairs = zip(found, others, strict=True)
    return sum(not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)) for one, other in pairs)


@pytest.mark.parametrize("words", CONFIGS)
@pytest.mark.parametrize("name", ["yolov5", "yolox raw", "yolov8", "yolov8 joined first", "yolov3", "dbnet"])
def test_detections_are_those_of_dense_heads(
    boards: list[CachedBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    """A channel of another word, a line that is not invalidated, or the run after it would give other boxes."""
    expected = wanted(name, words)
    monkeypatch.setattr(Decoder, "__call__", None)  # which takes dense tensors
    boards.append(CachedBoard(tmp_path, seed=3, config=CONFIGS[words]))
    with cnna.Detector(artifact(name, words), boards[0], least=LEAST) as detector:
        assert not differ([detector.detect(picture) for picture in PICTURES], expected)
        assert not differ(list(detector.stream(PICTURES)), expected)


@pytest.mark.parametrize("words", CONFIGS)
def test_images_of_a_batch_are_told_apart(boards: list[CachedBoard], tmp_path: Path, words: str) -> None:
    """The second picture would get the boxes of the first, or the copy that completes a batch would be answered."""
    boards.append(CachedBoard(tmp_path, config=CONFIGS[words]))
    with cnna.Detector(artifact("yolov5", words, batch=2), boards[0], least=LEAST) as detector:
        assert not differ(list(detector.stream(PICTURES)), wanted("yolov5", words))
        assert not differ([detector.detect(PICTURES[0])], wanted("yolov5", words)[:1])


def test_a_line_that_is_forgotten_changes_a_box(boards: list[CachedBoard], tmp_path: Path) -> None:
    """The tests above would pass without any maintenance of the cache, if the model of memory were coherent."""
    boards.append(CachedBoard(tmp_path, forget="invalidate", config=CONFIGS["words of 16"]))
    with cnna.Detector(artifact("yolov5", "words of 16"), boards[0], least=LEAST) as detector:
        assert differ(list(detector.stream(PICTURES)), wanted("yolov5", "words of 16"))


def test_a_scan_leaves_words_that_it_does_not_need(boards: list[CachedBoard], tmp_path: Path) -> None:
    """All of a detector's heads would come through the cache again, of which a picture needs the objectness and a few boxes."""
    board = CachedBoard(tmp_path)
    boards.append(board)
    with cnna.Detector(artifact("yolov5", "words of 4"), board, least=1.0) as detector:
        whole = sum(port["image_bytes"] for port in detector.session.artifact.programs[0].manifest["outputs"])
        before = board.model.invalidated_bytes
        assert not len(detector.detect(PICTURES[0]).boxes)
    assert 0 < board.model.invalidated_bytes - before < whole


def test_a_map_without_areas_costs_every_fourth_row(boards: list[CachedBoard], tmp_path: Path) -> None:
    """Each cell of a map is in a word of its own: most of a picture's time would go into words that say nothing."""
    board, one = CachedBoard(tmp_path), artifact("dbnet", "words of 4")
    boards.append(board)
    scores = np.append(np.linspace(0, 0.29, 255), 0.31)  # so that the greatest integer alone passes
    quiet = replace(one, manifest={**one.manifest, "detector": {**one.manifest["detector"], "tables": [table_text(scores)]}})
    with cnna.Detector(quiet, board, least=LEAST) as detector:
        (port,) = detector.session.artifact.programs[0].manifest["outputs"]
        before = board.model.invalidated_bytes
        assert not len(detector.detect(PICTURES[0]).boxes)
    assert board.model.invalidated_bytes - before == port["image_bytes"] // 4


def test_a_board_still_gives_the_models_outputs(boards: list[CachedBoard], tmp_path: Path) -> None:
    """A session whose runs end in boxes would have no head tensors for those who want them."""
    boards.append(CachedBoard(tmp_path))
    one = artifact("yolov5", "words of 4")
    with cnna.Detector(one, "emulator") as detector:
        expected = detector.outputs(PICTURES[1])
    with cnna.Detector(one, boards[0], least=LEAST) as detector:
        for _ in range(2):  # the second run is one call of the library
            assert not differ([detector.detect(PICTURES[0])], wanted("yolov5", "words of 4")[:1])
            found = detector.outputs(PICTURES[1])
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[name], expected[name]) for name in found)
