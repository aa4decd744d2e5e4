"""Detections and suppression by the native library are those of numpy, to the bit."""

import numpy as np
import pytest

from cnna.host.native import detect
from cnna.host.native.detect import Decoder, by_numpy, suppressed
from cnna.spec.detection.suppression import kept

from .detector_cases import cases


def test_detections_are_numpys() -> None:
    """A board with the library would answer otherwise than one without: another box, order, tie or threshold."""
    counts = []
    for heads, tensors, settings in cases(150, seed=3):
        found, wanted = Decoder(heads, settings)(tensors), by_numpy(heads, tensors, settings)
        assert found.classes.tolist() == wanted.classes.tolist()
        assert found.scores.tobytes() == wanted.scores.tobytes()
        assert found.boxes.tobytes() == wanted.boxes.tobytes()
        counts.append(len(found.scores))
    assert min(counts) == 0
    assert max(counts) > 100


@pytest.mark.parametrize("most", [1, 2, 50])
def test_the_surest_candidates_are_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more candidates than suppression takes, others than the surest would be dropped, or time would have no bound."""
    monkeypatch.setattr(detect, "MOST_CANDIDATES", most)
    for heads, tensors, settings in cases(40, seed=4):
        found, wanted = Decoder(heads, settings)(tensors), by_numpy(heads, tensors, settings)
        assert found.boxes.tobytes() == wanted.boxes.tobytes()
        assert found.classes.tolist() == wanted.classes.tolist()
        assert len(found.scores) <= most


@pytest.mark.parametrize("count", [*range(65), 300])
def test_suppression_is_numpys(count: int) -> None:
    """Doubles would stay, or boxes that touch would go, with the library alone."""
    rng = np.random.default_rng(count)
    low = rng.integers(0, 20, (count, 2))
    boxes = np.concatenate([low, low + rng.integers(-1, 9, (count, 2))], axis=1).astype(np.float32)
    for overlap in (0.0, 0.25, 0.5, 1.0):
        assert suppressed(boxes, overlap).tolist() == kept(boxes, overlap).tolist()
    turned = np.asfortranarray(boxes)
    assert suppressed(turned, 0.5).tolist() == kept(boxes, 0.5).tolist()


def test_numbers_that_are_none_go_to_numpy() -> None:
    """NaN is neither greater nor smaller, and two languages would order it in two ways."""
    boxes = np.array([[0, 0, 2, 2], [np.nan, 0, 2, 2], [0, 0, np.inf, 2], [0, 0, 2, 2]], np.float32)
    with np.errstate(invalid="ignore"):
        assert suppressed(boxes, 0.5).tolist() == kept(boxes, 0.5).tolist()
