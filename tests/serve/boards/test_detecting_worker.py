"""A detector on a PYNQ board's worker: boxes come of the accelerator's words, by any thresholds, as `cnna.Detector` finds them."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.host.model.detections import Detections
from cnna.host.model.detector import Detector, settings_of
from cnna.host.native.detect import Decoder
from cnna.serve.boards.pynq_runner import Pynq
from cnna.serve.models.answering import MOST_SETTINGS, Answering
from cnna.spec.artifact import load, save

from ... import detector_models
from ...host.cached_board import CachedBoard
from .test_pynq_worker import Front, working

BYTES, AT = 1 << 17, 1 << 16
PICTURES = np.ascontiguousarray(detector_models.pictures(3, seed=9).transpose(0, 2, 3, 1))
OWN = (0.4, 0.3, "best")  # least, overlap, labels


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R/digits/1/tiny-b1.cnna, a detector."""
    root = tmp_path_factory.mktemp("r")
    (root / "digits" / "1").mkdir(parents=True)
    save(detector_models.made("yolov8").artifact, root / "digits" / "1" / "tiny-b1.cnna")
    return root


@pytest.fixture
def front(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """A worker on a board whose memory is not coherent, which has loaded the detector."""
    board = CachedBoard(tmp_path, seed=3)
    with working(published, PICTURES, monkeypatch, board) as (one, _):
        one.send(one.load(1, 1))
        assert one.answer()["job"] == 1
        yield one
    board.shut()


def run(front: Front, job: int, picture: int, **more: Any) -> dict[str, Any]:
    """A picture to the detector; its boxes go behind it."""
    front.slots[job % 2].fit(BYTES)
    entries = front.slots[job % 2].write({"x": [PICTURES[picture : picture + 1]]})
    place = {"slot": job % 2, "bytes": BYTES, "inputs": entries, "outputs_at": AT}
    return {"job": job, "do": "run", "key": "b1", **place, **more}


def wanted(published: Path, picture: int, **settings: Any) -> Detections:
    with Detector(published / "digits" / "1" / "tiny-b1.cnna", "emulator", **settings) as detector:
        return detector.detect(PICTURES[picture])


def is_as_wanted(front: Front, answer: dict[str, Any], found: Detections) -> None:
    assert "error" not in answer, answer
    made = front.slots[answer["job"] % 2].read(answer["outputs"])
    count = len(found.boxes)
    assert 0 < count < 200
    np.testing.assert_allclose(made["boxes"][0, :count], found.boxes, atol=1e-4)
    np.testing.assert_array_equal(made["scores"][0, : count + 1], [*found.scores, 0])
    np.testing.assert_array_equal(made["classes"][0, : count + 1], [*found.classes, -1])


def test_boxes_come_of_the_words_by_each_batchs_own_thresholds(
    front: Front, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Serving would unpack and scan dense heads, which takes seven times as long; or a batch would have others' thresholds."""
    expected = [wanted(published, 0), wanted(published, 1, least=OWN[0], overlap=OWN[1], labels=OWN[2]), wanted(published, 2)]
    monkeypatch.setattr(Decoder, "__call__", None)  # which takes dense tensors
    front.send(run(front, 2, 0), run(front, 3, 1, detect=OWN))
    is_as_wanted(front, front.answer(), expected[0])
    answer = front.answer()
    is_as_wanted(front, answer, expected[1])
    assert "decode_seconds" not in answer, "the run loop has decoded, as a part of the run"
    front.send(run(front, 4, 2))
    is_as_wanted(front, front.answer(), expected[2])


def test_a_board_without_a_plan_decodes_dense_heads(front: Front, published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board whose library is missing, or whose heads have strange names, would answer nothing, or other boxes."""
    expected = wanted(published, 1, least=OWN[0], overlap=OWN[1], labels=OWN[2])
    monkeypatch.setattr(Pynq, "plan", lambda self, key, wanted: None)
    front.send(run(front, 3, 1, detect=OWN))
    answer = front.answer()
    is_as_wanted(front, answer, expected)
    assert 0 < answer["decode_seconds"] <= answer["seconds"]


def test_thresholds_of_clients_do_not_pile_up(published: Path) -> None:
    """A client that sends another threshold with each request would fill the worker's memory."""
    answering, made = Answering("m", load(published / "digits" / "1" / "tiny-b1.cnna")), list[weakref.ref[Decoder]]()

    def detecting(decoder: Decoder) -> None:
        made.append(weakref.ref(decoder))

    for number in range(3 * MOST_SETTINGS):
        for _ in range(2):
            answering.plan(detecting, settings_of(least=number / 100))
    assert len(made) == 3 * MOST_SETTINGS, "those of the last request are remembered"
    gc.collect()
    assert sum(one() is not None for one in made) == MOST_SETTINGS
