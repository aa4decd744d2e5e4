"""Scores of every kind are what the words say: a softmax, a peak of nine cells, an area of cells that touch."""

import numpy as np
import pytest

from cnna.spec.cpu_ops import softmax
from cnna.spec.detection import areas
from cnna.spec.detection.decode import candidates
from cnna.spec.detection.heads import AREAS, PEAKS, SOFTMAX, Heads

from ...head_models import flooded
from ...host.native.detector_cases import KINDS, cases

CASES = list(cases(len(KINDS) * 12, seed=6))


def of_kind(kind: str) -> list[tuple[Heads, list[np.ndarray]]]:
    """Drawn detectors of a kind, and their head tensors."""
    return [(case.heads, case.tensors) for case in CASES if case.heads.scores == kind]


@pytest.mark.parametrize("least", [0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
def test_a_softmax_is_never_lost_to_its_prefilter(least: float) -> None:
    """A limit on integers that is too high would drop a box whose score counts; too low a one takes time alone."""
    passed = 0
    for heads, tensors in of_kind(SOFTMAX):
        found = candidates(heads, tensors, least, "all", 1 << 20)
        scores = np.zeros((heads.boxes, heads.entry["labels"]))
        for grid in heads.entry["grids"]:
            head, channel, _ = grid["classes"]
            q = tensors[head][channel : channel + heads.entry["labels"] + 1].reshape(heads.entry["labels"] + 1, -1)
            first, down, across = grid["row"]
            rows = first + (down * np.arange(grid["size"][0])[:, None] + across * np.arange(grid["size"][1])).reshape(-1)
            scores[rows] = softmax((q.T * 0.1).astype(np.float32))[:, 1:]  # the weights of these cases are exp(-0.1 d)
        wanted = (scores >= least - 1e-6).sum()
        assert (scores >= least + 1e-6).sum() <= len(found.scores) <= wanted
        np.testing.assert_allclose(found.scores, scores[found.rows, found.classes], atol=1e-6)
        passed += len(found.scores)
    assert passed or least == 1.0


def test_a_peak_has_no_greater_neighbour() -> None:
    """Each object would be found once more for each cell beside its middle, or a peak at an edge be lost."""
    passed = 0
    for heads, tensors in of_kind(PEAKS):
        found = candidates(heads, tensors, 0.0, "all", 1 << 20)
        passed += len(found.rows)
        count = 0
        for grid in heads.entry["grids"]:
            head, channel, table = grid["classes"]
            scores = heads.tables[table][tensors[head][channel : channel + heads.entry["labels"]].astype(int) + 128]
            for (label, y, x), one in np.ndenumerate(scores):
                count += one >= scores[label, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].max()
        assert len(found.rows) == count
    assert passed


def test_an_area_is_what_a_walk_reaches() -> None:
    """A word would be cut in two where a run of cells ends, or two be one; a thin or a round area would have another box."""
    passed = 0
    for heads, tensors in of_kind(AREAS):
        scores = heads.tables[heads.entry["grids"][0]["classes"][2]][
            tensors[0][heads.entry["grids"][0]["classes"][1]].astype(int) + 128
        ]
        found = areas.found(scores)
        wanted = []
        for area in flooded(scores >= np.float32(areas.CELL_SCORE)):
            y, x = np.array(area).T
            wide, high = int(np.ptp(x)), int(np.ptp(y))
            if min(wide, high) >= areas.LEAST_SIDE:
                grown = areas.GROWTH * wide * high / (2 * (wide + high))
                box = [x.min() - grown, y.min() - grown, x.max() + grown, y.max() + grown]
                wanted.append((box, scores[y, x].mean(dtype=np.float64), area[0][0] * scores.shape[1] + area[0][1]))
        assert found.cells.tolist() == [cell for _, _, cell in wanted]
        if wanted:
            np.testing.assert_allclose(found.boxes, [box for box, _, _ in wanted], rtol=1e-12)
            np.testing.assert_allclose(found.scores, [score for _, score, _ in wanted], rtol=1e-6)
        passed += len(wanted)
    assert passed
